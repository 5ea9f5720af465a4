"""Region-of-interest pooling and alignment, and the gradients of alignment, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import isfinite, nan
from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ...execution import Arrays, Stop, Stopped
from .. import exact
from ..layout import coordinates
from ..regions import Region, RegionsOfInterest, bin_of, corners_of, is_average
from ..sampling import Rounding, is_linear, nearest_indices, neighbors
from .elements import Elements
from .extreme import FIRST_GREATEST
from .weighted import Total, rounded

_ONE = Fraction(1)

Number = Fraction | float

_TOTALS = 1 << 11
"""Maximum number of image elements whose sums are kept at once."""


class _Sample(NamedTuple):
    """What a sample reads along one dimension.

    Attributes:
        taps: indices and weights.
        slope: the indices before and after the sample, if it lies between two.
        share: position of the sample within the region, as a fraction of its extent.
    """

    taps: tuple[tuple[int, Fraction], ...]
    slope: tuple[int, int] | None
    share: Fraction


def pooled(
    plan: Plan, source: Array, regions: Array, place: tuple[int, ...], sizes: tuple[int, ...], stop: Stop
) -> exact.Float:
    """Returns one element of a pooled region, given the sizes of the output."""
    region, channel, down, across = place
    image, left, top, right, bottom = corners_of(regions[0, 0, region], plan.attributes.SpatialScale, source.shape[0])
    rows = bin_of(top, bottom, down, sizes[2], source.shape[2])
    columns = bin_of(left, right, across, sizes[3], source.shape[3])
    view = source[image, channel, rows.start : rows.stop, columns.start : columns.stop]
    value: exact.Float = FIRST_GREATEST.winner(Elements(view, stop))[1] if view.size else source.dtype.type(0)
    return value


def _pool(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, regions, target = inputs["InputTensor"], inputs["ROITensor"], outputs["OutputTensor"]
    for place in coordinates(target.shape):
        if stop():
            raise Stopped
        target[place] = pooled(plan, source, regions, place, target.shape, stop)


def _align(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    regions = RegionsOfInterest(plan, inputs, source.shape, target.shape)
    for number in range(target.shape[0]):
        if stop():
            raise Stopped
        region, crop = regions[number], target.shape[1:]
        if not all(region.inside):
            # Every sample lies outside, so all elements are equal.
            target[number] = aligned(plan, source, regions, stop, (number, *(0 for _ in crop)))
            continue
        for place in coordinates(crop):
            if stop():
                raise Stopped
            target[number, *place] = aligned(plan, source, regions, stop, (number, *place))


def aligned(plan: Plan, source: Array, regions: RegionsOfInterest, stop: Stop, place: tuple[int, ...]) -> exact.Float:
    """Returns one element of an aligned region."""
    to = exact.FORMATS[plan.inputs["InputTensor"].data_type]
    outside = float(plan.attributes.OutOfBoundsInputValue)
    region = regions[place[0]]
    count = region.axes[0].samples * region.axes[1].samples
    found = _values(plan, source[region.image, place[1]], region, place[2:], stop)
    if not is_average(plan.attributes):
        best, inside = _greatest(found)
        missing = [outside] if inside < count else []
        candidates = [number for number in (*(best[:1] if best else ()), *missing) if number == number]
        return _nearest(max(candidates, default=nan), to)
    total, inside = Total(stop), 0
    for value, _ in found:
        _add(total, value)
        inside += 1
    if inside < count:
        _add(total, outside, count - inside)
    number = total.number
    return rounded(number if isinstance(number, float) else number / count, to)


def _nearest(number: Number, to: exact.FloatFormat) -> exact.Float:
    """Rounds a number; the out-of-bounds value is FLOAT32 and may exceed the FLOAT16 range."""
    with np.errstate(over="ignore"):
        return rounded(number, to)


def _add(total: Total, number: Number, times: int = 1) -> None:
    if isinstance(number, float) and not isfinite(number):
        total.special += number
    else:
        total.value += Fraction(number) * times


def _values(
    plan: Plan, image: Array, region: Region, output: tuple[int, ...], stop: Stop
) -> Iterator[tuple[Number, tuple[_Sample, _Sample]]]:
    """Yields the values of an output's samples that lie inside, with what each reads in both dimensions."""
    rows, columns = (list(_samples(plan, region, axis, output[axis], stop)) for axis in (0, 1))
    for place in product(rows, columns):
        total = Total(stop)
        for (row, of_row), (column, of_column) in product(place[0].taps, place[1].taps):
            total.add(image[row, column], of_row * of_column)
        if stop():
            raise Stopped
        yield total.number, place


