"""Cuts reductions into units of work (rows or columns, tiles and segments), based on the shape alone."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple

from ...layout import Loop, ReductionLayout
from .geometry import R, encode

WHOLE_ROW = 1 << 17
"""Maximum number of reduced elements in a row that is not cut into segments."""

ROW_SEGMENT = 1 << 16
"""Reduced elements in a segment of a longer row."""

COLUMN_UNIT = 1 << 21
"""Maximum number of elements in a unit of columns: a tile times its segment of rows."""

LEAST_UNITS = 16
"""Number of units below which columns are cut further, into segments of rows."""

LEAST_ROWS = 64
"""Usual minimum of rows in such a segment."""

LEAST_COLUMNS = 8
"""Number of adjacent columns below which a reduction goes row by row."""

TILE_BYTES, LEAST_TILE_BYTES = 2048, 512
"""Usual and minimum size of a row of a tile, in bytes."""

WIDE_TILE_BYTES = 4096
"""Row size of a wide tile, in bytes, where each column has a larger state than a sum."""

WIDEST_TILE_BYTES = 16384
"""Row size of the widest tile, in bytes; the processor reads it as fast as a whole row."""


class ReductionTiling(NamedTuple, Generic[R]):
    """A reduction cut into units of work.

    Attributes:
        by_columns: whether units are tiles of columns; otherwise they are single rows.
        units: number of units.
        segments: number of units that share an output element.
        outputs: elements of the output.
        elements: cost of a unit, in input elements, including the fixed cost of its outputs.
        layout: the loops.
        geometry: geometry of the units.
        whole: geometry in which units are single output elements, whole or in segments; it describes the columns too.
    """

    by_columns: bool
    units: int
    segments: int
    outputs: int
    elements: int
    layout: ReductionLayout
    geometry: R
    whole: R

    def set(self, **values: Any) -> None:
        """Sets fields of both geometries."""
        for name, value in values.items():
            setattr(self.geometry, name, value)
            setattr(self.whole, name, value)


def cut(
    kind: type[R],
    layout: ReductionLayout,
    item_size: int,
    *,
    most_rows: int = COLUMN_UNIT,
    least_rows: int = LEAST_ROWS,
    wide: int = 0,
    besides: int = 0,
) -> ReductionTiling[R]:
    """Cuts a reduction.

    Args:
        kind: the record that describes them.
        layout: the loops.
        item_size: size of an element in bytes.
        most_rows: maximum number of rows in a segment of a tile of columns.
        least_rows: minimum number of rows in a segment that is cut to get more units.
        wide: row size, in bytes, of the tiles of outputs that are cut into segments rather than into narrow tiles; 0 if
            they are not.
        besides: fixed cost of an output element, in visited elements.
    """
    column = _column(layout)
    tile = 0
    if column is None:
        count = layout.reduced_count
        segment = count if count <= WHOLE_ROW else ROW_SEGMENT
        geometry = encode(kind, layout, None, segment, 0)
        units = layout.kept_count
        elements = segment + besides
    else:
        outer = layout._replace(kept=layout.kept[:-1])
        tile = _wide_tile(column.size, item_size, wide) if wide else _tile(column.size, outer.kept_count, item_size)
        tiles = outer.kept_count * -(-column.size // tile)
        segment = min(most_rows, _column_segment(layout.reduced_count, tile, tiles, least_rows))
        geometry = encode(kind, outer, column, segment, tile)
        units = tiles
        elements = (segment + besides) * tile
    whole = geometry
    if column is not None:
        whole = encode(kind, layout, None, segment, 0)
        whole.columns, whole.column_target = column.size, column.target
    segments = geometry.segments
    return ReductionTiling(
        column is not None, units * segments, segments, layout.kept_count, elements, layout, geometry, whole
    )


def _column(layout: ReductionLayout) -> Loop | None:
    if not layout.kept or not layout.reduced:
        return None
    column, run = layout.kept[-1], layout.reduced[-1]
    return column if column.source < run.source and column.size >= LEAST_COLUMNS else None


def _tile(columns: int, outer: int, item_size: int) -> int:
    """Returns a narrow tile width if that yields enough units; otherwise a wide one, since segments will yield them."""
    tile = min(columns, max(64, TILE_BYTES // item_size))
    enough = columns // -(-LEAST_UNITS // outer)
    return min(tile, enough // 16 * 16) if enough * item_size >= LEAST_TILE_BYTES else tile


def _wide_tile(columns: int, item_size: int, row_bytes: int) -> int:
    """Returns a width that splits the columns into wide tiles of about equal size."""
    most = row_bytes // max(item_size, 4)
    even = -(-columns // -(-columns // most))
    return min(columns, -(-even // 16) * 16)


def _column_segment(count: int, tile: int, tiles: int, least: int) -> int:
    segments = max(-(-count * tile // COLUMN_UNIT), -(-LEAST_UNITS // tiles))
    return min(count, max(least, -(-count // segments)))
