"""Regions of interest, sample by sample."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer, Reals
from tests.oracles.windows import Coordinate, Number, every, number_of, numbers, of_sums, total

_BOTH = (0, 1)


@dataclass(frozen=True)
class _Along:
    """A sample along one dimension: its position, whether it is inside, and its relative position in the region."""

    at: Fraction
    inside: bool
    through: float
    last: int

    @property
    def weights(self) -> dict[int, Fraction]:
        below = math.floor(self.at)
        part = self.at - below
        return {below: 1 - part, below + 1: part} if part else {below: Fraction(1)}

    @property
    def share(self) -> Fraction:
        return Fraction(self.through)

    @property
    def nearest(self) -> dict[int, Fraction]:
        return {min(math.floor(self.at + Fraction(1, 2)), self.last): Fraction(1)}


def _along(attributes: Any, region: Array, axis: int, output: int, outputs: int, size: int) -> list[_Along]:
    scale = (attributes.SpatialScaleY, attributes.SpatialScaleX)[axis]
    start, end = float(region[1 - axis]) * scale, float(region[3 - axis]) * scale
    extent = end - start
    least, most = attributes.MinimumSamplesPerOutput, attributes.MaximumSamplesPerOutput
    wanted = abs(extent) / outputs
    count = least if math.isnan(wanted) else most if math.isinf(wanted) else min(max(math.ceil(wanted), least), most)
    into, out = getattr(attributes, "InputPixelOffset", 0.5), getattr(attributes, "OutputPixelOffset", -0.5)
    steps = outputs * count - bool(getattr(attributes, "AlignRegionsToCorners", False))
    found = []
    for sample in range(output * count, (output + 1) * count):
        at = ((sample - out) * extent / steps if steps else extent / 2) + start - into
        share = (sample - out) / steps if steps else 0.5
        inside = -1 <= at < size
        clamped = Fraction(min(max(at, 0), size - 1)) if inside else Fraction(0)
        found.append(_Along(clamped, inside, share, size - 1))
    return found


@dataclass(frozen=True)
class _Sample:
    value: Number
    reads: Mapping[Coordinate, Fraction]
    along: tuple[_Along, _Along]


def _samples(
    plan: Plan, inputs: Mapping[str, Array], image: Array, output: Coordinate, crop: Coordinate
) -> list[_Sample | None]:
    """Returns an output's samples in a region; None for those outside of the image."""
    region = inputs["ROITensor"].reshape(-1, 4)[output[0]]
    axes = [
        _along(plan.attributes, region, axis, output[2 + axis], crop[2 + axis], image.shape[axis]) for axis in _BOTH
    ]
    linear = plan.attributes.InterpolationMode.name == "LINEAR"
    samples: list[_Sample | None] = []
    for pair in itertools.product(*axes):
        if not all(along.inside for along in pair):
            samples.append(None)
            continue
        rows, columns = ((along.weights if linear else along.nearest).items() for along in pair)
        reads: dict[Coordinate, Fraction] = {
            (row, column): a * b for (row, a), (column, b) in itertools.product(rows, columns)
        }
        samples.append(_Sample(total((image[at], weight) for at, weight in reads.items()), reads, (pair[0], pair[1])))
    return samples


def _batch(inputs: Mapping[str, Array], region: int, images: int) -> int:
    return min(int(inputs["BatchIndicesTensor"].reshape(-1)[region]), images - 1)


def _largest(values: list[Number]) -> int:
    """Returns the index of the first maximum, skipping NaN unless all are."""
    usable = [i for i, value in enumerate(values) if value == value]
    return max(usable, key=lambda i: (values[i], -i)) if usable else 0