def _samples(plan: Plan, region: Region, which: int, output: int, stop: Stop) -> Iterator[_Sample]:
    axis, inside = region.axes[which], region.inside[which]
    owned = range(max(inside.start, output * axis.samples), min(inside.stop, (output + 1) * axis.samples))
    for sample in owned:
        if stop():
            raise Stopped
        numbers = np.array([sample], np.uint64)
        coordinate, share = axis.coordinates(numbers), Fraction(float(axis.shares(numbers)[0]))
        if not is_linear(plan.attributes):
            index = int(nearest_indices(coordinate, axis.size, Rounding.HALVES_UP)[0])
            yield _Sample(((index, _ONE),), None, share)
            continue
        first, part = (array[0] for array in neighbors(coordinate, axis.size))
        index, weight = int(first), Fraction(float(part))
        if weight:
            yield _Sample(((index, _ONE - weight), (index + 1, weight)), (index, index + 1), share)
        else:
            yield _Sample(((index, _ONE),), None, share)


def _greatest(
    found: Iterator[tuple[Number, tuple[_Sample, _Sample]]],
) -> tuple[tuple[Number, tuple[_Sample, _Sample]] | None, int]:
    """Returns the first maximum, skipping NaN unless there is nothing else, and the number of values."""
    best, count = None, 0
    for value, place in found:
        count += 1
        if best is None or (value > best[0] if best[0] == best[0] else value == value):
            best = value, place
    return best, count


def _passed(
    plan: Plan, image: Array | None, region: Region, output: tuple[int, ...], stop: Stop
) -> Iterator[tuple[tuple[_Sample, _Sample], Fraction]]:
    """Yields the samples that receive an output's gradient, each with its share."""
    if is_average(plan.attributes):
        part = Fraction(1, region.axes[0].samples * region.axes[1].samples)
        rows, columns = (list(_samples(plan, region, axis, output[axis], stop)) for axis in (0, 1))
        for place in product(rows, columns):
            yield place, part
    else:
        assert image is not None  # required by the checks of the plan
        best, _ = _greatest(_values(plan, image, region, output, stop))
        if best is not None:
            yield best[1], _ONE


