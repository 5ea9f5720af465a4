"""The states that segments leave of columns: each part of them is a row of columns, so that they merge side by side.

After the rows of one segment come those of the next one, and after all segments those of the next point of the loops
outside the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.compiler import inlined, inner
from ..jit.element import address_of, int32, int64, load, store
from ..numbers.formats import put
from ..numbers.vectors import WIDTH
from ..run import geometry as g
from ..run.geometry import Tile, at

SLACK_PLACES = WIDTH
"""Places after the last state that a vector may reach into."""


@inner
def rows_of(states: int, geometry: int, parts: int, outer: int, segment: int) -> int:
    """The address of the rows of a segment."""
    return states + 8 * parts * at(geometry, g.COLUMNS) * (outer * at(geometry, g.SEGMENTS) + segment)


@inner
def put_states(own: int, distance: int, parts: int, states: int, geometry: int, tile: Tile) -> None:
    """Puts the states of a tile, whose parts lie ``distance`` apart, into the rows of its segment."""
    rows, columns = rows_of(states, geometry, parts, tile.outer, tile.segment), at(geometry, g.COLUMNS)
    for j in range(parts):
        for i in range(tile.width):
            store(rows, j * columns + tile.start + i, load(own, j * distance + i, 0))


@inner
def group_of(geometry: int, output: int, end: int) -> tuple[int, int, int]:
    """Of an output element the place outside the columns, its column, and how many follow up to ``end`` in a vector."""
    columns = at(geometry, g.COLUMNS)
    outer = output // columns
    column = output - outer * columns
    return outer, column, min(WIDTH, columns - column, end - output)


@inlined
def finish_columns(
    zero: float,
    target: int,
    states: int,
    geometry: int,
    begin: int,
    end: int,
    parts: int,
    merge: Any,
    round_vector: Any,
    round_one: Any,
) -> None:
    """Merges the segments of output elements, a vector of columns at a time; see ``sums.finish``.

    Args:
        parts: places of a state.
        merge: takes the geometry, the address of the first segment's states and that of a merged one, which it leaves
            there with its parts ``WIDTH`` places apart.
        round_vector: takes a ``zero``, the geometry, merged states, and where to leave the bits of the results and
            whether they are open.
        round_one: takes a ``zero``, the geometry and the merged state of one column; whether it decides the result,
            and the bits.
    """
    apart = at(geometry, g.COLUMN_TARGET)
    memory = np.empty((parts + 1) * WIDTH, np.int64)
    merged = address_of(memory)
    results, opens = merged + 8 * parts * WIDTH, merged + (8 * parts + 4) * WIDTH
    output = begin
    while output < end:
        outer, column, width = group_of(geometry, output, end)
        here = rows_of(states, geometry, parts, outer, 0) + 8 * column
        merge(geometry, here, merged)
        round_vector(zero, geometry, merged, results, opens)
        offset = g.kept_target(geometry, output)
        for i in range(width):
            decided, bits = True, int64(load(results, i, int32(0)))
            if load(opens, i, int32(0)):
                decided, bits = round_one(zero, geometry, merged + 8 * i)
            put(target, offset + i * apart, bits, zero)
            store(here, i, 0 if decided else 1)
            if not decided:
                store(states, -1, 1)
        output += width
    memory[0] = 0  # keeps the memory alive until here
