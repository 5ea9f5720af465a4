"""Measures operators of single elements on the CPU device against NumPy, PyTorch and JAX, as far as they are there.

Run it from the root of the repository: ``python -m benchmarks.elementwise``. It prints a row a cell: nanoseconds an
element of each, and how many times as fast as the best of the others the CPU device is. They take turns within a cell,
and each counts by its median, so that what else the machine does hits all of them. NumPy has one thread.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from opwire.check import check
from opwire.tensor import Array, DataType
from opwire_service.devices.cpu import CpuDevice

Call = Callable[[], Any]

TYPES = {"FLOAT32": np.float32, "FLOAT16": np.float16, "INT32": np.int32, "UINT8": np.uint8}
LAYOUTS = ("packed", "row", "column", "transposed")
SIZES = {"16MB": 16 << 20, "64MB": 64 << 20}


class Row(NamedTuple):
    """An operator, and what it is called elsewhere.

    Attributes:
        name: of the operator.
        numpy: takes the inputs and the output.
        torch: the name of a function of PyTorch, or of ``torch.nn.functional``.
        jax: that of a function of ``jax.numpy``, or of ``jax.nn``.
        types: that it is measured for.
        attributes: of the desc.
    """

    name: str
    numpy: Callable[..., Any] | None
    torch: str
    jax: str
    types: tuple[str, ...] = ("FLOAT32", "FLOAT16")
    attributes: Mapping[str, Any] = {}


_ALL = tuple(TYPES)
_INTEGERS = ("INT32", "UINT8")

ARITHMETIC = (
    Row("ELEMENT_WISE_ADD", np.add, "add", "add", _ALL),
    Row("ELEMENT_WISE_MULTIPLY", np.multiply, "mul", "multiply", _ALL),
    Row("ELEMENT_WISE_DIVIDE", np.true_divide, "true_divide", "true_divide"),
    Row("ELEMENT_WISE_MAX", np.maximum, "maximum", "maximum", _ALL),
    Row("ELEMENT_WISE_LOGICAL_GREATER_THAN", np.greater, "gt", "greater", _ALL),
    Row("ELEMENT_WISE_BIT_AND", np.bitwise_and, "bitwise_and", "bitwise_and", _INTEGERS),
    Row("ELEMENT_WISE_ABS", np.abs, "abs", "abs"),
    Row("ELEMENT_WISE_SQRT", np.sqrt, "sqrt", "sqrt"),
    Row("ACTIVATION_RELU", lambda x, out: np.maximum(x, x.dtype.type(0), out=out), "relu", "relu"),
)
TRANSCENDENTAL = (
    Row("ELEMENT_WISE_EXP", np.exp, "exp", "exp"),
    Row("ELEMENT_WISE_LOG", np.log, "log", "log"),
    Row("ELEMENT_WISE_SIN", np.sin, "sin", "sin"),
    Row("ELEMENT_WISE_TANH", np.tanh, "tanh", "tanh"),
    Row("ELEMENT_WISE_ERF", None, "erf", ""),
    Row("ELEMENT_WISE_POW", np.power, "pow", "power"),
    Row("ACTIVATION_SIGMOID", None, "sigmoid", "sigmoid"),
    Row("ACTIVATION_GELU", None, "gelu", ""),
)


def _laid_out(array: Array, layout: str) -> Array:
    rows = array.reshape(1024, -1)
    if layout == "row":
        return np.broadcast_to(rows[:1], rows.shape)
    if layout == "column":
        return np.broadcast_to(rows[:, :1], rows.shape)
    return np.ascontiguousarray(rows.T).T if layout == "transposed" else rows


def _inputs(row: Row, type_name: str, layout: str, size: int) -> dict[str, Array]:
    dtype = np.dtype(TYPES[type_name])
    draw, count = np.random.default_rng(1), size // dtype.itemsize
    names = ("ATensor", "BTensor") if _is_pair(row) else ("InputTensor",)
    names = ("InputTensor", "ExponentTensor") if row.name.endswith("_POW") else names
    made = {}
    for name in names:
        values = draw.standard_normal(count, np.float32) if dtype.kind == "f" else draw.integers(1, 100, count)
        made[name] = (np.abs(values) if row.name.endswith(("LOG", "SQRT", "POW")) else values).astype(dtype)
    first, *others = made
    if not others:
        return {first: _laid_out(made[first], layout)}
    return {first: made[first].reshape(1024, -1), **{name: _laid_out(made[name], layout) for name in others}}


def _is_pair(row: Row) -> bool:
    return isinstance(row.numpy, np.ufunc) and row.numpy.nin == 2


def _opwire(device: CpuDevice, row: Row, arrays: Mapping[str, Array]) -> Call:
    descs = {
        name: {
            "DataType": DataType.of(array.dtype).name,
            "Sizes": list(array.shape),
            "Strides": [step // array.itemsize for step in array.strides],
        }
        for name, array in arrays.items()
    }
    plan = check({"type": row.name, "desc": {**descs, **row.attributes}})
    outputs = {name: np.empty(desc.sizes, desc.data_type.dtype) for name, desc in plan.outputs.items()}
    bound = device.bind(plan, dict(arrays), outputs)
    return lambda: bound(lambda: False)


def _numpy(row: Row, arrays: Mapping[str, Array]) -> Call | None:
    function = row.numpy
    if function is None:
        return None
    inputs = tuple(arrays.values())
    output = np.empty(inputs[0].shape, bool if "LOGICAL" in row.name else inputs[0].dtype)
    return lambda: function(*inputs, out=output)


def _torch(row: Row, arrays: Mapping[str, Array], threads: int) -> Call | None:
    if find_spec("torch") is None:
        return None
    import torch

    torch.set_num_threads(threads)
    function = getattr(torch, row.torch, None) or getattr(torch.nn.functional, row.torch)
    inputs = [torch.from_numpy(array) for array in arrays.values()]
    return lambda: function(*inputs)


def _jax(row: Row, arrays: Mapping[str, Array]) -> Call | None:
    if find_spec("jax") is None or not row.jax:
        return None
    import jax

    function = jax.jit(getattr(jax.numpy, row.jax, None) or getattr(jax.nn, row.jax))
    inputs = [jax.numpy.asarray(array) for array in arrays.values()]
    return lambda: function(*inputs).block_until_ready()


def _interleaved(calls: Mapping[str, Call], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    return {name: median(taken) for name, taken in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", nargs="+", default=[row.name for row in (*ARITHMETIC, *TRANSCENDENTAL)])
    parser.add_argument("--types", nargs="+", default=list(TYPES))
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS))
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, help="a file for the figures, as JSON")
    given = parser.parse_args()
    device, figures = CpuDevice(given.threads), []
    rows = [row for row in (*ARITHMETIC, *TRANSCENDENTAL) if row.name in given.operators]
    cells = [
        (row, t, y, s)
        for row in rows
        for t in row.types
        if t in given.types
        for y in given.layouts
        for s in given.sizes
    ]
    for row, type_name, layout, size in cells:
        arrays = _inputs(row, type_name, layout, SIZES[size])
        calls = {
            "opwire": _opwire(device, row, arrays),
            "numpy": _numpy(row, arrays),
            "torch": _torch(row, arrays, given.threads),
            "jax": _jax(row, arrays),
        }
        times = _interleaved({name: call for name, call in calls.items() if call is not None}, given.rounds)
        peers = {name: taken for name, taken in times.items() if name != "opwire"}
        if not peers:
            continue
        ratio = min(peers.values()) / times["opwire"]
        count = next(iter(arrays.values())).size
        figures.append({"cell": [row.name, type_name, layout, size], "seconds": times, "ratio": ratio})
        each = "  ".join(f"{name} {taken / count * 1e9:6.2f}" for name, taken in times.items())
        print(f"{row.name:34} {type_name:8} {layout:11} {size:5} {each}  x{ratio:.2f}", flush=True)
    for title, of in (("arithmetic", ARITHMETIC), ("transcendental", TRANSCENDENTAL)):
        ratios = [math.log(f["ratio"]) for f in figures if f["cell"][0] in {row.name for row in of}]
        if ratios:
            print(f"{title}: geometric mean x{math.exp(sum(ratios) / len(ratios)):.2f}")
    if given.output:
        given.output.write_text(json.dumps(figures, indent=1))
    device.close()


if __name__ == "__main__":
    main()
