"""How a reduction is cut into units: rows or columns, tiles and segments. It depends on the shape alone."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from ...layout import Loop, ReductionLayout
from . import geometry as g

WHOLE_ROW = 1 << 17
"""The most reduced elements that are not cut into segments."""

ROW_SEGMENT = 1 << 16

COLUMN_UNIT = 1 << 21
"""The most elements of a tile of columns and its segment of rows."""

LEAST_UNITS = 16
"""Columns are cut further until there are so many units, but to no less than ``LEAST_ROWS`` rows."""

LEAST_ROWS = 64

LEAST_COLUMNS = 8
"""With fewer neighbouring columns a reduction goes row by row."""

TILE_BYTES, LEAST_TILE_BYTES = 2048, 512

WIDE_TILE_BYTES = 4096
"""Of rows of a wide tile, which the processor reads as fast as a whole row."""


class ReductionTiling(NamedTuple):
    """A reduction cut into units.

    Attributes:
        by_columns: whether units are tiles of columns; otherwise single rows.
        units: how many there are.
        segments: units that an output element is spread over.
        outputs: elements of the output.
        elements: of the input in a unit, with what an output element takes besides.
        geometry: of the units.
        layout: the loops.
        whole: the geometry in which units are single output elements, whole or in segments; it tells the columns too.
    """

    by_columns: bool
    units: int
    segments: int
    outputs: int
    elements: int
    layout: ReductionLayout
    geometry: array[int]
    whole: array[int]


def cut(
    layout: ReductionLayout,
    item_size: int,
    parameters: dict[int, int],
    *,
    most_rows: int = COLUMN_UNIT,
    wide: bool = False,
    besides: int = 0,
) -> ReductionTiling:
    """Cuts a reduction whose elements have ``item_size`` bytes.

    ``parameters`` go into both geometries; a segment of a tile of columns has at most ``most_rows`` rows. With ``wide``
    tiles an output element is sooner cut into segments than a row into tiles. ``besides`` is how many elements could be
    visited in the time that an output element takes whatever goes into it.
    """
    column = _column(layout)
    tile = 0
    if column is None:
        count = layout.reduced_count
        segment = count if count <= WHOLE_ROW else ROW_SEGMENT
        geometry = g.encode(layout, None, segment, 0)
        units = layout.kept_count
        elements = segment + besides
    else:
        outer = layout._replace(kept=layout.kept[:-1])
        tile = _wide_tile(column.size, item_size) if wide else _tile(column.size, outer.kept_count, item_size)
        tiles = outer.kept_count * -(-column.size // tile)
        segment = min(most_rows, _column_segment(layout.reduced_count, tile, tiles))
        geometry = g.encode(outer, column, segment, tile)
        units = tiles
        elements = (segment + besides) * tile
    whole = geometry
    if column is not None:
        whole = g.encode(layout, None, segment, 0)
        whole[g.COLUMNS], whole[g.COLUMN_TARGET] = column.size, column.target
    for slot, value in parameters.items():
        geometry[slot] = whole[slot] = value
    segments = geometry[g.SEGMENTS]
    return ReductionTiling(
        column is not None, units * segments, segments, layout.kept_count, elements, layout, geometry, whole
    )


def _column(layout: ReductionLayout) -> Loop | None:
    if not layout.kept or not layout.reduced:
        return None
    column, run = layout.kept[-1], layout.reduced[-1]
    return column if column.source < run.source and column.size >= LEAST_COLUMNS else None


def _tile(columns: int, outer: int, item_size: int) -> int:
    """Narrow tiles where they give units enough; else segments will, and rows of a tile may be long."""
    tile = min(columns, max(64, TILE_BYTES // item_size))
    enough = columns // -(-LEAST_UNITS // outer)
    return min(tile, enough // 16 * 16) if enough * item_size >= LEAST_TILE_BYTES else tile


def _wide_tile(columns: int, item_size: int) -> int:
    """Tiles of about the same width."""
    most = WIDE_TILE_BYTES // max(item_size, 4)
    even = -(-columns // -(-columns // most))
    return min(columns, -(-even // 16) * 16)


def _column_segment(count: int, tile: int, tiles: int) -> int:
    segments = max(-(-count * tile // COLUMN_UNIT), -(-LEAST_UNITS // tiles))
    return min(count, max(LEAST_ROWS, -(-count // segments)))
