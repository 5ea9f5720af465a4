"""The states that segments leave of columns: each part of them is a row of columns, so that they merge side by side.

After the rows of one segment come those of the next one, and after all segments those of the next point of the loops
outside the columns.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import load, store
from ..numbers.vectors import WIDTH
from ..run import geometry as g
from ..run.geometry import at

SLACK_PLACES = WIDTH
"""Places after the last state that a vector may reach into."""


@inner
def rows_of(states: int, geometry: int, parts: int, outer: int, segment: int) -> int:
    """The address of the rows of a segment."""
    return states + 8 * parts * at(geometry, g.COLUMNS) * (outer * at(geometry, g.SEGMENTS) + segment)


@inner
def put_states(own: int, distance: int, parts: int, rows: int, columns: int, start: int, width: int) -> None:
    """Puts the states of columns from ``start`` on, whose parts lie ``distance`` apart, into the rows of a segment."""
    for j in range(parts):
        for i in range(width):
            store(rows, j * columns + start + i, load(own, j * distance + i, 0))


@inner
def group_of(geometry: int, output: int, end: int) -> tuple[int, int, int]:
    """Of an output element the place outside the columns, its column, and how many follow up to ``end`` in a vector."""
    columns = at(geometry, g.COLUMNS)
    outer = output // columns
    column = output - outer * columns
    return outer, column, min(WIDTH, columns - column, end - output)
