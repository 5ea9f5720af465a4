"""Lays tensors of one shape out as planes: rows of contiguous elements, processed in two-dimensional tiles.

A tensor with strided rows is staged: its tiles are copied to, or from, a contiguous buffer. Where the innermost
dimension is short, the longest dimension becomes the rows, and everything is staged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from numpy.lib.stride_tricks import as_strided

from opwire.tensor import Array

MOST_IN_TILE = 1 << 21
"""Maximum number of elements in a tile."""

TILES = 32
"""Minimum number of tiles, unless they would have fewer elements than ``FEWEST``."""

FEWEST = 1 << 16
"""Number of elements below which tiles are not cut to get more of them."""

STAGED_ROWS, STAGED_COLUMNS, STAGED_BYTES = 256, 256, 1024
"""Maximum rows and columns of a tile with staged tensors, so that it fits into the L2 cache. Rows of narrow elements
have more columns, up to ``STAGED_BYTES``, because each tile has a fixed overhead."""

PADDING = 64
"""Bytes between staged rows, which avoid a pitch of a power of two."""

SHORT = 16
"""Number of elements below which a row is too short."""

LEAST_IN_TILE = 1 << 11
"""Number of elements below which a tile is not worth a kernel call."""


class Plane(NamedTuple):
    """Layout of one tensor in the planes.

    Attributes:
        size: bytes of an element.
        row: row pitch in bytes.
        column: stride within a row in bytes.
        outer: strides of the dimensions that count planes, in bytes.
        is_staged: whether tiles are copied.
        staged_row: row pitch of staged tiles in bytes.
    """

    size: int
    row: int
    column: int
    outer: tuple[int, ...]
    is_staged: bool
    staged_row: int


class Planes(NamedTuple):
    """The planes of some tensors.

    Attributes:
        outer: number of planes in each dimension.
        rows: rows of a plane.
        columns: elements of a row.
        tile: rows and columns of a tile.
        tensors: layouts of the tensors, the output last.
        axes: which collapsed dimensions are the rows and the columns.
        shape: collapsed dimensions.
        strides: strides of each tensor in bytes.
    """

    outer: tuple[int, ...]
    rows: int
    columns: int
    tile: tuple[int, int]
    tensors: tuple[Plane, ...]
    axes: tuple[int, int]
    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def units(self) -> int:
        """Number of tiles."""
        rows, columns = self.tile
        return prod(self.outer) * -(-self.rows // rows) * -(-self.columns // columns)

    @property
    def bytes(self) -> int:
        """Size of all tensors together in bytes."""
        return sum(
            plane.size * prod(count for count, step in zip(self.shape, steps, strict=True) if step)
            for plane, steps in zip(self.tensors, self.strides, strict=True)
        )

    @property
    def is_worth(self) -> bool:
        """Whether tiles are large enough for a kernel, or there is only one."""
        return self.units == 1 or prod(self.tile) >= LEAST_IN_TILE

    def place(self, unit: Any) -> tuple[tuple[Any, ...], Any, Any]:
        """Returns a tile's plane, first row and first column; for an array of tiles, arrays of them."""
        rows, columns = self.tile
        unit, column = divmod(unit, -(-self.columns // columns))
        unit, row = divmod(unit, -(-self.rows // rows))
        plane = []
        for count in reversed(self.outer):
            unit, number = divmod(unit, count)
            plane.append(number)
        return tuple(reversed(plane)), row * rows, column * columns

    def indices(self, plane: tuple[Any, ...], rows: Any, columns: Any) -> tuple[Any, ...]:
        """Returns an index for each collapsed dimension."""
        row, column = self.axes
        outer = iter(plane)
        return tuple(
            rows if axis == row else columns if axis == column else next(outer) for axis in range(len(self.shape))
        )

    def pieces(self, unit: int, most: int) -> Iterator[tuple[Any, ...]]:
        """Yields the indices of a tile in pieces of at most ``most`` elements."""
        plane, row, column = self.place(unit)
        bottom, right = min(row + self.tile[0], self.rows), min(column + self.tile[1], self.columns)
        width = min(self.tile[1], most)
        height = most // width
        for first in range(row, bottom, height):
            for left in range(column, right, width):
                yield self.indices(
                    plane, slice(first, min(first + height, bottom)), slice(left, min(left + width, right))
                )

    def views(self, arrays: Sequence[Array]) -> list[Array]:
        """Returns the tensors with collapsed dimensions."""
        return [as_strided(array, self.shape, steps) for array, steps in zip(arrays, self.strides, strict=True)]


def planes_of(sizes: Sequence[int], tensors: Mapping[str, tuple[tuple[int, ...], int]]) -> Planes:
    """Returns the planes of tensors.

    Args:
        sizes: sizes of all tensors.
        tensors: strides and element size of each tensor in bytes, the output last.
    """
    shape, strides = _collapsed(sizes, [steps for steps, _ in tensors.values()])
    if len(shape) == 1:
        shape, strides = (1, *shape), tuple((0, *steps) for steps in strides)
    widths = [size for _, size in tensors.values()]
    column = len(shape) - 1
    if shape[column] < SHORT:
        column = max(range(len(shape)), key=shape.__getitem__)
    others = [axis for axis in range(len(shape)) if axis != column]
    staged = [_is_staged(steps[column], size, shape[column]) for steps, size in zip(strides, widths, strict=True)]
    staged[-1] |= shape[column] > 1 and strides[-1][column] != widths[-1]
    row = others[-1]
    for steps, is_staged in zip(strides, staged, strict=True):
        walked = [axis for axis in others if steps[axis] and shape[axis] > 1]
        if is_staged and walked:
            row = min(walked, key=lambda axis: steps[axis])  # used in this iteration
            break
    outer = [axis for axis in others if axis != row]
    staged_columns = max(STAGED_COLUMNS, STAGED_BYTES // max(widths))
    planes = tuple(
        Plane(
            size,
            steps[row],
            steps[column],
            tuple(steps[axis] for axis in outer),
            is_staged,
            staged_columns * size + PADDING,
        )
        for steps, size, is_staged in zip(strides, widths, staged, strict=True)
    )
    tile = _tile(shape[row], shape[column], staged_columns if any(staged) else None)
    return Planes(
        tuple(shape[axis] for axis in outer), shape[row], shape[column], tile, planes, (row, column), shape, strides
    )


def _collapsed(
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


def _is_staged(step: int, size: int, columns: int) -> bool:
    return step not in (0, size) and columns > 1


def _tile(rows: int, columns: int, staged_columns: int | None) -> tuple[int, int]:
    if staged_columns is not None:
        return min(rows, STAGED_ROWS), min(columns, staged_columns)
    most = min(MOST_IN_TILE, max(FEWEST, rows * columns // TILES))
    width = min(columns, most)
    return min(rows, max(1, most // width)), width
