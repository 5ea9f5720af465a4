"""Maps output coordinates to the input, for every resampling and every region operator.

Coordinates are computed step by step, in FLOAT32 for resampling as a shader would and in FLOAT64 for regions. Sampling
is the same for both: the nearest element, or two neighbors with weights ``1 - f`` and ``f``. An element of weight 0 is
not read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from math import isfinite, isnan, nan
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.enums import AxisDirection, InterpolationMode
from opwire.tensor import Array


@dataclass(frozen=True, slots=True)
class ResampledAxis:
    """A dimension of a resampling.

    Attributes:
        size: size of the input.
        outputs: size of the output.
        scale, input_offset, output_offset: ``out = (in + input_offset) * scale + output_offset``.
    """

    size: int
    outputs: int
    scale: float
    input_offset: float
    output_offset: float

    def coordinates(self, outputs: Array) -> Array:
        """Returns the input coordinates of the given outputs, as float64."""
        single = np.float32
        with np.errstate(all="ignore"):
            moved = (outputs.astype(single) - single(self.output_offset)) / single(self.scale)
            return (moved - single(self.input_offset)).astype(np.float64)

    def coordinate(self, output: int) -> float:
        return float(self.coordinates(np.array([output]))[0])

    @property
    def is_nowhere(self) -> bool:
        """Whether the coordinates are NaN, which they are for all outputs or for none."""
        return isnan(self.coordinate(0))

    @property
    def is_usual(self) -> bool:
        """Whether coordinates lie between the elements that are read for them, once clamped to the input."""
        ends = self.coordinates(np.array([0, self.outputs - 1]))
        return 0 <= self.input_offset <= 1 and bool(np.isfinite(ends).all())

    def pair(self, output: int) -> tuple[int, int, float]:
        """Returns the two elements from which an output is interpolated, and the weight of the second.

        As in DirectML, an input offset moves the elements by at most 1, and their weights by all of it: beyond that
        range an output is extrapolated. Elements outside the input are clamped to it, also by all of the weight. The
        weight is NaN if the coordinate is not finite.
        """
        single, last = np.float32, self.size - 1
        with np.errstate(all="ignore"):
            moved = (single(output) - single(self.output_offset)) / single(self.scale)
            first = np.floor(moved - np.clip(single(self.input_offset), single(0), single(1)))
            weight = float(moved - single(self.input_offset) - first)
            both = np.clip(np.nan_to_num([first, first + single(1)], posinf=last, neginf=0), 0, last).astype(np.int64)
        if not isfinite(weight):
            weight = nan
        elif both[0] == both[1]:
            weight = 0.0
        return int(both[0]), int(both[1]), weight


def resampled_axes(plan: Plan, source: tuple[int, ...], result: tuple[int, ...]) -> tuple[ResampledAxis, ...]:
    """Returns the dimensions of a resampling.

    In DirectML, the input of a gradient is the resampled tensor, to which its input offsets belong.

    Args:
        plan: a resampling or its gradient.
        source: sizes of the tensor that is resampled.
        result: sizes of the resampled tensor.
    """
    attributes, rank = plan.attributes, len(source)
    if plan.operator.name == "UPSAMPLE_2D":
        scales = (1.0,) * (rank - 2) + (float(attributes.ScaleSize.Height), float(attributes.ScaleSize.Width))
    else:
        scales = tuple(attributes.Scales)
    inputs = getattr(attributes, "InputPixelOffsets", (0.5,) * rank)
    outputs = getattr(attributes, "OutputPixelOffsets", (-0.5,) * rank)
    if "InputGradientTensor" in plan.inputs:
        inputs, outputs = outputs, inputs
    return tuple(ResampledAxis(*members) for members in zip(source, result, scales, inputs, outputs, strict=True))


def is_linear(attributes: Any) -> bool:
    return bool(attributes.InterpolationMode == InterpolationMode.LINEAR)


class Rounding(Enum):
    """How a coordinate is rounded to that of an element."""

    HALVES_UP = auto()
    HALVES_DOWN = auto()
    UPWARDS = auto()
    DOWNWARDS = auto()


def rounding_of(plan: Plan) -> Rounding:
    """Returns the rounding of a resampling or its gradient: without a direction, DirectML rounds halves up.

    Only RESAMPLE of 8-bit integers rounds them down.
    """
    direction = getattr(plan.attributes, "RoundingDirection", None)
    if direction is not None:
        return Rounding.UPWARDS if direction == AxisDirection.INCREASING else Rounding.DOWNWARDS
    is_float = next(iter(plan.inputs.values())).data_type.is_float
    return Rounding.HALVES_UP if is_float or plan.operator.name != "RESAMPLE" else Rounding.HALVES_DOWN


def nearest_indices(coordinates: Array, size: int, rounding: Rounding) -> Array:
    """Returns the elements nearest to the coordinates, as int64."""
    chosen = _ROUNDED[rounding](within(coordinates, size))
    return np.clip(chosen, 0, size - 1).astype(np.int64)


_ROUNDED: dict[Rounding, Callable[[Array], Array]] = {
    Rounding.HALVES_UP: lambda inside: np.floor(inside + 0.5),
    Rounding.HALVES_DOWN: lambda inside: np.ceil(inside - 0.5),
    Rounding.UPWARDS: np.ceil,
    Rounding.DOWNWARDS: np.floor,
}


def within(coordinates: Array, size: int) -> Array:
    """Clamps coordinates to the input; NaN becomes 0."""
    inside: Array = np.clip(np.nan_to_num(coordinates, nan=0.0, posinf=np.inf, neginf=-np.inf), 0.0, size - 1.0)
    return inside


def neighbors(coordinates: Array, size: int) -> tuple[Array, Array]:
    """Returns the int64 element at or below each coordinate, and the fraction by which the coordinate exceeds it.

    The fraction is exact. Where it is 0 there is no second element.
    """
    inside = within(coordinates, size)
    first = np.floor(inside)
    return first.astype(np.int64), inside - first


@dataclass(frozen=True, slots=True)
class SampledAxis:
    """A dimension of a region; each output owns ``samples`` consecutive samples.

    Attributes:
        size: size of the input.
        outputs: size of the crop.
        start, extent: start and length of the region in input elements; the extent is negative if it is mirrored.
        samples: samples per output.
        input_offset, output_offset: the pixel offsets of the desc.
        to_corners: whether the first and the last sample lie on the corners of the region.
    """

    size: int
    outputs: int
    start: float
    extent: float
    samples: int
    input_offset: float
    output_offset: float
    to_corners: bool

    @property
    def steps(self) -> int:
        """The extent divided by the sample spacing; 0 for a single sample, which is then centered."""
        return self.outputs * self.samples - self.to_corners

    def shares(self, samples: Array) -> Array:
        """Returns the position of each sample within the region, as a fraction of the extent."""
        if not self.steps:
            return np.full(samples.shape, 0.5)
        return (samples.astype(np.float64) - self.output_offset) / float(self.steps)

    def coordinates(self, samples: Array) -> Array:
        """Returns the input coordinates of samples, computed step by step in float64."""
        with np.errstate(all="ignore"):
            if not self.steps:
                moved = np.full(samples.shape, self.extent / 2)
            else:
                moved = (samples.astype(np.float64) - self.output_offset) * self.extent / float(self.steps)
            return moved + self.start - self.input_offset

    def coordinate(self, sample: int) -> float:
        """Scalar version of ``coordinates``."""
        moved = self.extent / 2
        if self.steps:
            moved = (float(sample) - self.output_offset) * self.extent / float(self.steps)
        return moved + self.start - self.input_offset

    def inside(self) -> range:
        """Returns the samples from one element before the input to its end; coordinates are monotonic."""
        count = self.outputs * self.samples
        if not np.isfinite(self.extent) or not np.isfinite(self.start):
            return range(0)
        bounds = [self._first(count, lambda at: at >= -1.0), self._first(count, lambda at: at >= self.size)]
        if self.extent < 0:
            bounds = [self._first(count, lambda at: at < self.size), self._first(count, lambda at: at < -1.0)]
        return range(bounds[0], max(bounds))

    def _first(self, count: int, holds: Callable[[float], bool]) -> int:
        """Returns the first of ``count`` samples whose coordinate satisfies a monotonic predicate."""
        least, most = 0, count
        while least < most:
            middle = (least + most) // 2
            if holds(self.coordinate(middle)):
                most = middle
            else:
                least = middle + 1
        return least


def extents(attributes: Any, corners: Array, axis: int, outputs: int) -> tuple[Array, Array, Array]:
    """Returns the starts and extents of regions along one axis, in input elements, and the samples per output.

    Args:
        attributes: attributes of ROI_ALIGN, ROI_ALIGN1 or their gradient.
        corners: one row per region: left, top, right, bottom.
        axis: 0 for the height, 1 for the width.
        outputs: size of the crop along the axis.
    """
    scale = (attributes.SpatialScaleY, attributes.SpatialScaleX)[axis]
    least, most = attributes.MinimumSamplesPerOutput, attributes.MaximumSamplesPerOutput
    with np.errstate(all="ignore"):
        start, end = (corners[:, i].astype(np.float64) * scale for i in (1 - axis, 3 - axis))
        extent = end - start
        wanted = np.ceil(np.abs(extent) / outputs)
    samples = np.where(np.isnan(wanted), least, np.clip(wanted, least, most))
    return start, extent, samples.astype(np.int64)


def sampled_axes(attributes: Any, corners: Array, image: tuple[int, ...], crop: tuple[int, ...]) -> list[SampledAxis]:
    """Returns the height and width axes of one region, given the spatial sizes of the images and of the crops."""
    axes = []
    for axis, (size, outputs) in enumerate(zip(image, crop, strict=True)):
        start, extent, samples = (values[0] for values in extents(attributes, corners[None], axis, outputs))
        axes.append(SampledAxis(size, outputs, float(start), float(extent), int(samples), *offsets(attributes)))
    return axes


def offsets(attributes: Any) -> tuple[float, float, bool]:
    """Returns the input and output pixel offsets, and whether samples are aligned to the corners of a region."""
    return (
        getattr(attributes, "InputPixelOffset", 0.5),
        getattr(attributes, "OutputPixelOffset", -0.5),
        bool(getattr(attributes, "AlignRegionsToCorners", False)),
    )
