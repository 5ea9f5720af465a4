"""How tensors of one shape are walked together, in tiles: any strides, nothing copied.

Dimensions whose neighbours every tensor walks by one stride become one, and the order is that of the output's memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from numpy.lib.stride_tricks import as_strided

from opwire.tensor import Array

LINE = 256
"""Elements of a tile along the innermost dimension where another one is the innermost of an input."""


class Walk(NamedTuple):
    """The tiles of a shape.

    Attributes:
        shape: of the collapsed dimensions, outermost first.
        tile: elements of a tile along each; the last one may have fewer.
        strides: in bytes, of each tensor.
    """

    shape: tuple[int, ...]
    tile: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles along each dimension."""
        return tuple(-(-size // tile) for size, tile in zip(self.shape, self.tile, strict=True))

    @property
    def units(self) -> int:
        return prod(self.counts)

    def views(self, arrays: Sequence[Array]) -> list[Array]:
        """The tensors with the collapsed dimensions."""
        return [as_strided(array, self.shape, steps) for array, steps in zip(arrays, self.strides, strict=True)]

    def place(self, unit: int) -> tuple[slice, ...]:
        """Where a tile is."""
        found = []
        for count, tile in zip(reversed(self.counts), reversed(self.tile), strict=True):
            unit, number = divmod(unit, count)
            found.append(slice(number * tile, (number + 1) * tile))
        return tuple(reversed(found))


def walk_of(sizes: Sequence[int], tensors: Mapping[str, tuple[int, ...]], most: int) -> Walk:
    """The tiles of at most so many elements.

    Args:
        sizes: of all tensors.
        tensors: strides in bytes, the output's last.
        most: elements of a tile.
    """
    shape, strides = collapsed(sizes, list(tensors.values()))
    return Walk(shape, _tile(shape, strides, most), strides)


def collapsed(
    sizes: Sequence[int], strides: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The dimensions that are left, outermost first, and the strides along them.

    Args:
        sizes: of all tensors.
        strides: in bytes, the output's last.
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
    """The innermost dimensions, and where an input has another innermost one, a part of both."""
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
