"""Rules of the errors that operators add, and samples of what happens to operators without a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import frexp, isfinite, prod
from typing import Any

import numpy as np

from ..errors import OpwireError
from ..tensor import Array
from .bounds import SLICE, Errors, Limit, Run, apart, moved, signs, spacing, unit

Rule = Callable[[Run, str], Limit]

LIKELY = 6.0
"""Standard deviations that a likely sum of roundings may have."""

_CONSTANT = 8
"""Roundings besides those of the terms: of factors, biases and averages."""


@dataclass(frozen=True, slots=True)
class Exact:
    """No rounding at all: the elements are moved, compared, or chosen."""

    def __call__(self, run: Run, output: str) -> Limit:
        def at(part: slice) -> Errors:
            zeros = np.zeros(run.outputs[output][part].size)
            return Errors(zeros, zeros)

        return at


@dataclass(frozen=True, slots=True)
class Rounded:
    """A function that is computed for each element, within some ULP, and absolute errors of its approximations.

    Attributes:
        ulps: ULP of the result.
        absolute: units of rounding of the function's range, about 1 or the largest of its factors.
        of_input: units of rounding of the input.
        logarithm: units of rounding of the result's logarithm, relative to the result.
    """

    ulps: float = 1
    absolute: float = 0
    of_input: float = 0
    logarithm: float = 0

    def __call__(self, run: Run, output: str) -> Limit:
        exact, u = run.outputs[output], run.smallest(output)
        factors = (abs(float(run.operation.desc.get(name, 1.0))) for name in ("Alpha", "Beta", "Gamma"))
        absolute = self.absolute * u * max(1.0, *(each for each in factors if isfinite(each)))
        given = next((array for array in run.inputs.values() if array.size == exact.size), None)

        def at(part: slice) -> Errors:
            error = self.ulps * ulps_of(exact[part], u) + absolute
            if self.of_input and given is not None:
                error = error + self.of_input * u * finite(given[part])
            if self.logarithm:
                size = finite(exact[part])
                error = error + self.logarithm * u * size * np.abs(np.log(np.maximum(size, 1e-300)))
            return Errors(error, 4 * error)

        return at


@dataclass(frozen=True, slots=True)
class Relative:
    """Sums and products without cancellation: an error relative to the result.

    Attributes:
        terms: the number of terms.
        ulps: ULP besides.
        absolute: units of rounding besides.
    """

    terms: Callable[[Run], int]
    ulps: float = 8
    absolute: float = 0

    def __call__(self, run: Run, output: str) -> Limit:
        exact, n, u = run.outputs[output], self.terms(run), run.smallest(output)
        sums = min(u, 2.0**-24)  # sums of FLOAT16 are in FLOAT32

        def at(part: slice) -> Errors:
            size, own = finite(exact[part]), self.ulps * ulps_of(exact[part], u) + self.absolute * u
            return Errors(own + LIKELY * np.sqrt(n) * sums * size, own + 2 * n * sums * size)

        return at


@dataclass(frozen=True, slots=True)
class Sum:
    """Sums of products, whose terms may cancel.

    The root of the sum of their squares is computed by the operator itself, from squares of its inputs. The sum of
    absolute terms is at most that times the root of the number of terms.

    Attributes:
        terms: the number of terms.
        is_mean: whether the factors of the terms are weights whose sum is at most 1.
        positions: whether the weights depend on positions in the input, which have roundings of their own.
    """

    terms: Callable[[Run], int]
    is_mean: bool = False
    positions: bool = False

    def __call__(self, run: Run, output: str) -> Limit:
        exact, u = run.outputs[output], run.smallest(output)
        root, scale = _root_of_squares(run, output)
        n = self.terms(run) + 2
        sums = min(u, 2.0**-24)
        far = 4.0 * max(max(tensor.sizes) for tensor in run.operation.tensors.values()) if self.positions else 0.0

        def at(part: slice) -> Errors:
            size = root[part].astype(np.float64) * scale
            own = 1.5 * ulps_of(exact[part], u) + far * sums * size + overflows(size * np.sqrt(n))
            likely = LIKELY * (np.sqrt(n) + 2) * sums * (finite(exact[part]) + size)
            possible = (n + _CONSTANT) * sums * size * (1 if self.is_mean else np.sqrt(n))
            return Errors(own + likely, own + np.maximum(likely, possible))

        return at


@dataclass(frozen=True, slots=True)
class Sampled:
    """What happens if inputs and attributes are moved by their roundings: how ill-conditioned the operator is.

    Attributes:
        ulps: ULP of the result besides.
        absolute: units of rounding of the largest element besides, for approximations within.
        steps: by how many ULP inputs move.
        terms: the number of terms of its sums.
    """

    ulps: float = 4
    absolute: float = 0
    steps: float = 1
    terms: Callable[[Run], int] = lambda run: 1

    def __call__(self, run: Run, output: str) -> Limit:
        exact, u = run.outputs[output], run.smallest(output)
        largest = np.zeros(exact.size)
        for i in range(2 + _SEEDS):
            for both in (True, False):
                inputs = {name: self._moved(array, i, j) for j, (name, array) in enumerate(run.inputs.items())}
                desc = _moved_floats(run.operation.desc, self.steps * 2.0**-24 * (1 if i != 1 else -1))
                operation = replace(run.operation, desc=desc) if both else run.operation
                if both and desc == run.operation.desc:
                    continue
                try:
                    found = operation.run(run.runner, inputs)[output]
                except OpwireError:
                    continue
                np.fmax(largest, np.nan_to_num(apart(found, exact), posinf=0), out=largest)
        if exact.dtype.kind != "f":
            return lambda part: Errors(largest[part], largest[part])
        n = self.terms(run)
        top = _top(exact)

        def at(part: slice) -> Errors:
            own = self.ulps * ulps_of(exact[part], u) + self.absolute * u * top
            likely = own + 4 * np.sqrt(n) * largest[part]
            return Errors(likely, likely + 4 * n * largest[part])

        return at

    def _moved(self, array: Array, i: int, j: int) -> Array:
        if array.dtype.kind != "f":
            return array
        return moved(array, self.steps * 2 * unit(array.dtype) * finite(array) * signs(i, array.size, 10 * j))


_SEEDS = 3


def _moved_floats(desc: Mapping[str, Any], by: float) -> dict[str, Any]:
    def change(value: Any) -> Any:
        if isinstance(value, float):
            return value if abs(frexp(value)[0]) in (0, 0.5) else value * (1 + 2 * by)  # powers of 2 round nothing
        return [change(each) for each in value] if isinstance(value, list) else value

    return {name: change(value) for name, value in desc.items()}


def ulps_of(exact: Array, u: float) -> Array:
    """Returns an ULP of each element, or of a wider rounding in between."""
    return np.maximum(spacing(exact), 2 * u * finite(exact)) if exact.dtype.kind == "f" else np.zeros(exact.size)


def overflows(sums: Array) -> Array:
    """Returns an infinite error where sums of this size may overflow in FLOAT32, and 0 elsewhere."""
    return np.where(sums > float(np.finfo(np.float32).max), np.inf, 0.0)


def _top(array: Array) -> float:
    """Returns the largest of the finite elements, without their signs."""
    parts = (array[start : start + SLICE] for start in range(0, array.size, SLICE))
    return max((float(np.max(finite(part), initial=0)) for part in parts), default=0.0)


def finite(array: Array) -> Array:
    return np.nan_to_num(np.abs(array.astype(np.float64)), nan=0.0, posinf=0.0)


def _root_of_squares(run: Run, output: str) -> tuple[Array, float]:
    """Returns the root of the sum of the squared terms of each element, and what to multiply it by."""
    desc = as_float32(run.operation.desc)
    squared: dict[str, Any] = {name: float(desc[name]) ** 2 for name in ("Alpha", "Beta") if name in desc}
    if str(desc.get("Function", "")).endswith("L1"):
        squared["Function"] = "SUM"
    operation = replace(run.operation, desc={**desc, **squared})
    largest = {name: max(_top(array), 1e-300) for name, array in run.inputs.items() if array.dtype.kind == "f"}
    additive = [name for name in largest if name in ("BiasTensor", "CTensor")]
    product = prod(value for name, value in largest.items() if name not in additive and name != "ROITensor")
    scales = {name: product if name in additive else value for name, value in largest.items() if name != "ROITensor"}
    inputs = {name: _squares(array, scales.get(name)) for name, array in run.inputs.items()}
    found = operation.run(run.runner, inputs)[output]
    np.maximum(found, np.float32(0), out=found)
    return np.sqrt(found, out=found), product


def _squares(array: Array, scale: float | None) -> Array:
    if array.dtype.kind != "f":
        return array
    if scale is None:
        return array.astype(np.float32)
    found = array.astype(np.float32)
    np.nan_to_num(found, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    found /= np.float32(max(scale, 1e-38))
    return np.square(found, out=found)


def as_float32(value: Any) -> Any:
    """Returns a desc with FLOAT32 for FLOAT16."""
    if isinstance(value, Mapping):
        return {name: as_float32(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_float32(each) for each in value]
    return "FLOAT32" if value in ("FLOAT16", "FLOAT64") else value
