"""The regions of interest of a plan: the image and the position of each."""

from __future__ import annotations

from math import floor
from typing import Any, NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ..execution import Arrays
from .sampling import SampledAxis, sampled_axes


class Region(NamedTuple):
    """A region of interest.

    Attributes:
        image: index of the image; beyond the last one it counts as that.
        axes: the height and the width.
        inside: the range of samples inside the image, for each axis.
    """

    image: int
    axes: list[SampledAxis]
    inside: list[range]


_FAR = 2.0**40
"""Larger than any tensor dimension."""


class RegionsOfInterest:
    """The regions of ROI_ALIGN, ROI_ALIGN1 or their gradient; the most recent one is cached.

    Args:
        plan: a plan of one of these operators.
        inputs: the inputs of the plan.
        images, crops: sizes of the image tensor and of the tensor of crops.
    """

    def __init__(self, plan: Plan, inputs: Arrays, images: tuple[int, ...], crops: tuple[int, ...]) -> None:
        self._attributes = plan.attributes
        corners = inputs["ROITensor"]
        self._corners = corners[(0,) * (corners.ndim - 2)]
        self._batch = inputs["BatchIndicesTensor"]
        self._batch = self._batch[(0,) * (self._batch.ndim - 1)]
        self._images, self._crops = images, crops
        self._kept: tuple[int, Region] | None = None

    def __getitem__(self, number: int) -> Region:
        if self._kept is None or self._kept[0] != number:
            image = min(int(self._batch[number]), self._images[0] - 1)
            axes = sampled_axes(self._attributes, self._corners[number], self._images[2:], self._crops[2:])
            found = Region(image, axes, [axis.inside() for axis in axes])
            self._kept = number, found
        return self._kept[1]


def corners_of(region: Array, scale: float, images: int) -> tuple[int, int, int, int, int]:
    """Returns the image of a ROI_POOLING region, clamped to those that exist, and its left, top, right and bottom.

    All are inclusive. Corners are rounded half away from zero. NaN counts as 0, and distant corners are clamped to
    ``_FAR``.
    """
    image = float(region[0])
    left, top, right, bottom = (_rounded(float(corner) * scale) for corner in region[1:])
    return int(max(0.0, min(image, images - 1.0))) if image == image else 0, left, top, right, bottom


def _rounded(value: float) -> int:
    if np.isnan(value):
        return 0
    value = max(-_FAR, min(value, _FAR))
    return floor(value + 0.5) if value >= 0 else -floor(0.5 - value)


def all_corners(regions: Array, scale: float, images: int) -> Array:
    """Vectorized ``corners_of``, as int64."""
    with np.errstate(all="ignore"):
        image, corners = regions[:, :1].astype(np.float64), regions[:, 1:].astype(np.float64) * scale
    corners = np.clip(np.where(np.isnan(corners), 0.0, corners), -_FAR, _FAR)
    rounded = np.where(corners >= 0, np.floor(corners + 0.5), -np.floor(0.5 - corners))
    image = np.clip(np.nan_to_num(image, posinf=_FAR, neginf=0), 0, images - 1)
    return np.concatenate((image, rounded), axis=1).astype(np.int64)


def bin_of(first: int, last: int, at: int, bins: int, size: int) -> range:
    """Returns the positions of a bin along one dimension of an image; empty if it lies outside."""
    length = last - first + 1
    begin, end = (first + at * length // bins, first - (-(at + 1) * length // bins))
    return range(*(max(0, min(place, size)) for place in (begin, end)))


def bins_of(first: Array, last: Array, bins: int, size: int) -> Array:
    """Vectorized ``bin_of`` for all bins of the regions: begins and ends, int64 of shape ``[regions, bins, 2]``."""
    whole, rest = np.divmod(last - first + 1, bins)
    # Bin number times length may overflow 64 bits; bin number times the remainder does not.
    places, parts = np.arange(bins + 1), np.arange(bins + 1, dtype=np.uint64) * rest.astype(np.uint64)[:, None]
    begins = places[:-1] * whole[:, None] + (parts[:, :-1] // np.uint64(bins)).astype(np.int64)
    ends = places[1:] * whole[:, None] + ((parts[:, 1:] + np.uint64(bins - 1)) // np.uint64(bins)).astype(np.int64)
    begins, ends = (np.clip(each + first[:, None], 0, size) for each in (begins, ends))
    return np.stack((begins, np.maximum(begins, ends)), axis=-1)


def is_average(attributes: Any) -> bool:
    """Returns whether samples are averaged rather than reduced to their maximum."""
    return bool(attributes.ReductionFunction.name == "AVERAGE")
