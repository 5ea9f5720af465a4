"""Average pooling, its quantized variant and its gradient, and LP pooling, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import copysign, inf, isfinite, isinf, isnan, nan
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.rules.dimension import Dimension
from opwire.tensor import Array

from ...execution import Arrays, Stop, Stopped
from .. import exact
from ..layout import coordinates
from ..windows import covering, dimensions_of, divisor, places, slices
from .elements import Elements
from .norms import root_of_powers
from .weighted import Total

Coordinate = tuple[int, ...]


def _windows(
    plan: Plan, source: Array, target: Array, stop: Stop
) -> Iterator[tuple[Coordinate, tuple[range, ...], Elements]]:
    """Yields the coordinate of each output, the positions of its window, and the window's elements."""
    dimensions = dimensions_of(plan.attributes, source.shape)
    for coordinate in coordinates(target.shape):
        if stop():
            raise Stopped
        ranges = places(dimensions, coordinate[2:])
        yield coordinate, ranges, Elements(source[(*coordinate[:2], *slices(ranges))], stop)


def average_of(
    attributes: Any, dimensions: Sequence[Dimension], ranges: Sequence[range], elements: Elements, to: exact.FloatFormat
) -> exact.Float:
    """Returns the mean of a window, given its positions inside the input."""
    count = divisor(attributes, dimensions, ranges)
    total = exact.sum_of(elements, to)
    total.negative_zeros &= total.count == count  # padding adds +0
    return total.rounded(count) if count else to.of(nan)


def norm_of(elements: Elements, power: int, to: exact.FloatFormat) -> exact.Float:
    """Returns the norm of the elements of a window."""
    if not elements.view.size:
        return to.of(0)
    if power == 1:
        return exact.l1(elements, to)
    return exact.l2(elements, to) if power == 2 else root_of_powers(elements, power, to)


def _average(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    to = exact.FORMATS[plan.inputs["InputTensor"].data_type]
    dimensions = dimensions_of(plan.attributes, source.shape)
    for coordinate, ranges, elements in _windows(plan, source, target, stop):
        target[coordinate] = average_of(plan.attributes, dimensions, ranges, elements, to)


def _norm(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    to = exact.FORMATS[plan.inputs["InputTensor"].data_type]
    for coordinate, _, elements in _windows(plan, source, target, stop):
        target[coordinate] = norm_of(elements, plan.attributes.P, to)


def average_gradient_of(
    attributes: Any, dimensions: Sequence[Dimension], source: Array, coordinate: Coordinate, stop: Stop
) -> Total:
    """Returns an element's total gradient: its share of each window that covers it."""
    total = Total(stop)
    ranges = (
        covering(dimension, count, at)
        for dimension, count, at in zip(dimensions, source.shape[2:], coordinate[2:], strict=True)
    )
    for window in product(*ranges):
        count = divisor(attributes, dimensions, places(dimensions, window))
        total.add(source[(*coordinate[:2], *window)], Fraction(1, count))
    return total


def _average_gradient(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputGradientTensor"], outputs["OutputGradientTensor"]
    to = exact.FORMATS[plan.inputs["InputGradientTensor"].data_type]
    dimensions = dimensions_of(plan.attributes, target.shape)
    for coordinate in coordinates(target.shape):
        if stop():
            raise Stopped
        target[coordinate] = average_gradient_of(plan.attributes, dimensions, source, coordinate, stop).rounded(to)


def _quantized_average(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    dimensions = dimensions_of(plan.attributes, source.shape)
    for coordinate, ranges, elements in _windows(plan, source, target, stop):
        channel = coordinate[1]
        zero, out_zero = (int(_parameter(inputs, f"{name}ZeroPointTensor", channel)) for name in ("Input", "Output"))
        scale, out_scale = (float(_parameter(inputs, f"{name}ScaleTensor", channel)) for name in ("Input", "Output"))
        count = divisor(plan.attributes, dimensions, ranges)
        total = _dequantized_sum(elements, zero, scale)
        limits = np.iinfo(target.dtype)
        target[coordinate] = _saturated(_steps(total, count, out_scale), out_zero, int(limits.min), int(limits.max))


def _parameter(inputs: Arrays, name: str, channel: int) -> Any:
    """Returns the parameter of a channel; it has one element, or one per channel along a single dimension."""
    given = inputs.get(name)
    if given is None:
        return 0
    return given.flat[channel if given.size > 1 else 0]


def _dequantized_sum(elements: Elements, zero: int, scale: float) -> Fraction | float:
    """Returns the sum of ``(element - zero) * scale``; a non-finite scale yields infinity or NaN as in IEEE 754."""
    total, least, greatest, has_zero = 0, 0, 0, False
    for values in elements:
        differences = values.astype(np.int64) - zero
        total += int(differences.sum())
        least, greatest = min(least, int(differences.min())), max(greatest, int(differences.max()))
        has_zero |= bool((differences == 0).any())
    if isfinite(scale):
        return total * Fraction(scale)
    if isnan(scale) or has_zero or (least and greatest):
        return nan if elements.view.size else Fraction(0)
    if not elements.view.size:
        return Fraction(0)
    return inf if (scale > 0) == (total > 0) else -inf


def _steps(total: Fraction | float, count: int, scale: float) -> int | float:
    """Returns ``total / count / scale``, rounded half to even; NaN becomes 0."""
    if not count or isnan(scale) or isnan(total):
        return 0
    if isinstance(total, float):
        return 0 if isinf(scale) else total * copysign(1, scale)
    if isinf(scale) or not total:
        return 0
    if not scale:
        return (inf if total > 0 else -inf) * copysign(1, scale)
    return round(total / count / Fraction(scale))


def _saturated(steps: int | float, zero: int, least: int, greatest: int) -> int:
    if isinf(steps):
        return greatest if steps > 0 else least
    return max(least, min(int(steps) + zero, greatest))


KERNELS = {
    **dict.fromkeys(("AVERAGE_POOLING", "AVERAGE_POOLING1"), _average),
    **dict.fromkeys(("LP_POOLING", "LP_POOLING1"), _norm),
    "AVERAGE_POOLING_GRAD": _average_gradient,
    "QUANTIZED_LINEAR_AVERAGE_POOLING": _quantized_average,
}
