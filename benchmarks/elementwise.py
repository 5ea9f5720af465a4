"""Measures elementwise operators on the CPU device against NumPy, PyTorch, JAX and ONNX Runtime.

Run it from the root of the repository: ``python -m benchmarks.elementwise``. It prints one row per cell: nanoseconds
per element for each library, and the CPU device's speedup over the best of the others. They take turns within a cell,
while the threads of the others sleep; the median of each counts. NumPy has one thread. With ``--cpu-time`` all have one
thread and are compared by CPU time, which is meaningful even on a busy machine. Cells may be measured in several runs
with the same ``--output``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from opwire.check import check
from opwire.tensor import Array, DataType
from opwire_service.devices.cpu import CpuDevice

from .elementwise_peers import BIAS, PEERS, SCALE, Call, Operand, Row
from .resting import rest

TYPES = {"FLOAT32": np.float32, "FLOAT16": np.float16, "INT32": np.int32, "UINT8": np.uint8}
LAYOUTS = ("packed", "row", "column", "transposed")
SIZES = {"16MB": 16 << 20, "64MB": 64 << 20, "256KB": 256 << 10, "4KB": 4 << 10}

_ALL = tuple(TYPES)
_INTEGERS = ("INT32", "UINT8")


def _relu(x: Array, out: Array) -> None:
    np.maximum(x, x.dtype.type(0), out=out)


ARITHMETIC = (
    Row("ELEMENT_WISE_ADD", np.add, "add", "add", "Add", _ALL),
    Row("ELEMENT_WISE_MULTIPLY", np.multiply, "mul", "multiply", "Mul", _ALL),
    Row("ELEMENT_WISE_DIVIDE", np.true_divide, "true_divide", "true_divide", "Div"),
    Row("ELEMENT_WISE_MAX", np.maximum, "maximum", "maximum", "Max", _ALL),
    Row("ELEMENT_WISE_LOGICAL_GREATER_THAN", np.greater, "gt", "greater", "Greater", _ALL),
    Row("ELEMENT_WISE_BIT_AND", np.bitwise_and, "bitwise_and", "bitwise_and", "BitwiseAnd", _INTEGERS),
    Row("ELEMENT_WISE_ABS", np.abs, "abs", "abs", "Abs"),
    Row("ELEMENT_WISE_SQRT", np.sqrt, "sqrt", "sqrt", "Sqrt"),
    Row("ACTIVATION_RELU", _relu, "relu", "relu", "Relu"),
)
TRANSCENDENTAL = (
    Row("ELEMENT_WISE_EXP", np.exp, "exp", "exp", "Exp"),
    Row("ELEMENT_WISE_LOG", np.log, "log", "log", "Log"),
    Row("ELEMENT_WISE_SIN", np.sin, "sin", "sin", "Sin"),
    Row("ELEMENT_WISE_TANH", np.tanh, "tanh", "tanh", "Tanh"),
    Row("ELEMENT_WISE_ERF", None, "erf", "", "Erf"),
    Row("ELEMENT_WISE_POW", np.power, "pow", "power", "Pow"),
    Row("ACTIVATION_SIGMOID", None, "sigmoid", "sigmoid", "Sigmoid"),
    Row("ACTIVATION_GELU", None, "gelu", "", "Gelu"),
)
_SCALED: Mapping[str, Any] = {"ScaleBias": {"Scale": SCALE, "Bias": BIAS}}
CHAINS = tuple(
    Row(f"ELEMENT_WISE_{name}", None, name.lower(), "", "", ("FLOAT32",), _SCALED, True)
    for name in ("EXP", "TANH", "SQRT", "ABS", "ERF")
)
_GROUPS = {"arithmetic": ARITHMETIC, "transcendental": TRANSCENDENTAL, "chains of three": CHAINS}


class Cell(NamedTuple):
    """A single measurement.

    Attributes:
        group: group of the operator.
        row: the operator.
        type_name: data type of its tensors.
        layout: layout of the last input.
        size: size of a tensor, a key of ``SIZES``.
    """

    group: str
    row: Row
    type_name: str
    layout: str
    size: str

    @property
    def names(self) -> list[str]:
        return [self.row.name, self.type_name, self.layout, self.size]


_NAMES = sorted({row.name for rows in _GROUPS.values() for row in rows})


def _operands(row: Row, type_name: str, layout: str, size: int) -> dict[str, Operand]:
    dtype = np.dtype(TYPES[type_name])
    draw, count = np.random.default_rng(1), size // dtype.itemsize
    names = ("ATensor", "BTensor") if _is_pair(row) else ("InputTensor",)
    names = ("InputTensor", "ExponentTensor") if row.name.endswith("_POW") else names
    made = {}
    for name in names:
        values = draw.standard_normal(count, np.float32) if dtype.kind == "f" else draw.integers(1, 100, count)
        laid = layout if name == names[-1] else "packed"
        made[name] = _laid((np.abs(values) if row.name.endswith(_POSITIVE) else values).astype(dtype), laid)
    return made


_POSITIVE = ("LOG", "SQRT", "POW")


def _laid(array: Array, layout: str) -> Operand:
    rows = array.reshape(min(1024, array.size // 64), -1)
    if layout == "row":
        return Operand(rows[:1].copy(), layout, np.broadcast_to(rows[:1], rows.shape))
    if layout == "column":
        return Operand(rows[:, :1].copy(), layout, np.broadcast_to(rows[:, :1], rows.shape))
    if layout == "transposed":
        memory = np.ascontiguousarray(rows.T)
        return Operand(memory, layout, memory.T)
    return Operand(rows, layout, rows)


def _is_pair(row: Row) -> bool:
    return isinstance(row.numpy, np.ufunc) and row.numpy.nin == 2


def _opwire(device: CpuDevice, row: Row, operands: Mapping[str, Operand]) -> Call:
    arrays = {name: operand.view for name, operand in operands.items()}
    descs = {
        name: {
            "DataType": DataType.of(array.dtype).name,
            "Sizes": list(array.shape),
            "Strides": [step // array.itemsize for step in array.strides],
        }
        for name, array in arrays.items()
    }
    if "LOGICAL" in row.name:  # one-byte truth values, as in the other libraries
        descs["OutputTensor"] = {"DataType": "UINT8", "Sizes": list(next(iter(arrays.values())).shape)}
    plan = check({"type": row.name, "desc": {**descs, **row.attributes}})
    outputs = {name: np.empty(desc.sizes, desc.data_type.dtype) for name, desc in plan.outputs.items()}
    bound = device.bind(plan, arrays, outputs)
    return lambda: bound(lambda: False)


def _interleaved(calls: Mapping[str, Call], rounds: int, *, cpu_time: bool) -> dict[str, float]:
    clock = time.process_time if cpu_time else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            rest()
            call()
            repeats, used = 0, 0.0
            while used < 5e-3:  # repeats calls that are too short for the clock
                started = clock()
                call()
                used += clock() - started
                repeats += 1
            times[name].append(used / repeats)
    return {name: median(taken) for name, taken in times.items()}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", nargs="+", default=_NAMES)
    parser.add_argument("--types", nargs="+", default=list(TYPES))
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS))
    parser.add_argument("--sizes", nargs="+", default=["16MB", "64MB"], choices=list(SIZES))
    parser.add_argument("--groups", nargs="+", default=list(_GROUPS), choices=list(_GROUPS))
    parser.add_argument(
        "--part", type=_part, default=(1, 1), metavar="K/N", help="only the K-th of N parts of the cells"
    )
    parser.add_argument("--cpu-time", action="store_true", help="one thread each, compared by CPU time")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, help="JSON file for the results; keeps its other cells")
    return parser.parse_args()


def _part(text: str) -> tuple[int, int]:
    which, count = map(int, text.split("/"))
    if not 1 <= which <= count:
        raise argparse.ArgumentTypeError(f"{text} is not a part such as 1/4")
    return which, count


def _all_cells() -> list[Cell]:
    return [
        Cell(group, row, type_name, layout, size)
        for group, rows in _GROUPS.items()
        for row in rows
        for type_name in row.types
        for layout in LAYOUTS
        if layout == "packed" or _is_pair(row) or (layout == "transposed" and not row.chain)
        for size in SIZES
    ]


def _chosen(given: argparse.Namespace) -> list[Cell]:
    """Returns the cells to measure; a part is a contiguous run of them."""
    cells = [
        cell
        for cell in _all_cells()
        if cell.group in given.groups
        and cell.row.name in given.operators
        and cell.type_name in given.types
        and cell.layout in given.layouts
        and cell.size in given.sizes
    ]
    which, count = given.part
    return cells[len(cells) * (which - 1) // count : len(cells) * which // count]


def _figure(device: CpuDevice, cell: Cell, given: argparse.Namespace) -> dict[str, Any] | None:
    """Returns the figures of a cell, or None if no other library supports it."""
    row, operands = cell.row, _operands(cell.row, cell.type_name, cell.layout, SIZES[cell.size])
    calls = {"opwire": _opwire(device, row, operands)}
    started = time.perf_counter()
    calls["opwire"]()
    first = time.perf_counter() - started
    for name, make in PEERS.items():
        call = make(row, list(operands.values()), given.threads)
        if call is not None:
            call()
            calls[name] = call
    times = _interleaved(calls, given.rounds, cpu_time=given.cpu_time)
    peers = {name: taken for name, taken in times.items() if name != "opwire"}
    if not peers:
        return None
    ratio = min(peers.values()) / times["opwire"]
    count = next(iter(operands.values())).view.size
    each = "  ".join(f"{name} {taken / count * 1e9:6.2f}" for name, taken in times.items())
    print(f"{row.name:34} {cell.type_name:8} {cell.layout:11} {cell.size:5} {each}  x{ratio:.2f}", flush=True)
    return {"group": cell.group, "cell": cell.names, "seconds": times, "first": first, "ratio": ratio}


def _summarize(figures: list[dict[str, Any]]) -> None:
    for group in _GROUPS:
        ratios = [figure["ratio"] for figure in figures if figure["group"] == group]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{group}: geometric mean x{mean:.2f}, minimum x{min(ratios):.2f}, {len(ratios)} cells")
    if figures:
        print(f"slowest first call: {max(figure['first'] for figure in figures):.2f} s")


def _merged(path: Path, figures: list[dict[str, Any]], machine: dict[str, Any]) -> dict[str, Any]:
    """Merges new figures into those of a file, in the order of all cells.

    Raises:
        SystemExit: the file was measured under other conditions.
    """
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"machine": machine, "cells": []}
    unlike = [key for key in machine if key != "load" and machine[key] != found["machine"].get(key)]
    if unlike:
        raise SystemExit(f"{path} was measured with another {' and '.join(unlike)}; use another file, or delete it")
    merged = {(figure["group"], *figure["cell"]): figure for figure in (*found["cells"], *figures)}
    ordered = [merged[key] for cell in _all_cells() if (key := (cell.group, *cell.names)) in merged]
    return {"machine": {**machine, "load": max(machine["load"], found["machine"]["load"])}, "cells": ordered}


def main() -> None:
    given, figures = _arguments(), []
    if given.cpu_time:
        given.threads = 1
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    device = CpuDevice(given.threads)
    machine = _machine(device, given)
    for cell in _chosen(given):
        figure = _figure(device, cell, given)
        if figure is None:
            continue
        figures.append(figure)
        if given.output is not None:  # after each cell, so that an interrupted run keeps its results
            given.output.write_text(json.dumps(_merged(given.output, figures, machine), indent=1) + "\n")
    _summarize(figures)
    device.close()


def _machine(device: CpuDevice, given: argparse.Namespace) -> dict[str, Any]:
    versions = {}
    for name in ("numpy", "torch", "jax", "onnxruntime"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    load = os.getloadavg()[0]
    described = device.describe()
    return {
        "processor": described["processor"],
        "threads": given.threads,
        "cpu_time": given.cpu_time,
        "python": described["python"],
        "load": round(load, 1),
        "versions": versions,
    }


if __name__ == "__main__":
    main()