def _aligned(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    source, sizes = inputs["InputTensor"], plan.outputs["OutputTensor"].sizes
    outside = number_of(plan.attributes.OutOfBoundsInputValue)

    def value(place: Coordinate) -> Number:
        image = _batch(inputs, place[0], source.shape[0])
        found = _samples(plan, inputs, source[image, place[1]], place, sizes)
        values = [outside if sample is None else sample.value for sample in found]
        if plan.attributes.ReductionFunction.name == "MAX":
            return values[_largest(values)]
        special = sum((number for number in values if isinstance(number, float)), 0.0)
        return special or sum((number for number in values if isinstance(number, Fraction)), Fraction(0)) / len(values)

    return {"OutputTensor": Reals(numbers(sizes, value), Fraction(1))}


def _shares(
    plan: Plan, inputs: Mapping[str, Array], images: Coordinate
) -> Iterator[tuple[Coordinate, int, _Sample, Fraction]]:
    """Yields the place of each gradient, its image, and each sample that gets a share of it."""
    crop = inputs["InputGradientTensor"].shape
    for place in every(crop):
        image = _batch(inputs, place[0], images[0])
        given = inputs.get("InputTensor")
        seen = np.zeros(images[2:], np.float32) if given is None else given[image, place[1]]
        samples = _samples(plan, inputs, seen, place, crop)
        inside = [sample for sample in samples if sample is not None]
        if plan.attributes.ReductionFunction.name == "MAX":
            chosen = inside and [inside[_largest([sample.value for sample in inside])]]
            part = Fraction(1)
        else:
            chosen, part = inside, Fraction(1, len(samples))
        for sample in chosen:
            yield place, image, sample, part


def _gradient(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    gradient = inputs["InputGradientTensor"]
    answers: dict[str, Answer] = {}
    image_desc = plan.outputs.get("OutputGradientTensor")
    region_desc = plan.outputs.get("OutputROIGradientTensor")
    images = inputs["InputTensor"].shape if image_desc is None else image_desc.sizes
    sums: dict[Coordinate, list[tuple[Any, Fraction]]] = {}
    slopes: dict[Coordinate, list[Number]] = {}
    for place, image, sample, part in _shares(plan, inputs, images):
        for at, weight in sample.reads.items():
            sums.setdefault((image, place[1], *at), []).append((gradient[place], part * weight))
        if region_desc is not None:
            _add_slopes(slopes, plan, inputs["InputTensor"][image, place[1]], place[0], sample, gradient[place], part)
    if image_desc is not None:
        answers["OutputGradientTensor"] = Reals(of_sums(images, sums), Fraction(1))
    if region_desc is not None:
        rows = numbers((gradient.shape[0], 4), lambda at: total((x, Fraction(1)) for x in slopes.get(at, ())))
        for at, given in slopes.items():  # a sum of fractions needs no float arithmetic
            if all(isinstance(number, Fraction) for number in given):
                rows[at] = sum(given, Fraction(0))
        answers["OutputROIGradientTensor"] = Reals(rows.reshape(region_desc.sizes), Fraction(1))
    return answers


def _add_slopes(
    slopes: dict[Coordinate, list[Number]],
    plan: Plan,
    image: Array,
    region: int,
    sample: _Sample,
    gradient: Any,
    part: Fraction,
) -> None:
    if plan.attributes.InterpolationMode.name != "LINEAR":
        return
    for axis in _BOTH:
        along, other = sample.along[axis], sample.along[1 - axis]
        if along.at == math.floor(along.at):
            continue
        low = math.floor(along.at)
        terms = []
        for index, weight in other.weights.items():
            before, after = ((low, index), (low + 1, index)) if axis == 0 else ((index, low), (index, low + 1))
            terms += [(image[after], weight), (-image[before], weight)]
        change = total(terms)
        scale = Fraction((plan.attributes.SpatialScaleY, plan.attributes.SpatialScaleX)[axis])
        for corner, share in ((1 - axis, 1 - along.share), (3 - axis, along.share)):
            factor = scale * share * part
            number: Number
            if isinstance(change, float) or not math.isfinite(gradient):
                number = float(change) * float(gradient) * float(factor)
            else:
                number = change * Fraction(float(gradient)) * factor
            slopes.setdefault((region, corner), []).append(number)


def _pooled(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    source, desc = inputs["InputTensor"], plan.outputs["OutputTensor"]
    result = np.zeros(desc.sizes, desc.data_type.dtype)
    for place in every(desc.sizes):
        region = inputs["ROITensor"][0, 0, place[0]]
        given, scale = float(region[0]), plan.attributes.SpatialScale
        image = 0 if math.isnan(given) else min(max(given, 0), source.shape[0] - 1)
        ranges = []
        for axis in _BOTH:
            first, last = (_whole(region[corner], scale) for corner in (2 - axis, 4 - axis))
            length, bins, size = last - first + 1, desc.sizes[2 + axis], source.shape[2 + axis]
            begin = first + math.floor(Fraction(place[2 + axis] * length, bins))
            end = first + math.ceil(Fraction((place[2 + axis] + 1) * length, bins))
            ranges.append([at for at in range(size) if begin <= at < end])
        values = [source[int(image), place[1], row, column] for row in ranges[0] for column in ranges[1]]
        if values:
            result[place] = values[_largest([value + 0.0 for value in values])]
    return {"OutputTensor": result}


def _whole(corner: Any, scale: float) -> int:
    """Rounds half away from zero; far outside of any image if there is no such number."""
    scaled = float(corner) * scale  # exact in float64
    if math.isnan(scaled):
        return 0
    whole = math.floor(abs(Fraction(min(max(scaled, -(2.0**40)), 2.0**40))) + Fraction(1, 2))
    return whole if scaled >= 0 else -whole


_PLACES = st.sampled_from([-2.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 3.75, 5.0, 9.0]) | st.floats(-3, 8, width=16)


def _scales(attributes: Any) -> tuple[float, float]:
    """Returns the horizontal and the vertical scale."""
    if hasattr(attributes, "SpatialScale"):
        return attributes.SpatialScale, attributes.SpatialScale
    return attributes.SpatialScaleX, attributes.SpatialScaleY


def _draw_regions(draw: Any, plan: Plan) -> dict[str, Array]:
    """Draws regions, most of them around the image."""
    desc = plan.inputs["ROITensor"]
    drawn_places = draw(st.lists(_PLACES, min_size=desc.element_count, max_size=desc.element_count))
    regions = np.array(drawn_places, desc.data_type.dtype).reshape(desc.sizes)
    for axis, scale in enumerate(_scales(plan.attributes)):
        with np.errstate(all="ignore"):
            columns = regions[..., desc.sizes[-1] - 4 + axis :: 2]
            columns[...] = (columns + getattr(plan.attributes, "InputPixelOffset", 0.0)) / scale
    images = (plan.inputs.get("InputTensor") or plan.outputs["OutputGradientTensor"]).sizes[0]
    drawn = {"ROITensor": regions}
    if plan.operator.name == "ROI_POOLING":
        count = desc.sizes[-2]
        regions[..., 0] = draw(st.lists(st.integers(-1, images), min_size=count, max_size=count))
    else:
        batch = plan.inputs["BatchIndicesTensor"]
        count = batch.element_count
        found = draw(st.lists(st.integers(0, images), min_size=count, max_size=count))
        drawn["BatchIndicesTensor"] = np.array(found, batch.data_type.dtype).reshape(batch.sizes)
    return drawn if draw(st.integers(0, 7)) else {}


EXPECTED = {"ROI_POOLING": _pooled, "ROI_ALIGN": _aligned, "ROI_ALIGN1": _aligned, "ROI_ALIGN_GRAD": _gradient}

INPUTS = dict.fromkeys(EXPECTED, _draw_regions)
