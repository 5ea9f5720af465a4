"""Tensors of one shape as planes: rows of neighbours, which kernels walk, in tiles of two dimensions.

A tensor whose neighbours in a row lie apart is staged: a tile of it is copied to where they are neighbours, or from
there. Where a row is short, the longest dimension makes the rows, and all is staged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from .walk import collapsed

MOST = 1 << 21
"""Elements of a tile."""

TILES = 32
"""As many there are at least, unless they would have fewer elements than ``FEWEST``."""

FEWEST = 1 << 16

STAGED_ROWS, STAGED_COLUMNS, STAGED_BYTES = 256, 256, 1024
"""Of a tile where something is staged: it fits the second cache. Of narrow elements there are as many as have so many
bytes together, as each tile takes some time of its own."""

PADDING = 64
"""Bytes between staged rows, which would lie a power of two apart without."""

SHORT = 16
"""Elements of a row that is too short."""

LEAST = 1 << 11
"""Elements of a tile below which it is not worth a call."""


class Plane(NamedTuple):
    """How one tensor lies in the planes.

    Attributes:
        size: bytes of an element.
        row: bytes from one row to the next.
        column: bytes between neighbours in a row.
        outer: the bytes between planes, for each dimension of these.
        is_staged: whether tiles are copied.
        staged_row: bytes between rows that are.
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
        outer: how many planes there are in each dimension.
        rows: of a plane.
        columns: elements of a row.
        tile: rows and columns of a tile.
        tensors: the output last.
        axes: which of the collapsed dimensions are the rows and the columns.
        shape: the collapsed dimensions.
        strides: in bytes, of each tensor.
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
        """Tiles."""
        rows, columns = self.tile
        return prod(self.outer) * -(-self.rows // rows) * -(-self.columns // columns)

    @property
    def bytes(self) -> int:
        """Of all tensors together."""
        return sum(
            plane.size * prod(count for count, step in zip(self.shape, steps, strict=True) if step)
            for plane, steps in zip(self.tensors, self.strides, strict=True)
        )

    @property
    def is_worth(self) -> bool:
        """Whether tiles are large enough, or there is but one."""
        return self.units == 1 or prod(self.tile) >= LEAST

    def place(self, unit: Any) -> tuple[tuple[Any, ...], Any, Any]:
        """The plane of a tile, and its first row and column; of an array of tiles, arrays of these."""
        rows, columns = self.tile
        unit, column = divmod(unit, -(-self.columns // columns))
        unit, row = divmod(unit, -(-self.rows // rows))
        plane = []
        for count in reversed(self.outer):
            unit, number = divmod(unit, count)
            plane.append(number)
        return tuple(reversed(plane)), row * rows, column * columns


def planes_of(sizes: Sequence[int], tensors: Mapping[str, tuple[tuple[int, ...], int]]) -> Planes:
    """The planes of tensors.

    Args:
        sizes: of all tensors.
        tensors: strides in bytes, and bytes of an element, the output's last.
    """
    shape, strides = collapsed(sizes, [steps for steps, _ in tensors.values()])
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
            row = min(walked, key=lambda axis: steps[axis])  # used at once
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


def _is_staged(step: int, size: int, columns: int) -> bool:
    return step not in (0, size) and columns > 1


def _tile(rows: int, columns: int, staged_columns: int | None) -> tuple[int, int]:
    if staged_columns is not None:
        return min(rows, STAGED_ROWS), min(columns, staged_columns)
    most = min(MOST, max(FEWEST, rows * columns // TILES))
    width = min(columns, most)
    return min(rows, max(1, most // width)), width
