"""Measures the accuracy of elementwise functions, in opwire and in other libraries.

Run it from the root of the repository: ``python -m benchmarks.accuracy``. For each function it draws arguments from all
bit patterns and from a normal distribution around 0, and computes the real results with mpmath. Errors are in ULPs of
the real result; a result is correctly rounded if its error is at most 0.5. The error is infinite where the result is
infinite but the real one is not; real results beyond the range of the type are left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib as mpl
import mpmath
import numpy as np

from opwire.check import check
from opwire.tensor import Array, DataType
from opwire_service.devices.cpu import CpuDevice

from .accuracy_functions import FUNCTIONS, Function
from .onnx_model import elementwise

TYPES = {"FLOAT32": np.float32, "FLOAT16": np.float16}
BITS = {"FLOAT32": (23, -126), "FLOAT16": (10, -14)}
"""Fraction bits and the least exponent of each type."""

LONG = 1 << 17
"""Elements of the tensors given to opwire, enough for its fast kernels."""

PRECISION = 240
"""Precision of the real results, in bits."""

Compute = Callable[[Function, list[Array]], Array | None]


def _opwire(function: Function, inputs: list[Array], device: CpuDevice) -> Array:
    count, inputs = inputs[0].size, [np.resize(array, LONG) for array in inputs]
    names = {1: ["InputTensor"], 2: ["InputTensor", "ExponentTensor"]}[function.inputs]
    if function.inputs == 2 and not function.name.endswith("POW"):
        names = ["ATensor", "BTensor"]
    tensor = {"DataType": DataType.of(inputs[0].dtype).name, "Sizes": [inputs[0].size]}
    desc = {**dict.fromkeys(names, tensor), **function.attributes}
    plan = check({"type": function.name, "desc": desc})
    output = np.empty_like(inputs[0])
    device.run(plan, dict(zip(names, inputs, strict=True)), {"OutputTensor": output}, lambda: False)
    return output[:count]


def _numpy(function: Function, inputs: list[Array]) -> Array | None:
    return None if function.numpy is None else function.numpy(*inputs)


def _torch(function: Function, inputs: list[Array]) -> Array | None:
    if not function.torch or find_spec("torch") is None:
        return None
    import torch

    called = getattr(torch, function.torch, None) or getattr(torch.nn.functional, function.torch)
    try:
        found: Array = called(*map(torch.from_numpy, inputs)).numpy()
    except RuntimeError:  # no such kernel
        return None
    return found


def _jax(function: Function, inputs: list[Array]) -> Array | None:
    if not function.jax or find_spec("jax") is None:
        return None
    import jax

    places = (jax.numpy, jax.nn, jax.scipy.special)
    called = next(getattr(place, function.jax) for place in places if hasattr(place, function.jax))
    return np.asarray(jax.jit(called)(*inputs))


def _onnxruntime(function: Function, inputs: list[Array]) -> Array | None:
    if not function.onnx or find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    given = [(array.dtype.name, array.shape, False) for array in inputs]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    content = elementwise(function.onnx, given, inputs[0].dtype.name)
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return None
    found: Array = session.run(None, {f"x{number}": array for number, array in enumerate(inputs)})[0]
    return found


def _drawn(function: Function, type_name: str, count: int) -> list[Array]:
    """Returns arguments in the function's domain, half of them from all bit patterns."""
    dtype = np.dtype(TYPES[type_name])
    draw = np.random.default_rng(1)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    found = []
    for _ in range(function.inputs):
        patterns = draw.integers(0, 1 << 8 * dtype.itemsize, count * 4, unsigned).view(dtype)
        usual = (draw.standard_normal(count * 4) * 3).astype(dtype)
        found.append(np.where(np.arange(count * 4) % 2, patterns, usual))
    with np.errstate(all="ignore"):
        inside = np.flatnonzero(function.inside(*found))[:count]
    return [np.ascontiguousarray(array[inside]) for array in found]


