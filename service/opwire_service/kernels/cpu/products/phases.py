"""Cuts convolutions into phases, and phases into tiles of groups, filters and places."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Stop, Stopped
from ...convolutions import ConvolutionGeometry, PhaseDimension
from .boxes import Boxes, halved, least_tiles
from .epilogues import STRIP_BYTES
from .multiplying import DEPTH
from .operands import padded
from .workspace import Sizes

COPIED = 1 << 20
"""Elements of filters copied at once."""

MOST_UNFOLDED = 1 << 18
"""Maximum number of elements in the columns of a tile."""

MOST_SUMS = 1 << 18
"""Maximum number of elements in the output of a tile."""

MOST_LEFT = 1 << 17
"""Maximum number of elements in the filters of a tile that are multiplied at once, so that they stay in the cache."""

LEAST_POSITIONS, LEAST_FILTERS = 32, 16
"""Minimum sizes of tiles that are cut to occupy all threads."""

SAME_LINE = 1 << 10
"""Elements that are unfolded in the time that two threads wait for each other at a line of output that both write to.
Tiles of different filters have no line in common, but unfold the same elements."""


class PhaseTiling(NamedTuple):
    """A phase cut into tiles.

    Attributes:
        extents: images and positions.
        groups, filters: sizes of a tile.
        places: sizes of a box of images and positions.
        depth: products summed at once.
    """

    extents: tuple[int, ...]
    groups: int
    filters: int
    places: list[int]
    depth: int

    @classmethod
    def of(
        cls, geometry: ConvolutionGeometry, lines: tuple[PhaseDimension, ...], threads: int, *, shared: bool = False
    ) -> PhaseTiling:
        extents = geometry.images, *(line.length for line in lines)
        depth = prod(line.taps for line in lines) * geometry.channels
        least = min(depth, DEPTH)
        filters = -(-geometry.filters // -(-geometry.filters // (MOST_LEFT // least)))
        tiles = least_tiles(geometry.groups * geometry.filters * prod(extents) * depth, threads, shared=shared)
        if geometry.images == 1 and depth * prod(extents) <= SAME_LINE * filters:
            while filters >= 2 * LEAST_FILTERS and geometry.groups * -(-geometry.filters // filters) < tiles:
                filters = -(-filters // 2)
        most = min(MOST_UNFOLDED // least, MOST_SUMS // filters)
        sizes = halved(extents, most)
        groups = 1
        if filters == geometry.filters:
            several = most // padded(prod(sizes))
            groups = max(1, min(geometry.groups, several))
        while -(-geometry.groups // groups) * -(-geometry.filters // filters) * len(Boxes(extents, sizes)) < tiles:
            if groups > 1:
                groups = -(-groups // 2)
            elif prod(sizes) >= 2 * LEAST_POSITIONS:
                sizes = halved(sizes, prod(sizes) - 1)
            elif filters >= 2 * LEAST_FILTERS:
                filters = -(-filters // 2)
            else:
                break
        at_once = MOST_UNFOLDED // (groups * max(filters, padded(prod(sizes)))) // DEPTH * DEPTH
        return cls(extents, groups, filters, sizes, min(depth, max(least, at_once)))

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.groups, self.filters, padded(prod(self.places)), self.depth)

    @property
    def bytes(self) -> int:
        """Memory of a tile, in bytes."""
        return self.sizes.bytes + 4 * self.groups * self.filters * prod(self.places) + STRIP_BYTES

    def boxes(self, geometry: ConvolutionGeometry) -> Boxes:
        """Returns the tiles: boxes of a batch, groups, filters, images and positions."""
        extents = 1, geometry.groups, geometry.filters, *self.extents
        return Boxes(extents, (1, self.groups, self.filters, *self.places))


PRODUCTS, COLUMN_VISITS, OUTPUT_VISITS, TILE_VISITS = 16, 2, 2, 1 << 17
"""Products per visit; costs of unfolding an element, of finishing an output, and of a tile, in visits."""


def visits_of_tiles(plan: Plan, filters: int, tiles: int) -> int:
    """Returns the cost of a convolution, in visits.

    Args:
        plan: the convolution.
        filters: filters in a group.
        tiles: number of tiles.
    """
    read = plan.inputs["InputTensor"].element_count + COLUMN_VISITS * plan.work // filters
    return (
        plan.work // PRODUCTS + read + OUTPUT_VISITS * plan.outputs["OutputTensor"].element_count + TILE_VISITS * tiles
    )


def grouped(tensor: Array, groups: int) -> Array:
    """Returns a view ``[groups, channels, images, *spatial]`` of ``[images, channels, *spatial]``."""
    images, _, *spatial = tensor.shape
    return tensor.reshape(images, groups, -1, *spatial).transpose(1, 2, 0, *range(3, len(spatial) + 3))


def flat_view(filters: Array, *, is_apart: bool) -> Array | None:
    """Returns a view ``[groups, filters, depth]`` of filters, or None if that needs a copy.

    Args:
        filters: the filters, ``[groups, filters, channels, *taps]``.
        is_apart: whether numbers along the depth need not be contiguous.
    """
    groups, count, *shape = filters.shape
    with suppress(ValueError):
        flat = filters.reshape(groups, count, prod(shape), copy=False)
        if is_apart or flat.shape[2] == 1 or flat.strides[2] == flat.itemsize:
            return flat
    return None


def copied_filters(filters: Array, dtype: type, stop: Stop) -> Array:
    """Returns a copy of filters in a float type, ``[groups, filters, depth]`` with contiguous depth."""
    groups, count, *shape = filters.shape
    copy = np.empty((groups, count, *shape), dtype)
    for place in Boxes(filters.shape, halved(filters.shape, COPIED)):
        if stop():
            raise Stopped
        copy[place] = filters[place]
    return copy.reshape(groups, count, prod(shape))
