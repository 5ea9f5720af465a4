"""Convolutions as matrix products: filters times unfolded columns (im2col), unfolded one tile at a time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.lib.stride_tricks import as_strided

from opwire.tensor import Array

from ...convolutions import ConvolutionGeometry, PhaseDimension
from .shares import shares

MOST_UNFOLDED = 1 << 19
"""Maximum number of elements in the columns of a tile."""

MOST_SUMS = 1 << 18
"""Maximum number of elements in the output of a tile."""

CHANNELS = 512
"""Output channels computed at once."""

POSITIONS = 64
"""Minimum number of positions in a tile that is cut further."""

WASTE = 4
"""Maximum ratio of a copy of the input to the columns that are read from it."""


Box = tuple[slice, ...]


def halved(extents: Sequence[int], most: int) -> list[int]:
    """Returns sizes of boxes of at most ``most`` elements; the first dimension that can be cut is cut first."""
    sizes = list(extents)
    while prod(sizes) > most and max(sizes) > 1:
        i = next(i for i, size in enumerate(sizes) if size > 1)
        sizes[i] = -(-sizes[i] // 2)
    return sizes


class Boxes(Sequence[Box]):
    """The boxes that make up some extents, created on access because there may be many.

    Args:
        extents: sizes of the whole.
        sizes: sizes of a box; those at the ends may be smaller.
    """

    def __init__(self, extents: Sequence[int], sizes: Sequence[int]) -> None:
        self._pairs = list(zip(extents, sizes, strict=True))
        self._counts = [-(-extent // size) for extent, size in self._pairs]

    def __len__(self) -> int:
        return prod(self._counts)

    @overload
    def __getitem__(self, i: int) -> Box: ...

    @overload
    def __getitem__(self, i: slice) -> Sequence[Box]: ...

    def __getitem__(self, i: int | slice) -> Box | Sequence[Box]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        if not 0 <= i < len(self):
            raise IndexError(i)
        box = []
        for (extent, size), count in zip(reversed(self._pairs), reversed(self._counts), strict=True):
            i, at = divmod(i, count)
            box.append(slice(at * size, min((at + 1) * size, extent)))
        return tuple(reversed(box))


class UnfoldingTiling(NamedTuple):
    """A phase cut into tiles.

    Attributes:
        groups: groups in a tile.
        places: sizes of a box of images and positions.
        depths: sizes of a box of taps and input channels.
    """

    groups: int
    places: list[int]
    depths: list[int]

    @classmethod
    def of(cls, geometry: ConvolutionGeometry, phase: tuple[PhaseDimension, ...], threads: int) -> UnfoldingTiling:
        places = (geometry.images, *(line.length for line in phase))
        depths = (*(line.taps for line in phase), geometry.channels)
        filters = min(geometry.filters, CHANNELS)
        most = max(POSITIONS, min(MOST_UNFOLDED // prod(depths), MOST_SUMS // filters))
        sizes = halved(places, most)
        box = halved(depths, MOST_UNFOLDED // prod(sizes))
        groups = 1
        if prod(box) == prod(depths) and filters == geometry.filters:
            several = min(MOST_UNFOLDED // (prod(depths) * prod(sizes)), MOST_SUMS // (filters * prod(sizes)))
            groups = max(1, min(geometry.groups, several))
        tiles = shares(geometry.groups * geometry.filters * prod(depths) * prod(places), threads)
        while -(-geometry.groups // groups) * len(Boxes(places, sizes)) < tiles:
            if groups > 1:
                groups = -(-groups // 2)
            elif prod(sizes) > POSITIONS:
                sizes = halved(sizes, prod(sizes) - 1)
            else:
                break
        return cls(groups, sizes, box)


class Columns(NamedTuple):
    """Reads the columns of a phase.

    Attributes:
        source: view of the input, ``[groups, channels, images, *spatial]``.
        phase: its lines.
        dtype: type of the columns.
        zero: zero point of the input, which padding stands for.
    """

    source: Array
    phase: tuple[PhaseDimension, ...]
    dtype: Any
    zero: int = 0

    def unfold(self, groups: slice, places: Box, depths: Box) -> Array:
        """Returns the columns of a tile, ``[groups, depth, places]``."""
        images, *positions = places
        *taps, channels = depths
        inner = [_length(part) for part in taps], [_length(part) for part in places]
        count, depth = _length(groups), prod(inner[0]) * _length(channels)
        pairs = list(zip(self.phase, positions, taps, strict=True))
        spans = [_span(line, at, tap) for line, at, tap in pairs]
        if _length(channels) * _length(images) * prod(map(len, spans)) > WASTE * depth * prod(inner[1]):
            return self._gather_box(groups, places, depths).reshape(count, depth, -1)
        copy = self._copy(groups, channels, images, spans)
        origin = tuple(
            line.base + at.start * line.step + tap.start * line.turn - span[0]
            for (line, at, tap), span in zip(pairs, spans, strict=True)
        )
        windows = self._windows(_from(copy, origin), inner[0], inner[1], _length(channels))
        return windows.reshape(count, depth, -1)

    def _windows(self, begin: Array, taps: list[int], places: list[int], channels: int) -> Array:
        """Returns a view ``[groups, *taps, channels, *places]`` of ``[groups, channels, images, *spatial]``."""
        group, channel, image, *steps = begin.strides
        turns = [line.turn * step for line, step in zip(self.phase, steps, strict=True)]
        moves = [line.step * step for line, step in zip(self.phase, steps, strict=True)]
        shape = (len(begin), *taps, channels, *places)
        return as_strided(begin, shape, (group, *turns, channel, image, *moves), writeable=False)

    def _copy(self, groups: slice, channels: slice, images: slice, spans: list[range]) -> Array:
        """Returns a copy of part of the input, with zeros for padding."""
        shape = (_length(groups), _length(channels), _length(images), *map(len, spans))
        inside = [
            (max(span[0], 0), max(min(span[-1] + 1, line.size), 0, span[0]))
            for span, line in zip(spans, self.phase, strict=True)
        ]
        is_padded = any(
            begin != span[0] or end != span[-1] + 1 for (begin, end), span in zip(inside, spans, strict=True)
        )
        copy = (np.zeros if is_padded else np.empty)(shape, self.dtype)
        if all(begin < end for begin, end in inside):
            to: tuple[Any, ...] = tuple(
                slice(b - span[0], e - span[0]) for (b, e), span in zip(inside, spans, strict=True)
            )
            given = self.source[(groups, channels, images, *(slice(b, e) for b, e in inside))]
            part = copy[(slice(None), slice(None), slice(None), *to)]
            np.copyto(part, given)
            if self.zero:
                part -= self.zero
        return copy

    def _gather_box(self, groups: slice, places: Box, depths: Box) -> Array:
        """Gathers the same columns element by element, where they are far apart."""
        axes = [np.arange(part.start, part.stop) for part in (groups, *depths, *places)]
        rank = len(axes)
        grid = [axis.reshape([-1 if i == j else 1 for j in range(rank)]) for i, axis in enumerate(axes)]
        spatial = len(self.phase)
        group, taps, channel = grid[0], grid[1 : 1 + spatial], grid[1 + spatial]
        image, positions = grid[2 + spatial], grid[3 + spatial :]
        return self.gather(group, channel, image, taps, positions)

    def gather(self, group: Array, channel: Array, image: Array, taps: list[Array], positions: list[Array]) -> Array:
        """Gathers single elements of columns, for indices that broadcast."""
        valid: Any = True
        indices = []
        for line, tap, position in zip(self.phase, taps, positions, strict=True):
            at = line.base + position * line.step + tap * line.turn
            valid = valid & (at >= 0) & (at < line.size)
            indices.append(np.clip(at, 0, line.size - 1))
        found = self.source[(group, channel, image, *indices)].astype(self.dtype)
        if self.zero:
            found -= self.zero
        result: Array = np.where(valid, found, found.dtype.type(0))
        return result


def _from(array: Array, origin: tuple[int, ...]) -> Array:
    """Returns the part of an array from an origin in its last dimensions on."""
    place: tuple[Any, ...] = (..., *(slice(at, None) for at in origin))
    part: Array = array[place]
    return part


def _length(part: slice) -> int:
    length: int = part.stop - part.start
    return length


def _span(line: PhaseDimension, at: slice, taps: slice) -> range:
    """Returns the input elements from the first to the last that a range of outputs and taps reads."""
    ends = [
        line.base + j * line.step + t * line.turn for j in (at.start, at.stop - 1) for t in (taps.start, taps.stop - 1)
    ]
    return range(min(ends), max(ends) + 1)
