"""Average and Lp pooling, and the gradient of averages, window by window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer, Reals
from tests.oracles.windows import Coordinate, Number, elements_of, every, number_of, numbers, of_sums, total

_WIDE = Context(prec=120, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def _average(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    source, attributes = inputs["InputTensor"], plan.attributes

    def mean(place: Coordinate) -> Number:
        values = [source[place[:2] + at] for at in elements_of(attributes, source.shape[2:], place[2:])]
        count = math.prod(attributes.WindowSize) if attributes.IncludePadding else len(values)
        found = total((value, Fraction(1)) for value in values)
        if isinstance(found, float):
            return found
        return found / count if count else math.nan

    return {"OutputTensor": Reals(numbers(plan.outputs["OutputTensor"].sizes, mean))}


def _norm(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    source, power = inputs["InputTensor"], plan.attributes.P

    def norm(place: Coordinate) -> Number:
        places = elements_of(plan.attributes, source.shape[2:], place[2:])
        found = [abs(number_of(source[place[:2] + at])) for at in places]
        special = sum((number for number in found if isinstance(number, float)), 0.0)
        return special or _lp_norm([number for number in found if number], power)

    # Powers 1 and 2 are correctly rounded; others have an error bound of their own.
    ulps = Fraction(1, 2) if power <= 2 else Fraction(1)
    return {"OutputTensor": Reals(numbers(plan.outputs["OutputTensor"].sizes, norm), ulps)}


def _lp_norm(numbers_of: list[Any], power: int) -> Fraction:
    """Returns the norm, exactly or with more than enough digits."""
    if power == 1 or not numbers_of:
        return sum(numbers_of, Fraction(0))
    if power == 2:
        squares = sum((number**2 for number in numbers_of), Fraction(0))
        root = math.isqrt((squares.numerator * squares.denominator) << 800)
        return Fraction(root, squares.denominator << 400)
    decimals = [_WIDE.divide(Decimal(number.numerator), Decimal(number.denominator)) for number in numbers_of]
    logarithms = [_WIDE.multiply(_WIDE.ln(number), power) for number in decimals]
    greatest = max(logarithms)
    total = sum((_WIDE.exp(_WIDE.subtract(each, greatest)) for each in logarithms), Decimal(0))
    return Fraction(_WIDE.exp(_WIDE.divide(_WIDE.add(_WIDE.ln(total), greatest), power)))


def _average_gradient(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    gradient, sizes = inputs["InputGradientTensor"], plan.outputs["OutputGradientTensor"].sizes
    shares: dict[Coordinate, list[tuple[Any, Fraction]]] = {}
    for place in every(gradient.shape):
        having = list(elements_of(plan.attributes, sizes[2:], place[2:]))
        count = math.prod(plan.attributes.WindowSize) if plan.attributes.IncludePadding else len(having)
        for at in having:
            shares.setdefault(place[:2] + at, []).append((gradient[place], Fraction(1, count)))
    return {"OutputGradientTensor": Reals(of_sums(sizes, shares))}


def _quantized(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    source, attributes = inputs["InputTensor"], plan.attributes
    desc = plan.outputs["OutputTensor"]
    limits = np.iinfo(desc.data_type.dtype)
    result = np.zeros(desc.sizes, desc.data_type.dtype)
    for place in every(desc.sizes):
        zero, scale, out_zero, out_scale = (
            _channel_parameter(inputs, name, place[1])
            for name in ("InputZeroPointTensor", "InputScaleTensor", "OutputZeroPointTensor", "OutputScaleTensor")
        )
        values = [
            int(source[place[:2] + at]) - int(zero) for at in elements_of(attributes, source.shape[2:], place[2:])
        ]
        count = math.prod(attributes.WindowSize) if attributes.IncludePadding else len(values)
        steps = _steps(values, float(scale), count, float(out_scale))
        if math.isnan(steps):
            steps = 0
        if isinstance(steps, float):
            result[place] = limits.max if steps > 0 else limits.min
        else:
            result[place] = min(max(steps + int(out_zero), int(limits.min)), int(limits.max))
    return {"OutputTensor": result}


def _channel_parameter(inputs: Mapping[str, Array], name: str, channel: int) -> Any:
    if name not in inputs:
        return 0
    values = inputs[name].reshape(-1)
    return values[channel] if values.size > 1 else values[0]


def _steps(values: list[int], scale: float, count: int, out_scale: float) -> int | float:
    """Returns the mean in output steps, rounded; infinite or NaN if a scale makes it so."""
    if math.isfinite(scale):
        found: Number = Fraction(sum(values)) * Fraction(scale)
    else:
        found = float(sum((value * scale for value in values), 0.0)) or Fraction(0)
    if not count or math.isnan(out_scale) or (math.isinf(out_scale) and math.isinf(found)):
        return math.nan
    if isinstance(found, float):
        return found * math.copysign(1, out_scale)
    if math.isinf(out_scale):
        return 0
    if not out_scale:
        return math.copysign(math.inf, float(found > 0) - 0.5) * math.copysign(1, out_scale) if found else math.nan
    exact = found / count / Fraction(out_scale)
    below = exact.numerator // exact.denominator
    rest = exact - below
    return below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2))


EXPECTED = {
    **dict.fromkeys(("AVERAGE_POOLING", "AVERAGE_POOLING1"), _average),
    **dict.fromkeys(("LP_POOLING", "LP_POOLING1"), _norm),
    "AVERAGE_POOLING_GRAD": _average_gradient,
    "QUANTIZED_LINEAR_AVERAGE_POOLING": _quantized,
}
