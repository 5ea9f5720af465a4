"""FOLD: sums columns where their blocks overlap, in FLOAT64 if that is exact, else in pairs of FLOAT64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop, Stopped
from ...error_free import add_odd, two_sum
from ...reference.folds import FoldedDimension, axes_of, element_at
from ...reference.moves import view_at
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from ..run.undecided import settle
from .boxes import clipped, lines

TILE = 1 << 15
"""Elements of the image summed at once."""

EXACT_HALVES = 1 << 12
"""Number of FLOAT16 that FLOAT64 sums without rounding."""

EXACT_BITS = 28
"""Maximum difference of the exponents of two FLOAT32 whose sum is exact in FLOAT64."""

_INFINITY = 0x7F800000
"""Bits of infinity."""

Part = tuple[Any, ...]


class FoldJob(Job):
    """Computes tiles of the image, each by adding up its elements in the columns."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._axes = axes_of(plan, plan.outputs["OutputTensor"])
        self._data_type = plan.outputs["OutputTensor"].data_type
        lines_kept = [min(axis.window, axis.blocks) for axis in self._axes]
        self._terms = prod(lines_kept)
        self._scratch = ScratchBytes(thread=16 * 8 * TILE + 512 * sum(lines_kept))

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        flat = view_at(source, (0,) * (source.ndim - 3))
        columns = self._blocks(flat)
        image = view_at(target, (0,) * (target.ndim - len(self._axes) - 2))
        tile = _tile(image.shape)
        tiles = tuple(-(-size // width) for size, width in zip(image.shape, tile, strict=True))

        def piece(unit: int) -> None:
            place = map(int, np.unravel_index(unit, tiles))
            part = tuple(slice(i * width, (i + 1) * width) for i, width in zip(place, tile, strict=True))
            ranges = [range(*each.indices(size)) for each, size in zip(part, image.shape, strict=True)]
            self._sum(flat, columns, image[part], ranges, stop)

        pool.each(piece, prod(tiles), stop)

    def _blocks(self, columns: Array) -> Array:
        """Returns the columns with a dimension for each window and for each count of blocks."""
        batch, rows, _ = columns.shape
        windows, blocks = [axis.window for axis in self._axes], [axis.blocks for axis in self._axes]
        channels = rows // prod(windows)
        steps = _split(columns.strides[1], [channels, *windows]), _split(columns.strides[2], blocks)
        shape = (batch, channels, *windows, *blocks)
        return np.lib.stride_tricks.as_strided(columns, shape, (columns.strides[0], *steps[0], *steps[1]))

    def _sum(self, flat: Array, columns: Array, target: Array, ranges: Sequence[range], stop: Stop) -> None:
        channels = columns[_slice(ranges[0]), _slice(ranges[1])]
        terms = _Terms(channels, self._axes, ranges[2:], stop)
        if not self._data_type.is_float:
            unsigned = f"<u{target.itemsize}"
            total = np.zeros(target.shape, unsigned)
            for part, elements in terms:
                total[part] += elements.view(unsigned)
            target.view(unsigned)[...] = total
            return
        result, undecided = self._rounded(terms, target)
        target[...] = result
        target[terms.uncovered()] = 0

        def exact(place: tuple[int, ...]) -> object:
            at = tuple(each[i] for each, i in zip(ranges, place, strict=True))
            return element_at(flat, self._data_type, self._axes, at, stop)

        settle(target, undecided, exact, stop)

    def _rounded(self, terms: _Terms, target: Array) -> tuple[Array, Array]:
        """Returns the sums, and which of them are undecided."""
        if self._data_type is not DataType.FLOAT64:
            total, sizes = np.full(target.shape, -0.0), _Sizes()
            is_half = self._data_type is DataType.FLOAT16
            for part, elements in terms:
                total[part] += elements
                if not is_half:
                    sizes.add(elements)
            if self._terms <= (EXACT_HALVES if is_half else sizes.exact):
                return total.astype(target.dtype), np.zeros(target.shape, np.bool_)
        return self._in_two(terms, target)

    def _in_two(self, terms: _Terms, target: Array) -> tuple[Array, Array]:
        """Computes sums as pairs of numbers; returns them rounded, and which pairs are not exact."""
        total, rest, lost = np.full(target.shape, -0.0), np.zeros(target.shape), np.zeros(target.shape, np.bool_)
        for part, elements in terms:
            one, other = two_sum(total[part], elements.astype(np.float64))
            total[part] = one
            rest[part], third = two_sum(rest[part], other)
            lost[part] |= third != 0
        finite = np.isfinite(total)
        exact = total + rest if self._data_type is DataType.FLOAT64 else add_odd(total, rest)
        # Zeros keep the sign of their sum; infinite sums stay.
        exact = np.where(finite & (rest != 0), exact, total)
        undecided = lost & finite if self._data_type is not DataType.FLOAT64 else lost | ~finite
        return exact.astype(target.dtype), undecided


class _Sizes:
    """Range of the magnitudes of FLOAT32 numbers in several arrays."""

    def __init__(self) -> None:
        self._greatest, self._least = 0, _INFINITY

    def add(self, elements: Array) -> None:
        magnitudes = elements.view(np.uint32) & np.uint32(0x7FFFFFFF)
        self._greatest = max(self._greatest, int(magnitudes.max()))
        magnitudes -= np.uint32(1)  # turns zeros into the greatest number
        self._least = min(self._least, int(magnitudes.min()) + 1)

    @property
    def exact(self) -> int:
        """Number of such terms that FLOAT64 sums without rounding, as multiples of the last bit of the least one."""
        if self._greatest >= _INFINITY:
            return 0
        apart = (self._greatest >> 23) - (min(self._least, self._greatest) >> 23)
        return 1 << max(0, EXACT_BITS - apart) if apart <= EXACT_BITS else 0


class _Terms:
    """The terms of a tile of the image: parts of the tile, with the elements to add there.

    Args:
        columns: columns of the tile's images and channels, with a dimension for each window and for each count of
            blocks.
        axes: the folded dimensions.
        ranges: positions of the tile along them.
        stop: polled before each part.
    """

    def __init__(self, columns: Array, axes: Sequence[FoldedDimension], ranges: Sequence[range], stop: Stop) -> None:
        self._columns, self._ranges, self._stop = columns, ranges, stop
        self._lines = [
            [
                part
                for line in lines(axis)
                if line.inside is not None and (part := clipped(axis, line.inside, positions)) is not None
            ]
            for axis, positions in zip(axes, ranges, strict=True)
        ]

    def __iter__(self) -> Iterator[tuple[Part, Array]]:
        everything = slice(None), slice(None)
        for chosen in product(*self._lines):
            if self._stop():
                raise Stopped
            places, boxes = zip(*chosen, strict=True)
            # Along each dimension, either the window element or the block varies.
            windows = [_index(box.window, box.windows, box.windows > 1) for box in boxes]
            blocks = [_index(box.block, box.blocks, box.windows == 1) for box in boxes]
            elements = self._columns[(*everything, *windows, *blocks)]
            varying = [i for i, box in enumerate(boxes) if box.windows > 1]
            varying += [i for i, box in enumerate(boxes) if box.windows == 1]
            yield (*everything, *places), elements.transpose(0, 1, *(2 + varying.index(i) for i in range(len(boxes))))

    def uncovered(self) -> Part:
        """Returns an index of the part of the tile to which nothing is added."""
        count = len(self._ranges)
        covered = np.ones((1,) * count, np.bool_)
        for i, (each, positions) in enumerate(zip(self._lines, self._ranges, strict=True)):
            along = np.zeros(len(positions), np.bool_)
            for place, _ in each:
                along[place] = True
            covered = covered & along.reshape((-1,) + (1,) * (count - 1 - i))
        return (slice(None), slice(None), ~covered)


def _index(first: int, count: int, varies: bool) -> int | slice:
    return slice(first, first + count) if varies else first


def _slice(each: range) -> slice:
    return slice(each.start, each.stop)


def _split(step: int, sizes: Sequence[int]) -> list[int]:
    """Returns the strides of a dimension that is split, row-major."""
    steps = []
    for size in reversed(sizes):
        steps.append(step)
        step *= size
    return steps[::-1]


def _tile(sizes: Sequence[int]) -> tuple[int, ...]:
    """Returns the sizes of a tile."""
    left, found = TILE, []
    for size in reversed(sizes):
        found.append(min(size, left))
        left = max(1, left // size)
    return tuple(reversed(found))
