"""The regions of a plan: which image each lies in, and where."""

from __future__ import annotations

from math import floor, isfinite
from typing import Any, NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ..execution import Arrays
from .sampling import SampledAxis, sampled_axes


class Region(NamedTuple):
    """A region of an image.

    Attributes:
        image: its number, None if there is none of that number.
        axes: the height and the width.
        inside: for each of them the samples that lie inside.
    """

    image: int | None
    axes: list[SampledAxis]
    inside: list[range]


_FAR = 2.0**40
"""Farther than any tensor reaches."""


class RegionsOfInterest:
    """The regions of ROI_ALIGN, ROI_ALIGN1 or their gradient; the one that was asked for last is kept.

    Args:
        plan: of any of them.
        inputs: of the plan.
        images, crops: the sizes of the tensor of images and of that of the crops.
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
            image = int(self._batch[number])
            axes = sampled_axes(self._attributes, self._corners[number], self._images[2:], self._crops[2:])
            found = Region(image if image < self._images[0] else None, axes, [axis.inside() for axis in axes])
            self._kept = number, found
        return self._kept[1]


def corners_of(region: Array, scale: float) -> tuple[int, int, int, int, int]:
    """The image of a region of ROI_POOLING, -1 for none, and its left, top, right and bottom, each inside it.

    Corners are rounded half away from zero; NaN is 0, and what lies far away stays there.
    """
    image = float(region[0])
    left, top, right, bottom = (_rounded(float(corner) * scale) for corner in region[1:])
    return int(image) if isfinite(image) and image > -1 else -1, left, top, right, bottom


def _rounded(value: float) -> int:
    if np.isnan(value):
        return 0
    value = max(-_FAR, min(value, _FAR))
    return floor(value + 0.5) if value >= 0 else -floor(0.5 - value)


def all_corners(regions: Array, scale: float) -> Array:
    """What ``corners_of`` tells of each of some regions, int64; an image that is farther than any tensor is another."""
    with np.errstate(all="ignore"):
        image, corners = regions[:, :1].astype(np.float64), regions[:, 1:].astype(np.float64) * scale
    corners = np.clip(np.where(np.isnan(corners), 0.0, corners), -_FAR, _FAR)
    rounded = np.where(corners >= 0, np.floor(corners + 0.5), -np.floor(0.5 - corners))
    image = np.where(np.isfinite(image) & (image > -1), np.minimum(image, _FAR), -1)
    return np.concatenate((image, rounded), axis=1).astype(np.int64)


def bin_of(first: int, last: int, at: int, bins: int, size: int) -> range:
    """The positions of a bin along one dimension of an image, none if it lies outside."""
    length = last - first + 1
    begin, end = (first + at * length // bins, first - (-(at + 1) * length // bins))
    return range(*(max(0, min(place, size)) for place in (begin, end)))


def bins_of(first: Array, last: Array, bins: int, size: int) -> Array:
    """What ``bin_of`` tells of all bins of some regions, as begins and ends: int64 of shape ``[regions, bins, 2]``."""
    whole, rest = np.divmod(last - first + 1, bins)
    # A place times a length may be more than 64 bits hold; times the rest of the length it is not.
    places, parts = np.arange(bins + 1), np.arange(bins + 1, dtype=np.uint64) * rest.astype(np.uint64)[:, None]
    begins = places[:-1] * whole[:, None] + (parts[:, :-1] // np.uint64(bins)).astype(np.int64)
    ends = places[1:] * whole[:, None] + ((parts[:, 1:] + np.uint64(bins - 1)) // np.uint64(bins)).astype(np.int64)
    begins, ends = (np.clip(each + first[:, None], 0, size) for each in (begins, ends))
    return np.stack((begins, np.maximum(begins, ends)), axis=-1)


def is_average(attributes: Any) -> bool:
    """Whether samples are averaged; otherwise the greatest counts."""
    return bool(attributes.ReductionFunction.name == "AVERAGE")