def real(function: Function, inputs: list[Array]) -> tuple[Array, Array]:
    """Returns the real results as unevaluated sums of two FLOAT64."""
    high, low = np.empty(inputs[0].size), np.empty(inputs[0].size)
    with mpmath.workprec(PRECISION):
        for place, elements in enumerate(zip(*(array.tolist() for array in inputs), strict=True)):
            value = function.exact(*map(mpmath.mpf, elements))
            high[place] = float(value)
            low[place] = float(value - high[place]) if np.isfinite(high[place]) else 0
    return high, low


def measured(found: Array, high: Array, low: Array, type_name: str) -> dict[str, Any]:
    """Returns the largest error and the share of correctly rounded results."""
    fraction, least = BITS[type_name]
    unit = np.ldexp(1.0, np.maximum(np.frexp(high)[1] - 1, least) - fraction)
    with np.errstate(all="ignore"):
        errors = np.abs((found.astype(np.float64) - high) - low) / unit
    errors[~np.isfinite(found)] = np.inf
    counts = np.abs(high) < float(np.finfo(TYPES[type_name]).max)
    errors = errors[counts]
    greatest = float(errors.max())
    return {
        "largest": None if np.isinf(greatest) else round(greatest, 3),
        "correct": float(np.mean(errors <= 0.5)),
        "count": int(counts.sum()),
    }


def libraries(device: CpuDevice) -> dict[str, Compute]:
    """Returns the libraries by name, each as a function that computes a function, or returns None if it has none."""
    return {
        "opwire": lambda function, inputs: _opwire(function, inputs, device),
        "numpy": _numpy,
        "onnxruntime": _onnxruntime,
        "torch": _torch,
        "jax": _jax,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--points",
        type=int,
        default=20_000,
        choices=range(1, LONG),
        metavar="N",
        help="elements per function and type",
    )
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    parser.add_argument("--picture", type=Path, help="SVG file for a plot")
    given = parser.parse_args()
    device = CpuDevice()
    rows = []
    for type_name in TYPES:
        for function in FUNCTIONS:
            inputs = _drawn(function, type_name, given.points)
            high, low = real(function, inputs)
            found = {}
            for library, compute in libraries(device).items():
                with np.errstate(all="ignore"):
                    results = compute(function, inputs)
                if results is not None:
                    found[library] = measured(results, high, low, type_name)
            rows.append({"function": function.name, "type": type_name, "libraries": found})
            print(function.name, type_name, *(f"{k} {v['largest']} {v['correct']:.4f}" for k, v in found.items()))
    device.close()
    result = {"versions": versions(), "points": given.points, "rows": rows}
    if given.output is not None:
        given.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if given.picture is not None:
        picture(result, given.picture)


def versions() -> dict[str, str]:
    found = {}
    for name in ("numpy", "onnxruntime", "torch", "jax", "mpmath"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def picture(result: dict[str, Any], path: Path) -> None:
    """Draws the share of correctly rounded FLOAT32 results: one row per function, one marker per library."""
    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = "opwire"  # makes the SVG reproducible
    rows = [row for row in result["rows"] if row["type"] == "FLOAT32"][::-1]
    figure, axes = pyplot.subplots(figsize=(8, 0.28 * len(rows) + 1.2), layout="constrained")
    for library, marker in zip(("numpy", "onnxruntime", "torch", "jax", "opwire"), "sD^vo", strict=True):
        places = [
            (row["libraries"][library]["correct"], i) for i, row in enumerate(rows) if library in row["libraries"]
        ]
        shares, heights = zip(*places, strict=True)
        axes.scatter([100 * share for share in shares], heights, marker=marker, s=26, label=library, alpha=0.8)
    axes.set_yticks(range(len(rows)), [row["function"].split("_")[-1] for row in rows], fontsize=8)
    axes.set_xlabel("correctly rounded FLOAT32 results, %")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8, loc="lower left")
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    main()
