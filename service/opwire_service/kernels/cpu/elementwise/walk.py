"""Traverses tensors of one shape together, in tiles, with any strides and without copies.

Dimensions that every tensor traverses with a single stride are collapsed, and the order is that of the output's memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from numpy.lib.stride_tricks import as_strided

from opwire.tensor import Array

LINE = 256
"""Elements in a tile along the innermost dimension if an input has a different innermost one."""


class Walk(NamedTuple):
    """The tiles of a shape.

    Attributes:
        shape: collapsed dimensions, outermost first.
        tile: elements in a tile along each; the last tile may have fewer.
        strides: strides of each tensor in bytes.
    """

    shape: tuple[int, ...]
    tile: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of tiles along each dimension."""
        return tuple(-(-size // tile) for size, tile in zip(self.shape, self.tile, strict=True))

    @property
    def units(self) -> int:
        return prod(self.counts)

    def views(self, arrays: Sequence[Array]) -> list[Array]:
        """Returns the tensors with collapsed dimensions."""
        return [as_strided(array, self.shape, steps) for array, steps in zip(arrays, self.strides, strict=True)]

    def place(self, unit: int) -> tuple[slice, ...]:
        """Returns the slices of a tile."""
        found = []
        for count, tile in zip(reversed(self.counts), reversed(self.tile), strict=True):
            unit, number = divmod(unit, count)
            found.append(slice(number * tile, (number + 1) * tile))
        return tuple(reversed(found))


def walk_of(sizes: Sequence[int], tensors: Mapping[str, tuple[int, ...]], most: int) -> Walk:
    """Returns tiles of at most ``most`` elements.

    Args:
        sizes: sizes of all tensors.
        tensors: strides of each tensor in bytes, the output last.
        most: maximum number of elements in a tile.
    """
    shape, strides = collapsed(sizes, list(tensors.values()))
    return Walk(shape, _tile(shape, strides, most), strides)


def collapsed(
    sizes: Sequence[int], strides: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Returns the collapsed dimensions, outermost first, and the strides along them.

    Args:
        sizes: sizes of all tensors.
        strides: strides of each tensor in bytes, the output last.
    """
    columns = [column for column in zip(sizes, *strides, strict=True) if column[0] > 1]
    columns.sort(key=lambda column: column[:0:-1], reverse=True)
    merged: list[tuple[int, ...]] = []
    for column in columns:
        size, *steps = column
        if merged and all(outer == step * size for outer, step in zip(merged[-1][1:], steps, strict=True)):
            merged[-1] = (merged[-1][0] * size, *steps)
        else:
            merged.append(column)
    merged = merged or [(1, *(0 for _ in strides))]
    shape, *kept = zip(*merged, strict=True)
    return tuple(shape), tuple(kept)


def _tile(shape: Sequence[int], strides: Sequence[Sequence[int]], most: int) -> tuple[int, ...]:
    """Returns the tile sizes: innermost dimensions, and a part of both where an input has a different innermost one."""
    inner = len(shape) - 1
    walked = [[axis for axis in range(len(shape)) if steps[axis]] for steps in strides]
    others = {min(axes, key=steps.__getitem__) for axes, steps in zip(walked, strides, strict=True) if axes} - {inner}
    tile = [1] * len(shape)
    left = most
    for axis in (*sorted(others), *range(inner, -1, -1)):
        is_shared = bool(others) and axis in (*others, inner)
        limit = min(LINE, left) if is_shared and tile[axis] == 1 else left * tile[axis]
        tile[axis] = max(tile[axis], min(shape[axis], max(1, limit)))
        left = most // prod(tile)
    return tuple(tile)
