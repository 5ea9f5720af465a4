"""Generates the tables of measurements in the documentation from the benchmark results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import exp, log
from pathlib import Path
from typing import Any

from .markdown import table

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks/results"

Row = Mapping[str, Any]

_SMALLEST = 16
"""Size in MB from which on call overhead no longer matters for a kernel's speed."""

LIBRARIES = {"opwire": "**opwire**", "numpy": "NumPy", "onnxruntime": "ONNX Runtime", "torch": "PyTorch", "jax": "JAX"}


@cache
def stored(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def rows(name: str) -> list[Row]:
    found: list[Row] = stored(name)["rows"]
    return found


def _grouped(found: Iterable[Row], *names: str) -> dict[tuple[str, ...], list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in found:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def _mean(found: Iterable[Row]) -> str:
    logarithms = [log(row["ratio"]) for row in found]
    return f"{exp(sum(logarithms) / len(logarithms)):.2f}"


def _ends(found: list[Row], told: Callable[[Row], str]) -> Iterator[str]:
    """Yields the lowest and the highest ratio, with the case."""
    ordered = sorted(found, key=lambda row: float(row["ratio"]))
    return (f"{row['ratio']:.2f} ({told(row)})" for row in (ordered[0], ordered[-1]))


def _joined(row: Row, separator: str, *names: str) -> str:
    return separator.join(row[name] for name in names if row[name])


def _short(name: str) -> str:
    return name.removeprefix("ELEMENT_WISE_").removeprefix("ACTIVATION_")


def conditions(name: str) -> str:
    """Describes the machine of a benchmark run, and how it was measured."""
    found = stored(name)["conditions"]
    load = f" The machine had a load of up to {found['load']:.1f}." if "load" in found else ""
    return (
        f"Processor `{found['processor']}`, threads: {found['threads']}; {found['clock']} of several calls. "
        f"{versions(found['versions'])}.{load}"
    )


def versions(versions: Mapping[str, str]) -> str:
    titles = {**LIBRARIES, "mpmath": "mpmath"}
    return ", ".join(f"{titles[name]} {number}" for name, number in versions.items())


def kernels() -> str:
    """Returns the speedup of the CPU device over its fastest peer: one row per function."""
    found = [row for row in rows("kernels.json") if row["ratio"] is not None and _megabytes(row) >= _SMALLEST]

    def shown(row: Row) -> str:
        return _joined(row, " ", "layout", "type", "size").replace("_", " ")

    groups = {"**all**": found}
    groups = {name: cells for (name,), cells in _grouped(found, "name").items()} | groups
    return table(
        ["function", ">cases", ">speedup", "minimum", "maximum"],
        ([name, len(cells), _mean(cells), *_ends(cells, shown)] for name, cells in groups.items()),
    )


def _megabytes(row: Row) -> int:
    size: str = row["size"]
    return int(size.removesuffix("MB")) if size.endswith("MB") else 0


def elementwise() -> str:
    """Returns the speedup of element-wise operators over the fastest peer: one row per operator and type."""
    made = []

    def shown(row: Row) -> str:
        return _joined(row, ", ", "layout", "size")

    for (group, name, type_name), cells in _grouped(rows("elementwise.json"), "group", "name", "type").items():
        title = f"x * 0.5 + 0.25, {_short(name)}" if group == "chains of three" else _short(name)
        made.append([title, type_name, len(cells), _mean(cells), *_ends(cells, shown)])
    for (group,), cells in _grouped(rows("elementwise.json"), "group").items():
        made.append([f"**{group}**", "", len(cells), _mean(cells), *_ends(cells, shown)])
    return table(["operator", "type", ">cases", ">speedup", "minimum", "maximum"], made)


def elementwise_by_size(results: str) -> str:
    """Returns the same with one row per group and size."""

    def shown(row: Row) -> str:
        return f"{row['name'].partition('_WISE_')[2] or row['name']}, {row['type']} {row['layout']}"

    groups = sorted(_grouped(rows(results), "group", "size").items())
    return table(
        ["group", "size", ">cases", ">speedup", "minimum", "maximum"],
        ([*group, len(cells), _mean(cells), *_ends(cells, shown)] for group, cells in groups),
    )


def other_families(results: str) -> str:
    """Returns the speedup of the families without products over the fastest peer: one row per family."""
    sizes = list(dict.fromkeys(row["size"] for row in rows(results)))
    made = []
    for (name,), cells in _grouped(rows(results), "group").items():
        by_size = (_mean(row for row in cells if row["size"] == size) for size in sizes)
        ends = _ends(cells, lambda row: _joined(row, ", ", "name", "layout", "size"))
        made.append([name, len(cells), _mean(cells), *by_size, *ends])
    return table(["family", ">cases", ">speedup", *(f">{size}" for size in sizes), "minimum", "maximum"], made)


def movement() -> str:
    """Returns the speed of data movement relative to a plain copy: a row per operator, a column per layout and size."""
    cells = [row for row in rows("families.json") if "copy" in row["seconds"] and row["size"] != "16KB"]
    columns = list(dict.fromkeys((cell["layout"], cell["size"]) for cell in cells))
    shares = {(cell["name"], cell["layout"], cell["size"]): f"{of_copy(cell):.2f}" for cell in cells}
    made = [
        [name, *(shares.get((name, *column), "") for column in columns)]
        for name in dict.fromkeys(cell["name"] for cell in cells)
    ]
    return table(["fraction of copy speed", *(f">{layout}, {size}" for layout, size in columns)], made)


def of_copy(row: Row) -> float:
    return float(row["seconds"]["copy"] / row["seconds"]["opwire"])


_PEERS = ("numpy", "onnxruntime", "torch")


def products(results: str) -> str:
    """Returns the times of the products and of their peers: one row per case."""
    made = []
    for row in rows(results):
        times = (row["seconds"].get(each) for each in ("opwire", *_PEERS))
        shown = ("" if seconds is None else f"{1000 * seconds:.3f}" for seconds in times)
        made.append([row["name"], *shown, f"{1 / row['ratio']:.2f}"])
    return table(["ms", ">opwire", *(f">{LIBRARIES[name]}" for name in _PEERS), ">relative to the fastest"], made)


def correctly_rounded() -> str:
    """Returns the shares of correctly rounded results, as all of opwire's are: one row per size."""
    made = []
    for row in rows("products.json"):
        if row["group"] == "GEMM":
            shares = (_percent(row["equal"][peer]) for peer in _PEERS)
            made.append([row["name"].removeprefix("GEMM "), "100 %", *shares])
    return table(["GEMM", ">opwire", *(f">{LIBRARIES[peer]}" for peer in _PEERS)], made)


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def cuda() -> str:
    """Returns the speedup of one GPU over PyTorch on the same card."""
    found = stored("kernels-cuda.json")["conditions"]
    groups = {name: cells for (name,), cells in _grouped(rows("kernels-cuda.json"), "group").items()}
    name = f"{found['card']}, PyTorch {found['versions']['torch']}"
    means = ([what, _mean(cells)] for what, cells in {**groups, "all": rows("kernels-cuda.json")}.items())
    return table(["operators", f">speedup over PyTorch ({name})"], means)


def cuda_elements() -> str:
    """Returns element-wise operators on one GPU: one row per data type, and one for memory-bound operators."""
    groups: dict[str, list[Row]] = {"memory-bound": []}
    for row in rows("elementwise-cuda.json"):
        is_bound = row["group"] == "arithmetic"
        groups.setdefault("memory-bound" if is_bound else f"functions of {row['type']}", []).append(row)
    return _on_card(groups)


def cuda_families() -> str:
    """Returns other operators on one GPU: one row per family."""
    return _on_card({name: cells for (name,), cells in _grouped(rows("families-cuda.json"), "group").items()})


def _on_card(groups: Mapping[str, list[Row]]) -> str:
    made = []
    for name, cells in groups.items():
        shares = [of_copy(row) for row in cells]
        ends = _ends(cells, lambda row: _short(row["name"]))
        made.append([name, len(cells), f"{min(shares):.2f} to {max(shares):.2f}", _mean(cells), *ends])
    return table(["", ">cases", ">fraction of copy speed", ">speedup over PyTorch", "minimum", "maximum"], made)


def cuda_products() -> str:
    """Returns matrix products and convolutions on one GPU."""
    made = [
        [
            row["name"],
            *(f"{row['seconds'][each] * 1000:.3g}" for each in ("opwire", "torch")),
            f"{row['ratio']:.2f}",
            f"{row['undecided']:.1e}",
            _percent(row["equal"]["torch"]),
        ]
        for row in rows("products-cuda.json")
    ]
    heads = [
        ">opwire, ms",
        ">PyTorch, ms",
        ">speedup",
        ">undecided by the bound",
        ">PyTorch's correctly rounded results",
    ]
    return table(["", *heads], made)


def cuda_scaling() -> str:
    """Returns the throughput of several GPUs of one host."""
    made = ([row["name"], row["devices"], f"{row['rate']:,.0f}", f"{row['ratio']:.2f}"] for row in rows("scaling.json"))
    return table(["operator", ">GPUs", ">operators/s", ">relative to one GPU"], made)


def cuda_cluster() -> str:
    """Returns the throughput of two GPUs of one host as devices of a cluster."""
    made = (
        [row["name"], f"{row['seconds'] * 1e3:.1f}", f"{row['one']:.1f}", f"{row['two']:.1f}", f"{row['ratio']:.2f}"]
        for row in rows("cluster.json")
    )
    return table(["requests", ">alone, ms", ">one GPU, requests/s", ">two GPUs, requests/s", ">speedup"], made)


def networks() -> str:
    """Returns the times of networks in ONNX beside ONNX Runtime, and the errors of both: one row per network."""
    sides = ("opwire", "onnxruntime")
    made = []
    for row in rows("networks.json"):
        times = (f"{row['seconds'][side] * 1e3:.1f}" for side in sides)
        errors = (f"{row['errors'][side]:.1e}" if row["errors"] else "-" for side in sides)
        made.append([row["name"], row["level"], row["nodes"], row["on_cpu"], *times, f"{row['ratio']:.2f}", *errors])
    heads = ["network", "level", ">nodes", ">on the CPU", ">opwire, ms", ">ONNX Runtime, ms", ">ratio"]
    return table([*heads, ">opwire's error", ">ONNX Runtime's error"], made)


def _serving(encoding: str) -> str:
    """Returns requests per second of all servers in one encoding, by tensor and number of connections."""
    sizes = _cases()
    found = [row for row in rows("serving.json") if row["encoding"] == encoding]
    if not any(row["contender"] == "floor" for row in found):
        # The baseline was measured before each of opwire's rows, with the same bytes.
        ours = [row for row in found if row["contender"] == "opwire"]
        found += [{**row, "title": "bare ASGI", "rate": row["floor_rate"]} for row in ours]
    loads = sorted(
        {(row["case"], row["connections"]) for row in found}, key=lambda load: (list(sizes).index(load[0]), load[1])
    )
    forms = list(dict.fromkeys((row["title"], row["form"]) for row in found))
    rates = {(row["title"], row["form"], row["case"], row["connections"]): row["rate"] for row in found}
    columns = ["server", "form", *(f">{sizes[case]}, {connections}" for case, connections in loads)]
    cells = [[*form, *(_rate(rates.get((*form, *load))) for load in loads)] for form in forms]
    order = sorted(cells, key=lambda row: (row[0] != "bare ASGI", row[0] != "opwire", row[0].casefold(), row[1]))
    return table(columns, ([_strong(row[0]), *row[1:]] for row in order))


def _cases() -> dict[str, str]:
    """Returns the sizes of the tensors by name."""
    found = stored("serving.json")["conditions"]["cases"]
    return {name: json.dumps(value, separators=(",", ":")) for name, value in found.items()}


def _strong(name: str) -> str:
    return f"**{name}**" if name == "opwire" else name


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def serving_memory() -> str:
    """Returns peak memory above idle while answering one request at a time, in multiples of the tensor."""
    cases = {name: sizes for name, sizes in _cases().items() if name != "small"}
    most: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in rows("serving.json"):
        if row["case"] in cases:
            most.setdefault((row["title"], row["form"], row["encoding"]), {})[row["case"]] = row["memory"]
    made = [
        [_strong(title), form, encoding, *(f"{values[case]:.1f}" if case in values else "" for case in cases)]
        for (title, form, encoding), values in most.items()
    ]
    return table(["server", "form", "encoding", *(f">{sizes}" for sizes in cases.values())], made)


def serving_machine() -> str:
    """Describes the machine and load of the serving benchmark."""
    found = stored("serving.json")["conditions"]
    machine = found["machine"]
    versions = ", ".join(sorted(version for name, version in found["versions"].items() if name != "opwire"))
    return (
        f"{found['date'][:10]}, {machine['cpu']}, {machine['cores']} cores, Python {machine['python']}; load by "
        f"{found['load']}, {found['rounds']} rounds of {found['seconds']:g} s, medians. {versions}."
    )


def accuracy(results: str, type_name: str, libraries: Sequence[str], group: str = "functions") -> str:
    """Returns the largest error and the share of correctly rounded results: one row per function."""
    titles = {**LIBRARIES, "directml": "DirectML"}
    made = [
        [_short(row["name"]), *(accuracy_cell(row["libraries"].get(library)) for library in libraries)]
        for row in rows(results)
        if row["type"] == type_name and row["group"] == group
    ]
    return table(["function", *(f">{titles[library]}" for library in libraries)], made)


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
    found = stored("accuracy.json")["conditions"]
    return f"{found['points']:,} elements per function and type; {versions(found['versions'])}."


_TWO = "elementwise-2-threads.json"
_ALL = tuple(LIBRARIES)

REGIONS: dict[str, Callable[[], str]] = {
    "accuracy-float32": lambda: accuracy("accuracy.json", "FLOAT32", _ALL),
    "accuracy-float16": lambda: accuracy("accuracy.json", "FLOAT16", _ALL),
    "accuracy-machine": accuracy_machine,
    "elementwise": elementwise,
    "elementwise-machine": lambda: conditions("elementwise.json"),
    "elementwise-2-threads": lambda: elementwise_by_size(_TWO),
    "elementwise-2-threads-machine": lambda: conditions(_TWO),
    "other-families": lambda: other_families("families.json"),
    "movement": movement,
    "other-families-machine": lambda: conditions("families.json"),
    "other-families-2-threads": lambda: other_families("families-2-threads.json"),
    "other-families-2-threads-machine": lambda: conditions("families-2-threads.json"),
    "other-families-avx2": lambda: other_families("families-avx2.json"),
    "other-families-avx2-machine": lambda: conditions("families-avx2.json"),
    "products": lambda: products("products.json"),
    "products-machine": lambda: conditions("products.json"),
    "products-2-threads": lambda: products("products-2-threads.json"),
    "products-2-threads-machine": lambda: conditions("products-2-threads.json"),
    "correctly-rounded": correctly_rounded,
    "kernels": kernels,
    "kernels-machine": lambda: conditions("kernels.json"),
    "networks": networks,
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
