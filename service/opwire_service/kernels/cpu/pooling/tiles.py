"""How a row of outputs is cut into tiles, and which kernel takes them. It depends on the plan alone."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from opwire.check import Plan
from opwire.operators.max_pooling import Dimension

from .lines import WIDE_TILE

USUAL = 1 << 15
"""Elements that a tile visits, where windows are small: what it reads and leaves stays in the nearest caches."""

MOST = 1 << 22
"""The most that it visits: some milliseconds."""

LONGEST_LINE = 1 << 21
"""Positions of the innermost dimension, padding included, that a tile covers at most."""

OVERLAP = 16
"""The windows of a tile visit at least so many times what neighbouring tiles visit as well."""

LARGEST_WINDOW = 1 << 16
"""Elements of a window that is not worth a reduction of its own."""

QUICKER, QUICKER_FAR = 64, 16
"""How many elements of a line take as long as one of a window that is visited by itself: neighbours, or far apart."""

UNIT = 16
"""Elements that could be visited in the time that a tile takes besides."""


class Tiles(NamedTuple):
    """A row of outputs cut into tiles.

    Attributes:
        by_line: whether their windows are reduced along a line; otherwise one by one.
        width: outputs of a tile.
        count: tiles of a row.
        line: padded positions that a tile covers along the innermost dimension.
        elements: that a tile visits.
    """

    by_line: bool
    width: int
    count: int
    line: int
    elements: int


def cut_rows(plan: Plan, *, lines: bool) -> Tiles | None:
    """The tiles of a plan, or None if its windows are so large that each is better a reduction of its own.

    Args:
        plan: a max pooling.
        lines: whether some kernel reduces its windows along lines.
    """
    source, sizes = plan.inputs["InputTensor"], plan.outputs["OutputTensor"].sizes
    *outer, across = plan.attributes.dimensions(source.sizes)
    row = _Row(prod(map(_taps, outer)), across, sizes[-1])
    width = row.width()
    if lines and width:
        quicker = QUICKER if source.element_strides[-1] == 1 else QUICKER_FAR
        if row.elements(width) * -(-sizes[-1] // width) * prod(sizes[:-1]) <= quicker * plan.work:
            return row.tiles(width)
    window = row.rows * _taps(across)
    if window > LARGEST_WINDOW:
        return None
    count = -(-sizes[-1] // max(1, USUAL // window))
    width = -(-sizes[-1] // count)
    return Tiles(False, width, count, 0, width * window + UNIT)


def _taps(dimension: Dimension) -> int:
    """The most elements of the input that a window has along a dimension."""
    return min(dimension.window, -(-dimension.size // dimension.dilation))


class _Row(NamedTuple):
    """A row of outputs: rows of the input that a window covers, the innermost dimension, and outputs."""

    rows: int
    across: Dimension
    outputs: int

    def line(self, width: int) -> int:
        return (width - 1) * self.across.stride + self.across.dilated_window

    def elements(self, width: int) -> int:
        """What a tile visits, padding included."""
        line = self.line(width)
        covered = min(self.across.size, line)
        return self.rows * covered + line - covered + width * self.across.window

    def width(self) -> int:
        """The width of tiles that are reduced along lines: 0 if they would visit too much for a few windows."""
        each = self.rows * self.across.stride + self.across.window
        again = self.rows * self.across.dilated_window
        width = min(self.outputs, max((USUAL - again) // each, OVERLAP * again // each, WIDE_TILE))
        if self.elements(width) > MOST or self.line(width) > LONGEST_LINE:
            width = min((MOST - again) // each, (LONGEST_LINE - self.across.dilated_window) // self.across.stride)
        return max(0, width)

    def tiles(self, width: int) -> Tiles:
        """Tiles of at most this width, all but the last alike."""
        count = -(-self.outputs // width)
        width = -(-self.outputs // count)
        return Tiles(True, width, count, self.line(width), self.elements(width) + UNIT)