def _gradient(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    if "OutputGradientTensor" in outputs:
        _image_gradient(plan, inputs, outputs["OutputGradientTensor"], stop)
    if "OutputROIGradientTensor" in outputs:
        _region_gradient(plan, inputs, outputs["OutputROIGradientTensor"], stop)


def _image_gradient(plan: Plan, inputs: Arrays, target: Array, stop: Stop) -> None:
    """Gathers the gradient of an image from all its regions, one block of elements at a time."""
    gradient = inputs["InputGradientTensor"]
    to = exact.FORMATS[plan.inputs["InputGradientTensor"].data_type]
    regions = RegionsOfInterest(plan, inputs, target.shape, gradient.shape)
    images, channels, height, width = target.shape
    at_once = max(1, _TOTALS // width)
    for image, channel, block, part in coordinates((images, channels, -(-height // at_once), -(-width // _TOTALS))):
        rows = range(block * at_once, min((block + 1) * at_once, height))
        columns = range(part * _TOTALS, min((part + 1) * _TOTALS, width))
        totals: dict[tuple[int, int], Total] = {}
        for region, down, across in coordinates((gradient.shape[0], *gradient.shape[2:])):
            if stop():
                raise Stopped
            if regions[region].image != image:
                continue
            element = gradient[region, channel, down, across]
            seen = inputs["InputTensor"][image, channel] if "InputTensor" in inputs else None
            for place, share in _passed(plan, seen, regions[region], (down, across), stop):
                for (row, of_row), (column, of_column) in product(place[0].taps, place[1].taps):
                    if row in rows and column in columns:
                        totals.setdefault((row, column), Total(stop)).add(element, share * of_row * of_column)
        for row, column in product(rows, columns):
            found = totals.get((row, column))
            target[image, channel, row, column] = found.rounded(to) if found else to.of(0)


def _region_gradient(plan: Plan, inputs: Arrays, target: Array, stop: Stop) -> None:
    source, gradient = inputs["InputTensor"], inputs["InputGradientTensor"]
    to = exact.FORMATS[plan.inputs["InputGradientTensor"].data_type]
    regions = RegionsOfInterest(plan, inputs, source.shape, gradient.shape)
    rows = target[(0,) * (target.ndim - 2)]
    for number in range(gradient.shape[0]):
        totals = [Total(stop) for _ in range(4)]
        region = regions[number]
        for channel, down, across in coordinates(gradient.shape[1:]):
            if stop():
                raise Stopped
            view = source[region.image, channel]
            element = gradient[number, channel, down, across]
            for place, share in _passed(plan, view, region, (down, across), stop):
                _add_slopes(plan, totals, view, place, element, share, stop)
        rows[number] = [total.rounded(to) for total in totals]


def _add_slopes(
    plan: Plan,
    totals: list[Total],
    view: Array,
    place: tuple[_Sample, _Sample],
    element: float,
    part: Fraction,
    stop: Stop,
) -> None:
    """Adds the effect of moving a sample to the sums for left, top, right and bottom."""
    scales = plan.attributes.SpatialScaleY, plan.attributes.SpatialScaleX
    for axis in (0, 1):
        moving, other = place[axis], place[1 - axis]
        if moving.slope is None:
            continue
        change = Total(stop)
        for index, weight in other.taps:
            before, after = ((at, index) if axis == 0 else (index, at) for at in moving.slope)
            change.add(view[after], weight)
            change.add(-view[before], weight)
        for total, share in ((totals[1 - axis], 1 - moving.share), (totals[3 - axis], moving.share)):
            factor = Fraction(float(scales[axis])) * share * part
            number = change.number
            if isinstance(number, float) or not isfinite(element):
                total.special += float(number) * float(element) * float(factor)
            else:
                total.value += number * Fraction(float(element)) * factor


KERNELS = {"ROI_POOLING": _pool, "ROI_ALIGN": _align, "ROI_ALIGN1": _align, "ROI_ALIGN_GRAD": _gradient}

SAMPLES, CLEARED = 4, 8
"""Samples, and image elements without a gradient, that cost as much as the fixed work of one output."""

_TAPS = 4
"""Elements that an interpolated sample reads, as counted in the work of a plan."""


def _aligned_turns(plan: Plan) -> int:
    """Outputs, plus the cost of their samples."""
    return plan.outputs["OutputTensor"].element_count + _sampled(plan, plan.work) // SAMPLES


def _gradient_turns(plan: Plan) -> int:
    """Samples; for an image gradient also its elements, and the regions examined for each image."""
    image = plan.outputs.get("OutputGradientTensor")
    if image is None:
        return _sampled(plan, plan.work)
    looked_at = image.sizes[0] * plan.inputs["InputGradientTensor"].element_count
    return _sampled(plan, plan.work - image.element_count) + image.element_count // CLEARED + looked_at


def _sampled(plan: Plan, read: int) -> int:
    """Returns the number of samples that read the given number of elements."""
    return read // _TAPS if is_linear(plan.attributes) else read


TURNS = {_align: _aligned_turns, _gradient: _gradient_turns}
