"""Where outputs lie in the input: the one mapper of coordinates of all resamplings and regions.

Coordinates of resampling are computed step by step in FLOAT32, as a shader would, those of regions in FLOAT64. What is
read at a coordinate is the same for both: a nearest element, or two neighbours with the weights ``1 - f`` and ``f``.
An element whose weight is 0 is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.enums import AxisDirection, InterpolationMode
from opwire.tensor import Array


@dataclass(frozen=True, slots=True)
class ResampledAxis:
    """A dimension that is resampled.

    Attributes:
        size: of the input.
        outputs: of the output.
        scale, input_offset, output_offset: ``out = (in + input_offset) * scale + output_offset``.
    """

    size: int
    outputs: int
    scale: float
    input_offset: float
    output_offset: float

    def coordinates(self, outputs: Array) -> Array:
        """The coordinates in the input of some outputs, as float64."""
        single = np.float32
        with np.errstate(all="ignore"):
            moved = (outputs.astype(single) - single(self.output_offset)) / single(self.scale)
            return (moved - single(self.input_offset)).astype(np.float64)

    def coordinate(self, output: int) -> float:
        return float(self.coordinates(np.array([output]))[0])


def resampled_axes(plan: Plan, source: tuple[int, ...], result: tuple[int, ...]) -> tuple[ResampledAxis, ...]:
    """The dimensions of a resampling.

    Args:
        plan: of any of them; of a gradient, too.
        source: the sizes of what is resampled.
        result: the sizes of what it becomes.
    """
    attributes, rank = plan.attributes, len(source)
    if plan.operator.name == "UPSAMPLE_2D":
        scales = (1.0,) * (rank - 2) + (float(attributes.ScaleSize.Height), float(attributes.ScaleSize.Width))
    else:
        scales = tuple(attributes.Scales)
    inputs = getattr(attributes, "InputPixelOffsets", (0.5,) * rank)
    outputs = getattr(attributes, "OutputPixelOffsets", (-0.5,) * rank)
    return tuple(ResampledAxis(*members) for members in zip(source, result, scales, inputs, outputs, strict=True))


def is_linear(attributes: Any) -> bool:
    return bool(attributes.InterpolationMode == InterpolationMode.LINEAR)


def nearest_indices(coordinates: Array, size: int, attributes: Any) -> Array:
    """The elements nearest to coordinates, as int64: halves go up, or all go in the direction of rounding."""
    direction = getattr(attributes, "RoundingDirection", None)
    inside = within(coordinates, size)
    if direction is None:
        chosen = np.floor(inside + 0.5)
    else:
        chosen = np.ceil(inside) if direction == AxisDirection.INCREASING else np.floor(inside)
    return np.clip(chosen, 0, size - 1).astype(np.int64)


def within(coordinates: Array, size: int) -> Array:
    """Coordinates moved to the edges of the input if they lie outside; NaN to the first."""
    inside: Array = np.clip(np.nan_to_num(coordinates, nan=0.0, posinf=np.inf, neginf=-np.inf), 0.0, size - 1.0)
    return inside


def neighbours(coordinates: Array, size: int) -> tuple[Array, Array]:
    """The element at or below each coordinate, int64, and how far above it the coordinate lies, as a part of 1.

    That part is exact. Where it is 0 there is no second element.
    """
    inside = within(coordinates, size)
    first = np.floor(inside)
    return first.astype(np.int64), inside - first


@dataclass(frozen=True, slots=True)
class SampledAxis:
    """A dimension of a region: each of its outputs owns ``samples`` neighbouring ones of all samples.

    Attributes:
        size: of the input.
        outputs: of the crop.
        start, extent: of the region, in elements of the input; the extent is negative where it is mirrored.
        samples: for each output.
        input_offset, output_offset: those of the desc.
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
        """The extent over the distance of two samples; 0 if there is one sample, which then lies in the middle."""
        return self.outputs * self.samples - self.to_corners

    def shares(self, samples: Array) -> Array:
        """How far each sample lies from the start of the region to its end, as a part of the extent."""
        if not self.steps:
            return np.full(samples.shape, 0.5)
        return (samples.astype(np.float64) - self.output_offset) / float(self.steps)

    def coordinates(self, samples: Array) -> Array:
        """The coordinates in the input of some samples, in float64 step by step."""
        with np.errstate(all="ignore"):
            if not self.steps:
                moved = np.full(samples.shape, self.extent / 2)
            else:
                moved = (samples.astype(np.float64) - self.output_offset) * self.extent / float(self.steps)
            return moved + self.start - self.input_offset

    def coordinate(self, sample: int) -> float:
        """Like ``coordinates``, of one sample."""
        moved = self.extent / 2
        if self.steps:
            moved = (float(sample) - self.output_offset) * self.extent / float(self.steps)
        return moved + self.start - self.input_offset

    def inside(self) -> range:
        """The samples that lie in the input, or less than one element beside it; coordinates go one way."""
        count = self.outputs * self.samples
        if not np.isfinite(self.extent) or not np.isfinite(self.start):
            return range(0)
        bounds = [self._first(count, lambda at: at >= -1.0), self._first(count, lambda at: at > self.size)]
        if self.extent < 0:
            bounds = [self._first(count, lambda at: at <= self.size), self._first(count, lambda at: at < -1.0)]
        return range(bounds[0], max(bounds))

    def _first(self, count: int, holds: Callable[[float], bool]) -> int:
        """The first of ``count`` samples whose coordinate holds something that all later ones hold too."""
        least, most = 0, count
        while least < most:
            middle = (least + most) // 2
            if holds(self.coordinate(middle)):
                most = middle
            else:
                least = middle + 1
        return least


def extents(attributes: Any, corners: Array, axis: int, outputs: int) -> tuple[Array, Array, Array]:
    """Where regions begin along one axis, how long they are, in elements of the input, and samples for each output.

    Args:
        attributes: of ROI_ALIGN, ROI_ALIGN1 or the gradient.
        corners: a row for each region: left, top, right, bottom.
        axis: 0 for the height, 1 for the width.
        outputs: of the crop along it.
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
    """The height and the width of one region; ``image`` and ``crop`` are those of the input and of the output."""
    axes = []
    for axis, (size, outputs) in enumerate(zip(image, crop, strict=True)):
        start, extent, samples = (values[0] for values in extents(attributes, corners[None], axis, outputs))
        axes.append(SampledAxis(size, outputs, float(start), float(extent), int(samples), *offsets(attributes)))
    return axes


def offsets(attributes: Any) -> tuple[float, float, bool]:
    """The offsets of samples, and whether they are stretched to the corners of a region."""
    return (
        getattr(attributes, "InputPixelOffset", 0.5),
        getattr(attributes, "OutputPixelOffset", -0.5),
        bool(getattr(attributes, "AlignRegionsToCorners", False)),
    )
