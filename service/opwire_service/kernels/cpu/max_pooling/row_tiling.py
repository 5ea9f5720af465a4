"""Cuts rows of outputs into tiles and chooses their kernel, based on the plan alone."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from opwire.check import Plan
from opwire.rules.dimension import Dimension

USUAL_BYTES = 1 << 17
"""Size of a tile's working set for small windows, in bytes, so that it stays in the inner caches."""

MOST_READ = 1 << 22
"""Maximum number of elements that a tile visits: some milliseconds."""

LONGEST_LINE = 1 << 21
"""Maximum number of positions of the innermost dimension, padding included, that a tile covers."""

OVERLAP = 16
"""The windows of a tile visit at least this many times the elements that they share with adjacent tiles."""

LEAST_WIDTH = 1 << 10
"""Minimum number of outputs in a tile however large the windows are: enough for whole vectors of any element type."""

LARGEST_WINDOW = 1 << 16
"""Maximum number of elements in a window that is not a reduction of its own."""

LINE_BYTES, FAR_ELEMENTS = 512, 16
"""Bytes of a contiguous line, or elements of a strided one, processed while visiting one element of a single window."""

LANES, LINE_VISITS, TILE_VISITS = 8, 8, 64
"""Elements of contiguous lines per visit, and the overhead of a line and of a tile, in visits."""

WINDOW_VISITS = 16
"""Overhead of a single window, in visits."""

UNIT = 16
"""Overhead of a tile, in visited elements."""


class RowTiling(NamedTuple):
    """A row of outputs cut into tiles.

    Attributes:
        by_line: whether windows are reduced along a line; otherwise one by one.
        width: outputs in a tile.
        number: tiles in a row.
        line: padded positions that a tile covers along the innermost dimension.
        elements: elements that a tile visits.
        visits: cost of all tiles, in element visits.
    """

    by_line: bool
    width: int
    number: int
    line: int
    elements: int
    visits: int


def cut_rows(plan: Plan, *, lines: bool) -> RowTiling | None:
    """Returns the tiles of a plan, or None if its windows are so large that each should be a reduction of its own.

    Args:
        plan: a max pooling.
        lines: whether a kernel exists that reduces windows along lines.
    """
    source, sizes = plan.inputs["InputTensor"], plan.outputs["OutputTensor"].sizes
    *outer, across = plan.attributes.dimensions(source.sizes)
    item_bytes = source.data_type.bits // 8
    usual = USUAL_BYTES // item_bytes
    row = _Row(prod(map(_taps, outer)), across, sizes[-1])
    rows = prod(sizes[:2]) * prod(each.elements_visited(count) for each, count in zip(outer, sizes[2:-1], strict=True))
    width = row.width(usual)
    if lines and width:
        quicker = LINE_BYTES // item_bytes if source.element_strides[-1] == 1 else FAR_ELEMENTS
        if row.elements(width) * -(-sizes[-1] // width) * prod(sizes[:-1]) <= quicker * plan.work:
            lanes = LANES if source.element_strides[-1] == 1 else 1
            return row.tiles(width, prod(sizes[:-1]), rows, lanes)
    window = row.rows * _taps(across)
    if window > LARGEST_WINDOW:
        return None
    number = -(-sizes[-1] // max(1, usual // window))
    width = -(-sizes[-1] // number)
    visits = plan.work + WINDOW_VISITS * plan.outputs["OutputTensor"].element_count
    return RowTiling(False, width, number, 0, width * window + UNIT, visits)


def _taps(dimension: Dimension) -> int:
    """Returns the maximum number of input elements in a window along a dimension."""
    return min(dimension.window, -(-dimension.size // dimension.dilation))


class _Row(NamedTuple):
    """A row of outputs: number of input rows in a window, innermost dimension, and number of outputs."""

    rows: int
    across: Dimension
    outputs: int

    def line(self, width: int) -> int:
        return (width - 1) * self.across.stride + self.across.dilated_window

    def elements(self, width: int) -> int:
        """Returns the number of elements that a tile visits, padding included."""
        return self.rows * self._covered(width) + self._besides(width)

    def _covered(self, width: int) -> int:
        return min(self.across.size, self.line(width))

    def _besides(self, width: int) -> int:
        return self.line(width) - self._covered(width) + width * self.across.window

    def width(self, usual: int) -> int:
        """Returns the width of tiles reduced along lines: 0 if even narrow ones visit far more than ``usual``."""
        each = self.rows * self.across.stride + self.across.window
        again = self.rows * self.across.dilated_window
        width = min(self.outputs, max((usual - again) // each, OVERLAP * again // each, LEAST_WIDTH))
        if self.elements(width) > MOST_READ or self.line(width) > LONGEST_LINE:
            width = min((MOST_READ - again) // each, (LONGEST_LINE - self.across.dilated_window) // self.across.stride)
        return max(0, width)

    def tiles(self, width: int, count: int, lines: int, lanes: int) -> RowTiling:
        """Returns tiles of at most this width, all but the last of equal size.

        Args:
            width: maximum width.
            count: rows of outputs.
            lines: input rows that all windows cover together.
            lanes: elements of input rows per visit.
        """
        number = -(-self.outputs // width)
        width = -(-self.outputs // number)
        elements = lines * self._covered(width) + count * self._besides(width)
        visits = number * (elements // lanes + LINE_VISITS * lines + TILE_VISITS * count)
        return RowTiling(True, width, number, self.line(width), self.elements(width) + UNIT, visits)
