"""Cuts convolutions into phases, and phases into tiles of groups, filters and places."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from operator import mul
from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Stop, Stopped
from ...convolutions import ConvolutionGeometry, PhaseDimension
from ..run.pool import Find
from .finishing import NOTHING, Finish, StridedOperand
from .multiplying import DEPTH
from .operands import padded
from .shares import shares
from .unfolding import MOST_SUMS, Box, Boxes, halved
from .window import BASE, IMAGES, PLACES, SPATIAL
from .workspace import Sizes

COPIED = 1 << 20
"""Elements of filters copied at once."""

MOST_UNFOLDED = 1 << 18
"""Maximum number of elements in the columns of a tile."""

WASTE = 3, 2
"""Maximum ratio of computed sums, including meaningless ones, to positions of a tile: 3 / 2."""

FILTERS = 256
"""Maximum number of filters in a tile, so that the left operand stays in the cache."""

LEAST_POSITIONS, LEAST_FILTERS = 128, 32
"""Minimum sizes of tiles that are cut to occupy all threads."""


class PhaseTiling(NamedTuple):
    """A phase cut into tiles.

    Attributes:
        groups, filters: sizes of a tile.
        places: sizes of a box of images and positions.
        depth: products summed at once.
    """

    groups: int
    filters: int
    places: list[int]
    depth: int

    @classmethod
    def of(cls, geometry: ConvolutionGeometry, extents: Sequence[int], depth: int, threads: int) -> PhaseTiling:
        filters, least = min(geometry.filters, FILTERS), min(depth, DEPTH)
        most = min(MOST_UNFOLDED // least, MOST_SUMS // filters)
        sizes = halved(extents, most)
        groups = 1
        if filters == geometry.filters:
            several = most // padded(prod(sizes))
            groups = max(1, min(geometry.groups, several))
        tiles = shares(geometry.groups * geometry.filters * prod(extents) * depth, threads)
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
        return cls(groups, filters, sizes, min(depth, max(least, at_once)))

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.groups, self.filters, padded(prod(self.places) * WASTE[0] // WASTE[1]), self.depth)


class Spot(NamedTuple):
    """Location of an array: its address, and strides in bytes."""

    address: int
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: Array) -> Spot:
        return cls(array.ctypes.data, array.strides)

    def at(self, *place: int) -> int:
        """Returns the address of an element; omitted indices are 0."""
        return self.address + sum(map(mul, place, self.strides))


class Spots(NamedTuple):
    """Locations of the tensors of a phase."""

    source: Spot
    filters: Spot
    target: Spot
    bias: Spot | None


class Phase(NamedTuple):
    """State shared by the tiles of a phase.

    Attributes:
        lines: its spatial dimensions.
        source: the input, ``[groups, channels, images, *spatial]``.
        filters: ``[groups, filters, channels * taps]``.
        shape: channels, and taps of each dimension.
        bias: ``[groups, filters]``, or None.
        target: part of the output, ``[groups, filters, images, *positions]``.
        spots: locations of those tensors.
        tiling: its tiles.
        finish: how sums are finished.
        find: returns the kernels.
    """

    lines: tuple[PhaseDimension, ...]
    source: Array
    filters: Array
    shape: tuple[int, ...]
    bias: Array | None
    target: Array
    spots: Spots
    tiling: PhaseTiling
    finish: Finish
    find: Find

    def window(self, groups: slice, places: Box) -> array[int]:
        """Returns the window through which kernels read the columns of some groups and places."""
        steps = [step // self.source.itemsize for step in self.source.strides]
        missing = SPATIAL - len(self.lines)
        images, *positions = places
        rows = [
            (step, line.taps, line.size, line.base + at.start * line.step, line.step, line.turn, at.stop - at.start)
            for step, line, at in zip(steps[3:], self.lines, positions, strict=True)
        ]
        spatial = zip(*[(0, 1, 1, 0, 1, 0, 1)] * missing, *rows, strict=True)
        values = *steps[:3], *(value for each in spatial for value in each), 0, 0, images.stop - images.start
        return array("q", values)

    def move_window(self, window: array[int], unit: Unit) -> None:
        """Moves a window to another tile of the same shape."""
        first = BASE + SPATIAL - len(self.lines)
        for i in range(len(self.lines)):
            line = self.lines[i]
            window[first + i] = line.base + unit.places[1 + i].start * line.step

    def source_of(self, unit: Unit) -> int:
        """Returns the address of the first image of a tile."""
        return self.spots.source.at(unit.groups.start, 0, unit.places[0].start)


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


class Unit(NamedTuple):
    """A tile: groups and filters, images and positions."""

    groups: slice
    filters: slice
    places: Box


def addend_of(bias: Array | None) -> StridedOperand:
    """Returns the location of the bias of some filters, ``[groups, filters]``."""
    if bias is None:
        return NOTHING
    group, filter_ = (step // bias.itemsize for step in bias.strides)
    return StridedOperand(bias.ctypes.data, group, filter_, 0)


def grouped(tensor: Array, groups: int) -> Array:
    """Returns a view ``[groups, channels, images, *spatial]`` of ``[images, channels, *spatial]``."""
    images, _, *spatial = tensor.shape
    return tensor.reshape(images, groups, -1, *spatial).transpose(1, 2, 0, *range(3, len(spatial) + 3))


def columns_of(window: array[int]) -> int:
    """Returns the number of columns in a window."""
    return window[IMAGES] * prod(window[PLACES : PLACES + SPATIAL])


def flat_view(filters: Array) -> Array | None:
    """Returns a view ``[groups, filters, depth]`` of filters with contiguous depth, or None if that needs a copy."""
    groups, count, *shape = filters.shape
    with suppress(ValueError):
        flat = filters.reshape(groups, count, prod(shape), copy=False)
        if flat.shape[2] == 1 or flat.strides[2] == flat.itemsize:
            return flat
    return None


def flat_filters(filters: Array, stop: Stop) -> Array:
    """Returns filters as ``[groups, filters, depth]`` with contiguous depth, copying only if there is no such view."""
    flat = flat_view(filters)
    if flat is not None:
        return flat
    groups, count, *shape = filters.shape
    copy = np.empty((groups, count, *shape), filters.dtype)
    for place in Boxes(filters.shape, halved(filters.shape, COPIED)):
        if stop():
            raise Stopped
        copy[place] = filters[place]
    return copy.reshape(groups, count, prod(shape))
