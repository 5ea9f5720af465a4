"""Measures the accuracy of elementwise functions, in opwire and in other libraries.

For each function it draws arguments from all bit patterns and from a normal distribution around 0, and computes the
real results with mpmath. Errors are in ULPs of the real result; a result is correctly rounded if its error is at most
0.5. The error is infinite where the result is infinite but the real one is not; real results beyond the range of the
type are left out.

With ``--recording`` it measures DirectML, from results that it wrote: gzipped JSON, a case a line, with the
``operator``, and the bytes of its ``inputs`` and of the ``outputs`` in base64. All libraries are given the arguments
that it was given. Its other operators are measured against opwire's results, in units of the nearest float.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice
from tests.directml.computed import Computed

from .cell import Cell, Onnx, Tensor, named
from .cells.functions import FUNCTIONS, Function
from .cpu import Cpu
from .report import Row, versions, write

_BITS = {"float32": (23, -126), "float16": (10, -14)}
"""Fraction bits and the least exponent of each type."""

_LONG = 1 << 17
"""Elements of the tensors, enough for opwire's fast kernels."""

_PRECISION = 240
"""Precision of the real results, in bits."""

_LEVEL = "6_2"
"""The feature level of the recorded library."""

_FEWEST = 1000
"""Recorded arguments in a function's domain that are enough for a row."""


def cell_of(function: Function, inputs: Sequence[Array]) -> Cell:
    """Returns a function of arguments, which are repeated."""
    names = {1: ["InputTensor"], 2: ["ATensor", "BTensor"]}[len(inputs)]
    names = ["InputTensor", "ExponentTensor"] if function.name.endswith("_WISE_POW") else names
    dtype = inputs[0].dtype.name
    tensors = [Tensor((_LONG,), dtype, partial(_repeated, x)) for x in inputs]
    return Cell(
        group="functions",
        name=function.name,
        operator=function.name,
        inputs=dict(zip(names, tensors, strict=True)),
        fields=function.fields,
        type=dtype.upper(),
        numpy=named(function.numpy),
        torch=named(function.torch),
        jax=named(function.jax),
        onnx=Onnx(function.onnx, outputs=(dtype,)) if function.onnx else None,
    )


