"""Generates the tables of measurements in the documentation from the benchmark results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from math import exp, log
from pathlib import Path
from typing import Any

from .markdown import table

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks/results"

_LARGE = 16 * 2**20
"""Minimum size in bytes at which call overhead no longer matters for a kernel's speed."""


@cache
def stored(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def kernels() -> str:
    """Returns the speedup of the CPU device over its fastest peer: one row per function."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for cell in stored("kernels.json")["cells"]:
        if cell["times_faster"] is not None and cell["bytes"] >= _LARGE:
            name = cell["name"][0]
            groups.setdefault(name, []).append(cell)
    rows = [[name, len(cells), *_spread(cells)] for name, cells in groups.items()]
    every = [cell for cells in groups.values() for cell in cells]
    return table(
        ["function", ">cases", ">speedup", "minimum", "maximum"], [*rows, ["**all**", len(every), *_spread(every)]]
    )


def _spread(cells: list[Mapping[str, Any]]) -> list[str]:
    ordered = sorted(cells, key=lambda cell: float(cell["times_faster"]))
    return [_mean(cell["times_faster"] for cell in cells), _extreme(ordered[0]), _extreme(ordered[-1])]


def _mean(values: Iterable[float]) -> str:
    logarithms = [log(value) for value in values]
    return f"{exp(sum(logarithms) / len(logarithms)):.2f}"


def _extreme(cell: Mapping[str, Any]) -> str:
    return f"{cell['times_faster']:.2f} ({' '.join(cell['name'][1:]).replace('_', ' ')})"


def kernels_machine() -> str:
    """Describes the machine of the kernel benchmark."""
    machine = stored("kernels.json")["machine"]
    return (
        f"Processor `{machine['processor']}`, {machine['threads']} threads, Python {machine['python']}; NumPy "
        f"{machine['numpy']}, ONNX Runtime {machine['onnxruntime']}, PyTorch {machine['pytorch']}."
    )


def _serving(encoding: str) -> str:
    """Returns requests per second of all servers in one encoding, by tensor and number of connections."""
    found = stored("serving.json")
    rows = [row for row in found["rows"] if row["encoding"] == encoding]
    if not any(row["contender"] == "floor" for row in rows):
        # The baseline was measured before each of opwire's rows, with the same bytes.
        rows += [
            {**row, "title": "bare ASGI", "rate": row["floor_rate"]} for row in rows if row["contender"] == "opwire"
        ]
    loads = sorted(
        {(row["case"], row["connections"]) for row in rows},
        key=lambda load: (list(found["cases"]).index(load[0]), load[1]),
    )
    sizes = {name: json.dumps(value, separators=(",", ":")) for name, value in found["cases"].items()}
    forms = list(dict.fromkeys((row["title"], row["form"]) for row in rows))
    rates = {(row["title"], row["form"], row["case"], row["connections"]): row["rate"] for row in rows}
    columns = ["server", "form", *(f">{sizes[case]}, {connections}" for case, connections in loads)]
    cells = [[*form, *(_rate(rates.get((*form, *load))) for load in loads)] for form in forms]
    order = sorted(cells, key=lambda row: (row[0] != "bare ASGI", row[0] != "opwire", row[0].casefold(), row[1]))
    return table(columns, ([_strong(row[0]), *row[1:]] for row in order))


def _strong(name: str) -> str:
    return f"**{name}**" if name == "opwire" else name


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def serving_memory() -> str:
    """Returns peak memory above idle while answering one request at a time, in multiples of the tensor."""
    found = stored("serving.json")
    cases = [name for name in found["cases"] if name != "small"]
    most: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in found["rows"]:
        if row["case"] in cases:
            most.setdefault((row["title"], row["form"], row["encoding"]), {})[row["case"]] = row["memory"]
    sizes = [f">{json.dumps(found['cases'][case], separators=(',', ':'))}" for case in cases]
    rows = [
        [_strong(title), form, encoding, *(f"{values[case]:.1f}" if case in values else "" for case in cases)]
        for (title, form, encoding), values in most.items()
    ]
    return table(["server", "form", "encoding", *sizes], rows)


def serving_machine() -> str:
    """Describes the machine and load of the serving benchmark."""
    found = stored("serving.json")
    machine = found["machine"]
    versions = ", ".join(sorted(version for name, version in found["versions"].items() if name != "opwire"))
    return (
        f"{found['date'][:10]}, {machine['cpu']}, {machine['cores']} cores, Python {machine['python']}; load by "
        f"{found['load']}, {found['rounds']} rounds of {found['seconds']:g} s, medians. {versions}."
    )


def cuda() -> str:
    """Returns the speedup of one GPU over PyTorch on the same card."""
    found = stored("cuda-nvidia-h200.json")
    means = {
        "reductions": found["geometric_mean_speedup_of_reductions"],
        "max pooling": found["geometric_mean_speedup_of_max_pooling"],
        "all": found["geometric_mean_speedup_of_the_whole_table"],
    }
    name = f"{found['card']}, PyTorch {found['torch']}"
    return table(
        ["operators", f">speedup over PyTorch ({name})"], ([what, f"{mean:.2f}"] for what, mean in means.items())
    )


def cuda_elements() -> str:
    """Returns element-wise operators on one GPU: one row per data type, and one for memory-bound operators."""
    rows = stored("cuda-elements-nvidia-h200.json")["rows"]
    bound = [row for row in rows if row["bound_by_memory"]]
    groups = {"memory-bound": bound}
    for data_type in ("FLOAT32", "FLOAT16"):
        groups[f"functions of {data_type}"] = [
            row for row in rows if row["data_type"] == data_type and not row["bound_by_memory"]
        ]
    return _on_card(groups, "formula")


def cuda_families() -> str:
    """Returns other operators on one GPU: one row per family."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in stored("cuda-families-nvidia-h200.json")["rows"]:
        groups.setdefault(row["family"], []).append(row)
    return _on_card(groups, "name")


def _on_card(groups: Mapping[str, list[Mapping[str, Any]]], label: str) -> str:
    rows = []
    for name, cells in groups.items():
        ordered = sorted(cells, key=lambda cell: float(cell["speedup"]))
        ends = (f"{cell['speedup']:.2f} ({cell[label]})" for cell in (ordered[0], ordered[-1]))
        shares = [cell["opwire_share"] for cell in cells]
        rows.append(
            [name, len(cells), f"{min(shares):.2f} to {max(shares):.2f}", _mean(c["speedup"] for c in cells), *ends]
        )
    return table(["", ">cases", ">fraction of copy speed", ">speedup over PyTorch", "minimum", "maximum"], rows)


def cuda_products() -> str:
    """Returns matrix products and convolutions on one GPU."""
    rows = [
        [
            row["name"],
            f"{row['opwire_us'] / 1000:.3g}",
            f"{row['torch_us'] / 1000:.3g}",
            f"{row['ratio']:.2f}",
            f"{row['open_share']:.1e}",
            f"{row['torch_right']:.1%}".replace("%", " %"),
        ]
        for row in stored("cuda-products-nvidia-h200.json")["rows"]
    ]
    heads = [
        ">opwire, ms",
        ">PyTorch, ms",
        ">speedup",
        ">undecided by the bound",
        ">PyTorch's correctly rounded results",
    ]
    return table(["", *heads], rows)


def cuda_scaling() -> str:
    """Returns the throughput of several GPUs of one host."""
    found = stored("cuda-scaling-4x-nvidia-h200.json")
    rows = (
        [row["operator"], row["devices"], f"{row['plans_per_second']:,.0f}", f"{row['times_one']:.2f}"]
        for row in found["rows"]
    )
    return table(["operator", ">GPUs", ">operators/s", ">relative to one GPU"], rows)


def cuda_cluster() -> str:
    """Returns the throughput of two GPUs of one host as devices of a cluster."""
    rows = (
        [row["load"], *(f"{row[key]:.1f}" for key in ("alone_ms", "one", "two")), f"{row['times_one']:.2f}"]
        for row in stored("cuda-cluster-2x-nvidia-h200.json")["rows"]
    )
    return table(["requests", ">alone, ms", ">one GPU, requests/s", ">two GPUs, requests/s", ">speedup"], rows)


LIBRARIES = {
    "opwire": "**opwire**",
    "numpy": "NumPy",
    "onnxruntime": "ONNX Runtime",
    "torch": "PyTorch",
    "jax": "JAX",
}


def accuracy(type_name: str) -> str:
    """Returns the largest error and the share of correctly rounded results: one row per function."""
    rows = [
        [
            row["function"].removeprefix("ELEMENT_WISE_").removeprefix("ACTIVATION_"),
            *(accuracy_cell(row["libraries"].get(library)) for library in LIBRARIES),
        ]
        for row in stored("accuracy.json")["rows"]
        if row["type"] == type_name
    ]
    return table(["function", *(f">{title}" for title in LIBRARIES.values())], rows)


def accuracy_cell(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    largest, share = found["largest"], 100 * found["correct"]
    # Rounded down: 100 % means that every result is correct.
    shown = "100" if share == 100 else f"{min(share, 99.99):.2f}"
    return f"{'∞' if largest is None else _ulp(largest)} · {shown} %"


def _ulp(error: float) -> str:
    return f"{error:.3f}" if error < 10 else f"{error:,.0f}"


def accuracy_machine() -> str:
    """Describes the accuracy measurement."""
    found = stored("accuracy.json")
    return f"{found['points']:,} elements per function and type; {versions(found['versions'])}."


def versions(versions: Mapping[str, str]) -> str:
    titles = {**LIBRARIES, "mpmath": "mpmath"}
    return ", ".join(f"{titles[name]} {number}" for name, number in versions.items())


def elementwise() -> str:
    """Returns the speedup of element-wise operators over the fastest peer: one row per operator and type."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for cell in stored("elementwise.json")["cells"]:
        name, type_name, *_ = cell["cell"]
        groups.setdefault((cell["group"], name, type_name), []).append(cell)
    rows = []
    for (group, name, type_name), cells in groups.items():
        title = name.removeprefix("ELEMENT_WISE_").removeprefix("ACTIVATION_")
        title = f"x * 0.5 + 0.25, {title}" if group == "chains of three" else title
        rows.append([title, type_name, len(cells), *_ratios(cells)])
    for group in dict.fromkeys(group for group, _, _ in groups):
        cells = [cell for (of, _, _), found in groups.items() if of == group for cell in found]
        rows.append([f"**{group}**", "", len(cells), *_ratios(cells)])
    return table(["operator", "type", ">cases", ">speedup", "minimum", "maximum"], rows)


def elementwise_by_size(results: str) -> str:
    """Returns the same with one row per group and size."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for cell in stored(results)["cells"]:
        name, type_name, layout, size = cell["cell"]
        shown = {**cell, "cell": ["", "", name.partition("_WISE_")[2] or name, f"{type_name} {layout}"]}
        groups.setdefault((cell["group"], size), []).append(shown)
    rows = [[group, size, len(cells), *_ratios(cells)] for (group, size), cells in sorted(groups.items())]
    return table(["group", "size", ">cases", ">speedup", "minimum", "maximum"], rows)


def _ratios(cells: list[Mapping[str, Any]]) -> list[str]:
    ordered = sorted(cells, key=lambda cell: float(cell["ratio"]))
    ends = [f"{cell['ratio']:.2f} ({', '.join(cell['cell'][2:])})" for cell in (ordered[0], ordered[-1])]
    return [_mean(cell["ratio"] for cell in cells), *ends]


def elementwise_machine(results: str) -> str:
    """Describes the machine of the element-wise benchmark."""
    machine = stored(results)["machine"]
    clock = "CPU time, one thread each" if machine["cpu_time"] else f"{machine['threads']} threads"
    return (
        f"Processor `{machine['processor']}`, {clock}, at a load average of up to {machine['load']}; "
        f"Python {machine['python']}, {versions(machine['versions'])}."
    )


def other_families(results: str) -> str:
    """Returns the speedup of the families without products over the fastest peer: one row per family."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for cell in stored(results)["cells"]:
        groups.setdefault(cell["family"], []).append(cell)
    sizes = list(dict.fromkeys(cell["size"] for cell in stored(results)["cells"]))
    rows = []
    for name, cells in groups.items():
        ordered = sorted(cells, key=lambda cell: float(cell["ratio"]))
        ends = (
            f"{cell['ratio']:.2f} ({cell['name']}, {cell['layout']}, {cell['size']})"
            for cell in ordered[:: len(ordered) - 1]
        )
        by_size = (_mean(cell["ratio"] for cell in cells if cell["size"] == size) for size in sizes)
        rows.append([name, len(cells), _mean(cell["ratio"] for cell in cells), *by_size, *ends])
    return table(["family", ">cases", ">speedup", *(f">{size}" for size in sizes), "minimum", "maximum"], rows)


def movement() -> str:
    """Returns the speed of data movement relative to a plain copy: a row per operator, a column per layout and size."""
    cells = [cell for cell in stored("families.json")["cells"] if "copy" in cell["seconds"] and cell["size"] != "16KB"]
    columns = list(dict.fromkeys((cell["layout"], cell["size"]) for cell in cells))
    shares = {
        (cell["name"], cell["layout"], cell["size"]): f"{cell['seconds']['copy'] / cell['seconds']['opwire']:.2f}"
        for cell in cells
    }
    rows = [
        [name, *(shares.get((name, *column), "") for column in columns)]
        for name in dict.fromkeys(cell["name"] for cell in cells)
    ]
    return table(["fraction of copy speed", *(f">{layout}, {size}" for layout, size in columns)], rows)


def products(results: str) -> str:
    """Returns the times of the products and of their peers: one row per case."""
    rows = []
    for name, cell in stored(results)["cells"].items():
        own, *peers = (cell["seconds"].get(each) for each in ("opwire", "numpy", "onnxruntime", "torch"))
        best = min(seconds for each, seconds in cell["seconds"].items() if each != "opwire")
        times = ("" if seconds is None else f"{1000 * seconds:.3f}" for seconds in (own, *peers))
        rows.append([name, *times, f"{own / best:.2f}"])
    names = (">opwire", *(f">{LIBRARIES[name]}" for name in ("numpy", "onnxruntime", "torch")))
    return table(["ms", *names, ">relative to the fastest"], rows)


def correctly_rounded() -> str:
    """Returns the shares of correctly rounded results: one row per size."""
    rows = []
    for name, cell in stored("products.json")["cells"].items():
        if cell["correctly_rounded"]:
            shares = (f"{cell['correctly_rounded'][peer]:.1%}" for peer in ("numpy", "onnxruntime", "torch"))
            rows.append([name.removeprefix("GEMM "), "100 %", *(share.replace("%", " %") for share in shares)])
    return table(["GEMM", ">opwire", *(f">{LIBRARIES[peer]}" for peer in ("numpy", "onnxruntime", "torch"))], rows)


def _measured(name: str) -> str:
    """Describes the machine of a benchmark run."""
    machine = stored(name)["machine"]
    libraries = ", ".join(f"{LIBRARIES[peer]} {machine[peer]}" for peer in LIBRARIES if peer in machine)
    clock = "CPU time" if machine["processor_time"] else "time"
    found = f"Processor `{machine['processor']}`, threads: {machine['threads']}; minimum {clock} of several calls."
    return f"{found} {libraries}. The machine had {machine['cores']} cores and a load of {machine['load']:.0f}."


REGIONS: dict[str, Callable[[], str]] = {
    "accuracy-float32": lambda: accuracy("FLOAT32"),
    "accuracy-float16": lambda: accuracy("FLOAT16"),
    "accuracy-machine": accuracy_machine,
    "elementwise": elementwise,
    "elementwise-machine": lambda: elementwise_machine("elementwise.json"),
    "elementwise-2-threads": lambda: elementwise_by_size("elementwise-2-threads.json"),
    "elementwise-2-threads-machine": lambda: elementwise_machine("elementwise-2-threads.json"),
    "other-families": lambda: other_families("families.json"),
    "movement": movement,
    "other-families-machine": lambda: _measured("families.json"),
    "other-families-2-threads": lambda: other_families("families-2-threads.json"),
    "other-families-2-threads-machine": lambda: _measured("families-2-threads.json"),
    "other-families-avx2": lambda: other_families("families-avx2.json"),
    "other-families-avx2-machine": lambda: _measured("families-avx2.json"),
    "products": lambda: products("products.json"),
    "products-machine": lambda: _measured("products.json"),
    "products-2-threads": lambda: products("products-2-threads.json"),
    "products-2-threads-machine": lambda: _measured("products-2-threads.json"),
    "correctly-rounded": correctly_rounded,
    "kernels": kernels,
    "kernels-machine": kernels_machine,
    "serving-base64": lambda: _serving("base64"),
    "serving-binary": lambda: _serving("binary"),
    "serving-memory": serving_memory,
    "serving-machine": serving_machine,
    "cuda": cuda,
    "cuda-elements": cuda_elements,
    "cuda-families": cuda_families,
    "cuda-products": cuda_products,
    "cuda-scaling": cuda_scaling,
    "cuda-cluster": cuda_cluster,
}
"""Generators of page regions, by name."""
