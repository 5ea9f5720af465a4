"""The elements of all blocks along one dimension, as boxes, each either in the image or in the padding.

An element of a block is a point in a rectangle of window elements and blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...reference.folds import FoldedDimension


class Box(NamedTuple):
    """Part of the rectangle.

    Attributes:
        window, windows: first window element, and their number.
        block, blocks: first block, and their number.
    """

    window: int
    windows: int
    block: int
    blocks: int

    def position(self, axis: FoldedDimension) -> int:
        """Returns the image position of the first element."""
        return self.block * axis.stride - axis.start + self.window * axis.dilation


class Line(NamedTuple):
    """A part whose elements are strided in the image, with the parts before and after it in the padding."""

    inside: Box | None
    outside: tuple[Box, ...]


def whole(axis: FoldedDimension) -> Box:
    return Box(0, axis.window, 0, axis.blocks)


def is_inside(axis: FoldedDimension) -> bool:
    """Whether no block extends into the padding."""
    last = (axis.blocks - 1) * axis.stride - axis.start + (axis.window - 1) * axis.dilation
    return axis.start == 0 and last < axis.size


def lines(axis: FoldedDimension) -> Iterator[Line]:
    """Yields a line for each window element or for each block, whichever are fewer."""
    if axis.window <= axis.blocks:
        for window in range(axis.window):
            first = window * axis.dilation - axis.start
            begin, end = _range(first, axis.stride, axis.blocks, axis.size)
            yield _line(Box(window, 1, 0, axis.blocks), begin, end)
    else:
        for block in range(axis.blocks):
            first = block * axis.stride - axis.start
            begin, end = _range(first, axis.dilation, axis.window, axis.size)
            yield _line(Box(0, axis.window, block, 1), begin, end)


def _range(first: int, step: int, count: int, size: int) -> tuple[int, int]:
    """Returns the range of positions in [0, size)."""
    begin = min(max(0, -(first // step)), count)
    end = min(max(begin, -((first - size) // step)), count)
    return begin, end


def _line(box: Box, begin: int, end: int) -> Line:
    """Returns a line whose elements from ``begin`` to ``end`` are inside the image."""
    pieces = [_part(box, *ends) for ends in ((0, begin), (begin, end), (end, box.windows * box.blocks))]
    before, inside, after = pieces
    return Line(inside, tuple(piece for piece in (before, after) if piece is not None))


def _part(box: Box, begin: int, end: int) -> Box | None:
    if begin == end:
        return None
    if box.windows == 1:
        return Box(box.window, 1, box.block + begin, end - begin)
    return Box(box.window + begin, end - begin, box.block, 1)


def clipped(axis: FoldedDimension, box: Box, positions: range) -> tuple[slice, Box] | None:
    """Clips a line to a range of positions; returns a slice of the range and the clipped box, or None if empty."""
    first, step = box.position(axis), axis.stride if box.windows == 1 else axis.dilation
    count = box.windows * box.blocks
    begin, end = _range(first - positions.start, step, count, len(positions))
    part = _part(box, begin, end)
    if part is None:
        return None
    start = first - positions.start + begin * step
    return slice(start, start + (end - begin - 1) * step + 1, step), part