def _repeated(x: Array, _: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    return np.resize(x, sizes)


def row_of(function: Function, inputs: Sequence[Array], cpu: Cpu, written: Array | None = None) -> Row:
    """Returns the errors of all libraries, and of results that DirectML wrote."""
    high, low = _real(function, inputs)
    with np.errstate(all="ignore"):
        calls = cpu.calls(cell_of(function, inputs))
        results = {name: call.results()[0][: inputs[0].size] for name, call in calls.items()}
    if written is not None:
        results["directml"] = written
    libraries = {name: _measured(result, high, low) for name, result in results.items()}
    dtype = inputs[0].dtype.name
    return {"group": "functions", "name": function.name, "type": dtype.upper(), "libraries": libraries}


def _drawn(function: Function, dtype: np.dtype[Any], count: int) -> list[Array]:
    """Returns arguments in the function's domain, half of them from all bit patterns."""
    draw, unsigned = np.random.default_rng(1), np.dtype(f"u{dtype.itemsize}")
    found = []
    for _ in range(function.inputs):
        patterns = draw.integers(0, 1 << 8 * dtype.itemsize, count * 4, unsigned).view(dtype)
        usual = (draw.standard_normal(count * 4) * 3).astype(dtype)
        found.append(np.where(np.arange(count * 4) % 2, patterns, usual))
    with np.errstate(all="ignore"):
        inside = np.flatnonzero(function.inside(*found))[:count]
    return [np.ascontiguousarray(array[inside]) for array in found]


def _real(function: Function, inputs: Sequence[Array]) -> tuple[Array, Array]:
    """Returns the real results as unevaluated sums of two FLOAT64."""
    high, low = np.empty(inputs[0].size), np.empty(inputs[0].size)
    with mpmath.workprec(_PRECISION):
        for place, elements in enumerate(zip(*(array.tolist() for array in inputs), strict=True)):
            value = function.exact(*map(mpmath.mpf, elements))
            high[place] = float(value)
            low[place] = float(value - high[place]) if np.isfinite(high[place]) else 0
    return high, low


def _measured(found: Array, high: Array, low: Array) -> dict[str, Any]:
    """Returns the largest error and the share of correctly rounded results."""
    fraction, least = _BITS[found.dtype.name]
    unit = np.ldexp(1.0, np.maximum(np.frexp(high)[1] - 1, least) - fraction)
    with np.errstate(all="ignore"):
        errors = np.abs((found.astype(np.float64) - high) - low) / unit
    errors[~np.isfinite(found)] = np.inf
    return _errors(errors[np.abs(high) < float(np.finfo(found.dtype).max)], 0.5)


def _errors(errors: Array, most: float) -> dict[str, Any]:
    greatest = float(errors.max())
    return {
        "largest": None if np.isinf(greatest) else round(greatest, 3),
        "correct": float(np.mean(errors <= most)),
        "count": errors.size,
    }


def _cases(path: Path) -> Iterator[Computed]:
    """Yields the cases of a recording that have floats as output."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            inputs, outputs = (
                {name: base64.b64decode(text, validate=True) for name, text in line[side].items()}
                for side in ("inputs", "outputs")
            )
            case = Computed("", _LEVEL, line["operator"], inputs, (outputs,))
            if next(iter(case.plan.outputs.values())).data_type.dtype.kind == "f":
                yield case


def _function(case: Computed) -> Function | None:
    """Returns the measured function that a case computes, if there is one."""
    found = next((each for each in FUNCTIONS if each.name == case.name), None)
    given = {name: getattr(case.plan.attributes, name) for name in (found.fields if found else ())}
    return found if found is not None and given == dict(found.fields) else None


def _distances(written: Array, right: Array) -> Array:
    """Returns the distances of DirectML's results from opwire's, in ULPs, where opwire's are numbers."""
    finite = np.isfinite(right)
    written, right = written[finite].astype(np.float64), right[finite]
    errors = np.abs(written - right.astype(np.float64)) / np.spacing(np.abs(right)).astype(np.float64)
    errors[~np.isfinite(written)] = np.inf
    return np.asarray(errors)


def _recorded(path: Path, cpu: Cpu) -> list[Row]:
    """Returns the rows of a recording, functions first."""
    rows: list[Row] = []
    errors: dict[tuple[str, str], list[Array]] = {}
    device = CpuDevice()
    for case in _cases(path):
        function, output = _function(case), next(iter(case.plan.outputs))
        written = case.answer(0, output)
        if function is None:
            reduced = getattr(case.plan.attributes, "Function", None)
            name = case.plan.operator.name if reduced is None else f"{case.plan.operator.name} {reduced.name}"
            found = errors.setdefault((name, case.plan.outputs[output].data_type.name), [])
            found.append(_distances(written, case.run(device)[output]))
            continue
        arrays = [array.reshape(-1) for array in case.arrays.values()]
        inside = np.flatnonzero(function.inside(*arrays))
        if inside.size >= _FEWEST:
            arguments = [np.ascontiguousarray(array[inside]) for array in arrays]
            rows.append(row_of(function, arguments, cpu, written.reshape(-1)[inside]))
    device.close()
    for (name, type_name), each in errors.items():
        libraries = {"directml": _errors(np.concatenate(each), 0)}
        rows.append({"group": "operators", "name": name, "type": type_name, "libraries": libraries})
    return rows


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--points", type=int, default=20_000, metavar="N", help="elements per function and type")
    parser.add_argument("--recording", type=Path, help="results of DirectML to measure")


def main(given: argparse.Namespace) -> None:
    points, cpu = 200 if given.quick else min(given.points, _LONG), Cpu(2, is_processor_time=False)
    rows = [] if given.recording is None else _recorded(given.recording, cpu)
    for dtype in () if given.recording else _BITS:
        for function in FUNCTIONS:
            rows.append(row_of(function, _drawn(function, np.dtype(dtype), points), cpu))
            found = rows[-1]["libraries"].items()
            print(function.name, dtype, *(f"{k} {v['largest']} {v['correct']:.4f}" for k, v in found), flush=True)
    cpu.close()
    if given.json:
        known = versions("numpy", "onnxruntime", "torch", "jax", "mpmath")
        write(given.json, "accuracy", {"points": points, "versions": known}, rows)
