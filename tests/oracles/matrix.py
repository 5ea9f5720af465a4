"""Matrix products in fractions, element by element."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from mpmath import mp, mpf

from opwire.check import Plan
from opwire.fields.member import NestedOperator
from opwire.tensor import Array
from tests.oracles import Answer, Reals

from .fused import activate

ONE_ULP = Fraction(1)


def total(terms: Sequence[Sequence[float]]) -> Any:
    """Returns a sum of products: a fraction, or the IEEE 754 result if a factor is infinite or NaN."""
    if all(math.isfinite(factor) for term in terms for factor in term):
        return sum((math.prod(map(Fraction, term)) for term in terms), Fraction(0))
    special = [math.prod(map(float, term)) for term in terms]
    special = [value for value in special if not math.isfinite(value)]
    return math.fsum(special) if len(set(map(str, special))) == 1 else math.nan


def times(number: Any, factor: float) -> Any:
    """Multiplies a sum by an attribute."""
    if isinstance(number, Fraction) and math.isfinite(factor):
        return number * Fraction(factor)
    sign = number if isinstance(number, float) else float((number > 0) - (number < 0))
    return sign * factor


def plus(number: Any, addend: Any) -> Any:
    """Adds two such sums."""
    if isinstance(number, Fraction) and isinstance(addend, Fraction):
        return number + addend
    return sum(each for each in (number, addend) if isinstance(each, float))


def fused_reals(numbers: Array, activation: NestedOperator | None) -> Reals:
    """Applies an activation to the nearest float64 of each number, where the formula is finite."""
    if activation is None:
        return Reals(numbers)
    found = np.empty(numbers.shape, object)
    for place in np.ndindex(numbers.shape):
        number: Any = numbers[place]
        found[place] = None if isinstance(number, float) else activate(activation, float(number))
    return Reals(found, ONE_ULP)


def _matrix(array: Array, transform: Any) -> Array:
    return array.swapaxes(-1, -2) if transform.name == "TRANSPOSE" else array


def _gemm(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    given = plan.attributes
    a, b = _matrix(inputs["ATensor"], given.TransA), _matrix(inputs["BTensor"], given.TransB)
    c = inputs.get("CTensor")
    numbers = np.empty(plan.outputs["OutputTensor"].sizes, object)
    for place in np.ndindex(numbers.shape):
        *lead, i, j = place
        pairs = [(float(a[(*lead, i, k)]), float(b[(*lead, k, j)])) for k in range(a.shape[-1])]
        numbers[place] = times(total(pairs), given.Alpha)
        if c is not None:
            numbers[place] = plus(numbers[place], times(total([(float(c[place]),)]), given.Beta))
    if given.FusedActivation is not None and "SOFTMAX" in given.FusedActivation.name:
        axes = given.FusedActivation.values.get("Axes", (numbers.ndim - 1,))
        return {"OutputTensor": Reals(_softmax(numbers, axes), ONE_ULP)}
    return {"OutputTensor": fused_reals(numbers, given.FusedActivation)}


def _softmax(numbers: Array, axes: Sequence[int]) -> Array:
    found = np.empty(numbers.shape, object)
    for block in _blocks(numbers.shape, axes):
        values = [float(numbers[place]) for place in block]
        if any(math.isnan(v) or v == math.inf for v in values) or max(values) == -math.inf:
            answers: list[Any] = [math.nan] * len(block)
        else:
            with mp.workdps(50):
                powers = [mp.exp(mpf(v) - mpf(max(values))) if v > -math.inf else mpf(0) for v in values]
                answers = [power / sum(powers) for power in powers]
        for place, answer in zip(block, answers, strict=True):
            found[place] = answer
    return found


def _blocks(shape: Sequence[int], axes: Sequence[int]) -> Iterator[list[tuple[int, ...]]]:
    blocks: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for place in np.ndindex(*shape):
        blocks.setdefault(tuple(0 if i in axes else at for i, at in enumerate(place)), []).append(place)
    yield from blocks.values()


def parameter(array: Array | None, i: int, missing: int = 0) -> Any:
    """Returns the quantization parameter of a row, column or channel."""
    if array is None:
        return missing
    values = array.reshape(-1).tolist()
    return values[i] if len(values) > 1 else values[0]


def _integer(inputs: Mapping[str, Array], place: tuple[int, ...]) -> int:
    a, b = inputs["ATensor"], inputs["BTensor"]
    *lead, i, j = place
    za, zb = parameter(inputs.get("AZeroPointTensor"), i), parameter(inputs.get("BZeroPointTensor"), j)
    return sum((int(a[(*lead, i, k)]) - za) * (int(b[(*lead, k, j)]) - zb) for k in range(a.shape[-1]))


def wrapped(number: int) -> int:
    """Wraps to INT32."""
    return int.from_bytes((number % 2**32).to_bytes(4, "little"), "little", signed=True)


def _integers(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    found = np.empty(plan.outputs["OutputTensor"].sizes, np.int32)
    for place in np.ndindex(found.shape):
        found[place] = wrapped(_integer(inputs, place))
    return {"OutputTensor": found}


def _dequantized(inputs: Mapping[str, Array], place: tuple[int, ...]) -> Any:
    scales = parameter(inputs["AScaleTensor"], place[-2]), parameter(inputs["BScaleTensor"], place[-1])
    return times(times(Fraction(_integer(inputs, place)), scales[0]), scales[1])


def _to_float(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    bias = inputs.get("BiasTensor")
    numbers = np.empty(plan.outputs["OutputTensor"].sizes, object)
    for place in np.ndindex(numbers.shape):
        numbers[place] = _dequantized(inputs, place)
        if bias is not None:
            numbers[place] = plus(numbers[place], total([(float(bias[place]),)]))
    return {"OutputTensor": Reals(numbers)}


def requantized(number: Any, scale: float, zero: int, dtype: np.dtype[Any]) -> Any:
    """Divides a number by a scale, rounds half to even, and adds a zero point."""
    low, high = (-128, 127) if dtype.kind == "i" else (0, 255)
    negative = math.copysign(1, scale) < 0
    if isinstance(number, float):
        if math.isnan(number) or not math.isfinite(scale):
            return zero
        return low if (number < 0) != negative else high
    if math.isnan(scale) or math.isinf(scale) or (scale == 0 and number == 0):
        return zero
    if scale == 0:
        return low if (number < 0) != negative else high
    return max(low, min(high, round(number / Fraction(scale)) + zero))


def _quantized(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    desc = plan.outputs["OutputTensor"]
    found = np.empty(desc.sizes, desc.data_type.dtype)
    for place in np.ndindex(found.shape):
        scale = parameter(inputs["OutputScaleTensor"], place[-2])
        zero = parameter(inputs.get("OutputZeroPointTensor"), place[-2])
        found[place] = requantized(_dequantized(inputs, place), scale, zero, found.dtype)
    return {"OutputTensor": found}


EXPECTED = {
    "GEMM": _gemm,
    "MATRIX_MULTIPLY_INTEGER": _integers,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": _to_float,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": _quantized,
}
