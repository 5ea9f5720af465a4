"""Measures operators of single elements on the CPU device against NumPy, PyTorch, JAX and ONNX Runtime.

Run it from the root of the repository: ``python -m benchmarks.elementwise``. It prints a row a cell: nanoseconds an
element of each, and how many times as fast as the best of the others the CPU device is. They take turns within a cell,
while the threads of the others sleep, and each counts by its median. NumPy has one thread. With ``--cpu-time`` all have
one, and what counts is the time that the processor works for them: that tells them apart on a busy machine.
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
from typing import Any

import numpy as np

from opwire.check import check
from opwire.tensor import Array, DataType
from opwire_service.devices.cpu import CpuDevice

from .elementwise_peers import BIAS, PEERS, SCALE, Call, Operand, Row

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
    if "LOGICAL" in row.name:  # truth values of one byte, as the others have them
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
            _rest()
            call()
            repeats, used = 0, 0.0
            while used < 5e-3:  # what takes less than the clock tells is repeated
                started = clock()
                call()
                used += clock() - started
                repeats += 1
            times[name].append(used / repeats)
    return {name: median(taken) for name, taken in times.items()}


def _rest() -> None:
    """Waits until the threads of all libraries sleep, which spin for a while after a call."""
    for _ in range(50):
        before = time.process_time()
        time.sleep(4e-3)
        if time.process_time() - before < 1e-3:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--operators", nargs="+", default=sorted({row.name for rows in _GROUPS.values() for row in rows})
    )
    parser.add_argument("--types", nargs="+", default=list(TYPES))
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS))
    parser.add_argument("--sizes", nargs="+", default=["16MB", "64MB"], choices=list(SIZES))
    parser.add_argument("--groups", nargs="+", default=list(_GROUPS), choices=list(_GROUPS))
    parser.add_argument("--cpu-time", action="store_true", help="one thread each, and the time of the processor")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, help="a file for the figures, as JSON")
    given = parser.parse_args()
    if given.cpu_time:
        given.threads = 1
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    device, figures = CpuDevice(given.threads), []
    cells = [
        (group, row, t, y, s)
        for group, rows in _GROUPS.items()
        for row in rows
        if row.name in given.operators and group in given.groups
        for t in row.types
        if t in given.types
        for y in given.layouts
        if y == "packed" or _is_pair(row) or (y == "transposed" and not row.chain)
        for s in given.sizes
    ]
    for group, row, type_name, layout, size in cells:
        operands = _operands(row, type_name, layout, SIZES[size])
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
            continue
        ratio = min(peers.values()) / times["opwire"]
        count = next(iter(operands.values())).view.size
        figures.append(
            {
                "group": group,
                "cell": [row.name, type_name, layout, size],
                "seconds": times,
                "first": first,
                "ratio": ratio,
            }
        )
        each = "  ".join(f"{name} {taken / count * 1e9:6.2f}" for name, taken in times.items())
        print(f"{row.name:34} {type_name:8} {layout:11} {size:5} {each}  x{ratio:.2f}", flush=True)
    for group in _GROUPS:
        ratios = [figure["ratio"] for figure in figures if figure["group"] == group]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{group}: geometric mean x{mean:.2f}, least x{min(ratios):.2f}, {len(ratios)} cells")
    if figures:
        print(f"slowest first call: {max(figure['first'] for figure in figures):.2f} s")
    if given.output is not None:
        given.output.write_text(json.dumps({"machine": _machine(device, given), "cells": figures}, indent=1) + "\n")
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
