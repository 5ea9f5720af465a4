"""Layout of the states of column segments: each part of a state is a row of columns, so that vectors can be merged.

The rows of one segment are followed by those of the next, and all segments by those of the next point of the loops
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
"""Padding after the last state, in int64, because vector loads may reach past it."""


@inner
def rows_of(states: int, geometry: int, parts: int, outer: int, segment: int) -> int:
    """Returns the address of a segment's rows."""
    return states + 8 * parts * at(geometry, g.COLUMNS) * (outer * at(geometry, g.SEGMENTS) + segment)


@inner
def put_states(own: int, distance: int, parts: int, states: int, geometry: int, tile: Tile) -> None:
    """Stores the states of a tile, whose parts are ``distance`` apart, to the rows of its segment."""
    rows, columns = rows_of(states, geometry, parts, tile.outer, tile.segment), at(geometry, g.COLUMNS)
    for j in range(parts):
        for i in range(tile.width):
            store(rows, j * columns + tile.start + i, load(own, j * distance + i, 0))


@inner
def group_of(geometry: int, output: int, end: int) -> tuple[int, int, int]:
    """Returns an output's point of the outer loops, its column, and how many columns up to ``end`` fill a vector."""
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
    """Merges the segments of output elements, one vector of columns at a time; see ``sums.finish``.

    Args:
        zero: its type is the element type.
        target: address of the output.
        states: address of the states.
        geometry: address of the geometry.
        begin, end: range of output elements.
        parts: int64 slots in a state.
        merge: takes the geometry, the address of the first segment's states and that of the merged state, which it
            stores with its parts ``WIDTH`` apart.
        round_vector: takes ``zero``, the geometry, merged states, and the addresses for the bits of the results and for
            the flags of open ones.
        round_one: takes ``zero``, the geometry and one column's merged state; returns whether it decides the result,
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
    memory[0] = 0  # keeps the buffer alive until here
