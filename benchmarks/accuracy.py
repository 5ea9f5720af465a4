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
from typing import Any, NamedTuple

import mpmath
import numpy as np

from opwire.check import Plan, check
from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice

from .cell import Cell, Onnx, Tensor
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
        numpy=function.numpy,
        torch=function.torch,
        jax=function.jax,
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


class _Case(NamedTuple):
    """A recorded operator with its inputs, and the output that DirectML wrote."""

    plan: Plan
    inputs: dict[str, Array]
    output: str
    written: Array

    @property
    def function(self) -> Function | None:
        """The measured function that it computes, if there is one."""
        found = next((each for each in FUNCTIONS if each.name == self.plan.operator.name), None)
        given = {name: getattr(self.plan.attributes, name) for name in (found.fields if found else ())}
        return found if found is not None and given == dict(found.fields) else None

    @property
    def name(self) -> str:
        reduced = getattr(self.plan.attributes, "Function", None)
        return self.plan.operator.name if reduced is None else f"{self.plan.operator.name} {reduced.name}"

    def errors(self, device: CpuDevice) -> Array:
        """Returns the distances of DirectML's results from opwire's, in ULPs, where opwire's are numbers."""
        right = np.empty_like(self.written)
        device.run(self.plan, self.inputs, {self.output: right}, lambda: False)
        finite = np.isfinite(right)
        distances = np.abs(self.written[finite].astype(np.float64) - right[finite].astype(np.float64))
        errors = distances / np.spacing(np.abs(right[finite])).astype(np.float64)
        errors[~np.isfinite(self.written[finite])] = np.inf
        return np.asarray(errors)


def _cases(path: Path) -> Iterator[_Case]:
    """Yields the cases of a recording that have floats as output."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            plan = check(case["operator"], _LEVEL)
            name, desc = next(iter(plan.outputs.items()))
            if desc.data_type.dtype.kind == "f":
                given = {key: base64.b64decode(text, validate=True) for key, text in case["inputs"].items()}
                inputs = {key: each.view(given[key]) for key, each in plan.inputs.items()}
                yield _Case(plan, inputs, name, desc.view(base64.b64decode(case["outputs"][name], validate=True)))


def _recorded(path: Path, cpu: Cpu) -> list[Row]:
    """Returns the rows of a recording, functions first."""
    rows: list[Row] = []
    errors: dict[tuple[str, str], list[Array]] = {}
    device = CpuDevice()
    for case in _cases(path):
        function, arrays = case.function, [array.reshape(-1) for array in case.inputs.values()]
        if function is None:
            type_name = case.plan.outputs[case.output].data_type.name
            errors.setdefault((case.name, type_name), []).append(case.errors(device))
            continue
        inside = np.flatnonzero(function.inside(*arrays))
        if inside.size >= _FEWEST:
            arguments = [np.ascontiguousarray(array[inside]) for array in arrays]
            rows.append(row_of(function, arguments, cpu, case.written.reshape(-1)[inside]))
    device.close()
    for (name, type_name), found in errors.items():
        libraries = {"directml": _errors(np.concatenate(found), 0)}
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
