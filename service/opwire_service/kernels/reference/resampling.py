"""Resampling and its gradients, in exact arithmetic on the rounded coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from math import ceil, floor, isfinite, isnan, nan

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ...execution import Arrays, Stop, Stopped
from .. import exact
from ..layout import coordinates
from ..sampling import ResampledAxis, is_linear, nearest_indices, neighbors, resampled_axes, rounding_of
from .weighted import Taps, rounded, weighted_sum

_ONE = Fraction(1)


def _resample(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    axes = resampled_axes(plan, source.shape, target.shape)
    for coordinate in coordinates(target.shape):
        if stop():
            raise Stopped
        if is_linear(plan.attributes):
            target[coordinate] = interpolated(plan, axes, source, stop, coordinate, target)
        else:
            target[coordinate] = source[tuple(_nearest(plan, *pair) for pair in zip(axes, coordinate, strict=True))]


def interpolated(
    plan: Plan, axes: tuple[ResampledAxis, ...], source: Array, stop: Stop, place: tuple[int, ...], target: Array
) -> exact.Float | int:
    """Returns one element of a linear resampling."""
    taps = [partial(_linear, plan, axis, at) for axis, at in zip(axes, place, strict=True)]
    if any(isnan(axis.pair(at)[2]) for axis, at in zip(axes, place, strict=True)):
        return _converted(nan, target)
    return _converted(weighted_sum(source, taps, stop), target)


def _nearest(plan: Plan, axis: ResampledAxis, output: int) -> int:
    return int(nearest_indices(axis.coordinates(np.array([output])), axis.size, rounding_of(plan))[0])


def _linear(plan: Plan, axis: ResampledAxis, output: int) -> Taps:
    if getattr(plan.attributes, "Antialiased", False) and axis.scale < 0.5:
        return _triangle(axis, output)
    return _two(axis, output)


def _two(axis: ResampledAxis, output: int) -> Iterator[tuple[int, Fraction]]:
    first, second, weight = axis.pair(output)
    for index, share in ((first, _ONE - Fraction(weight)), (second, Fraction(weight))):
        if share:
            yield index, share


def _clamped(axis: ResampledAxis, output: int) -> Iterator[tuple[int, Fraction]]:
    """Yields the elements next to a coordinate that is clamped to the input, which get the gradient of an output."""
    first, part = neighbors(axis.coordinates(np.array([output])), axis.size)
    weight = Fraction(float(part[0]))
    yield int(first[0]), _ONE - weight
    if weight:
        yield int(first[0]) + 1, weight


def _triangle(axis: ResampledAxis, output: int) -> Iterator[tuple[int, Fraction]]:
    """Yields the taps of a triangle filter of half-width ``1 / scale``; outside the input it counts at the edges."""
    coordinate, last = axis.coordinate(output), axis.size - 1
    if not isfinite(coordinate):
        yield last if coordinate > 0 else 0, _ONE
        return
    center, scale = Fraction(coordinate), Fraction(axis.scale)
    begin, end = floor(center - 1 / scale) + 1, ceil(center + 1 / scale) - 1
    share = 1 / _heights(center, scale, begin, end)
    for index in range(max(0, min(begin, last)), max(0, min(end, last)) + 1):
        low, high = index if index else min(begin, index), index if index < last else max(end, index)
        weight = _heights(center, scale, max(low, begin), min(high, end)) * share
        if weight:
            yield index, weight


def _heights(center: Fraction, scale: Fraction, begin: int, end: int) -> Fraction:
    """Returns the sum of a triangle's heights at the integers from ``begin`` to ``end``, inclusive."""
    middle = min(max(floor(center), begin - 1), end)

    def straight(first: int, last: int, slope: Fraction) -> Fraction:
        return (last - first + 1) * (1 - slope * (center - Fraction(first + last, 2)))

    return straight(begin, middle, scale) + straight(middle + 1, end, -scale)


def _converted(number: Fraction | float, target: Array) -> exact.Float | int:
    """Converts a number to an element: integers round half to even and saturate."""
    if target.dtype.kind == "f":
        return rounded(number, exact.FORMATS[DataType.of(target.dtype)])
    if isinstance(number, float) and isnan(number):
        return 0
    limits = np.iinfo(target.dtype)
    return max(int(limits.min), min(round(number), int(limits.max)))


def _gradient(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    """Gathers, for each element, the gradients of the outputs that read it."""
    source, target = inputs["InputGradientTensor"], outputs["OutputGradientTensor"]
    axes = resampled_axes(plan, target.shape, source.shape)
    for coordinate in coordinates(target.shape):
        if stop():
            raise Stopped
        target[coordinate] = gathered(plan, axes, source, stop, coordinate, target)


def gathered(
    plan: Plan, axes: tuple[ResampledAxis, ...], source: Array, stop: Stop, place: tuple[int, ...], target: Array
) -> exact.Float | int:
    """Returns one element of a gradient."""
    readers = [partial(_readers, plan, axis, at) for axis, at in zip(axes, place, strict=True)]
    return _converted(weighted_sum(source, readers, stop), target)


def _readers(plan: Plan, axis: ResampledAxis, index: int) -> Iterator[tuple[int, Fraction]]:
    """Yields the outputs that read an element along one dimension, with its weight in each."""
    if axis.is_nowhere:
        yield from _readers_from_nowhere(plan, axis)
        return
    reads = partial(_clamped, axis) if is_linear(plan.attributes) else lambda at: ((_nearest(plan, axis, at), _ONE),)

    def first(holds: Callable[[int, int], bool]) -> int:
        """Returns the first output whose lowest and highest index satisfy a monotonic predicate."""
        least, most = 0, axis.outputs
        while least < most:
            middle = (least + most) // 2
            indices = [at for at, _ in reads(middle)]
            if holds(min(indices), max(indices)):
                most = middle
            else:
                least = middle + 1
        return least

    for output in range(first(lambda low, high: high >= index), first(lambda low, high: low > index)):
        for at, weight in reads(output):
            if at == index:
                yield output, weight


def _readers_from_nowhere(plan: Plan, axis: ResampledAxis) -> Iterator[tuple[int, Fraction]]:
    """Yields the outputs of a dimension, whose coordinates are NaN, for an element, whichever it is.

    As in DirectML, all are nearest to it, but none is near enough to be interpolated from it and others.
    """
    is_none = is_linear(plan.attributes) and axis.size > 1
    return ((output, _ONE) for output in range(0 if is_none else axis.outputs))


KERNELS = {
    **dict.fromkeys(("UPSAMPLE_2D", "RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3"), _resample),
    **dict.fromkeys(("RESAMPLE_GRAD", "RESAMPLE_GRAD1"), _gradient),
}
