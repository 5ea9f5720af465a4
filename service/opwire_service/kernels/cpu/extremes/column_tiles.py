"""Cuts extremes of columns into tiles as wide as the L1 cache allows, because memory is read in order."""

from __future__ import annotations

from ...layout import Loop, ReductionLayout, collapse
from ..run import geometry as g
from ..run.tiling import ReductionTiling

LEAST_ROWS = 16
"""Minimum number of rows in a segment."""

MOST_ELEMENTS = 1 << 21
"""Maximum number of elements in a unit."""


def by_tiles(
    layout: ReductionLayout, most_columns: int, least_units: int, parameters: dict[int, int]
) -> ReductionTiling:
    """Cuts a reduction along an axis that is not the innermost.

    Args:
        layout: its loops.
        most_columns: maximum number of columns in a tile.
        least_units: number of units below which columns are cut into segments; 0 leaves all columns whole.
        parameters: slots to set in the geometries.
    """
    column = layout.kept[-1]
    outer = layout._replace(kept=layout.kept[:-1])
    tile = min(column.size, most_columns)
    tiles = outer.kept_count * -(-column.size // tile)
    segment = _segment(layout.reduced_count, tile, tiles, least_units) if least_units else layout.reduced_count
    geometry, single = g.encode(outer, column, segment, tile), g.encode(layout, None, segment, 0)
    for place, value in parameters.items():
        geometry[place] = single[place] = value
    single[g.COLUMNS] = column.size
    segments = geometry[g.SEGMENTS]
    return ReductionTiling(
        True, tiles * segments, segments, layout.kept_count, segment * tile, layout, geometry, single
    )


def _segment(count: int, tile: int, tiles: int, least_units: int) -> int:
    segments = max(-(-count * tile // MOST_ELEMENTS), -(-least_units // tiles))
    return min(count, max(LEAST_ROWS, -(-count // segments)))


def of_segments(work: ReductionTiling) -> ReductionLayout:
    """Returns the loops of the second step, over the rows of columns that segments have left."""
    *outer, column = work.layout.kept
    step = work.segments * column.size
    kept = [Loop(column.size, 1, column.target)]
    for loop in reversed(outer):
        kept.insert(0, Loop(loop.size, step, loop.target))
        step *= loop.size
    return ReductionLayout(collapse(kept), (Loop(work.segments, column.size),))
