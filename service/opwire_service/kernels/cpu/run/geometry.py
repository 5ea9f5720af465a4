"""Loop geometry of a kernel as an array of int64 slots, and the functions by which kernels read it.

A unit of work is one output element, or a tile of adjacent ones, times one segment of the reduced elements. All
addresses follow from the unit's number, so any range of units can run on any thread.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir

from ...layout import Loop, ReductionLayout
from ..jit.compiler import inlined, inner
from ..jit.element import ADDRESS, INT64, int64, intrinsic, pointer_to

# Slots of the array. Families declare slots for their own kernels in ``parameters``, from PARAMETERS on.
COUNT, SEGMENT, SEGMENTS = 0, 1, 2  # number of reduced elements in all and per segment, and the number of segments
RUN, STEP, RUN_LOOPS = 3, 4, 5  # innermost reduced loop: its size and step, and the number of loops outside it
KEPT_LOOPS = 6  # number of kept (non-reduced) loops outside the columns
# The innermost kept loop (size, source step and target step), and the size and number of its tiles.
COLUMNS, COLUMN_STEP, COLUMN_TARGET, TILE, TILES = 7, 8, 9, 10, 11
PARAMETERS = 12
KEPT, KEPT_SLOTS = 24, 3  # size, source step and target step of each kept loop, outermost first
RUNS, RUN_SLOTS = 48, 2  # size and source step of each reduced loop except the innermost, outermost first
SLOTS = 64

_EMPTY = array("q", bytes(8 * SLOTS))

MOST_LOOPS = 8
"""Maximum number of loops: the maximum rank of a tensor."""


class Tile(NamedTuple):
    """A unit of work on columns: a tile of them and one segment of their reduced elements.

    Attributes:
        base: address of the first column's element at the start of all reduced loops.
        offset: elements from the start of the output to the first column's element.
        outer: linear index into the loops outside the columns.
        start: first column.
        width: number of columns.
        segment: index of the segment.
        first, last: its first reduced element, and the last + 1.
    """

    base: int
    offset: int
    outer: int
    start: int
    width: int
    segment: int
    first: int
    last: int


def encode(layout: ReductionLayout, column: Loop | None, segment: int, tile: int) -> array[int]:
    """Encodes a reduction.

    Args:
        layout: its loops, without ``column``.
        column: the innermost kept loop, if units are tiles of it.
        segment: reduced elements per unit.
        tile: columns per unit.
    """
    row = _EMPTY[:]
    *runs, run = layout.reduced or (Loop(1, 0),)
    count = layout.reduced_count
    row[COUNT], row[SEGMENT], row[SEGMENTS] = count, segment, -(-count // segment)
    row[RUN], row[STEP], row[RUN_LOOPS] = run.size, run.source, len(runs)
    row[KEPT_LOOPS] = len(layout.kept)
    if column is not None:
        row[COLUMNS], row[COLUMN_STEP], row[COLUMN_TARGET] = column.size, column.source, column.target
        row[TILE], row[TILES] = tile, -(-column.size // tile)
    for i, loop in enumerate(layout.kept):
        first = KEPT + KEPT_SLOTS * i
        row[first], row[first + 1], row[first + 2] = loop
    for i, loop in enumerate(runs):
        first = RUNS + RUN_SLOTS * i
        row[first], row[first + 1] = loop.size, loop.source
    return row


@intrinsic
def at(typing: Any, geometry: Any, slot: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the value of a slot."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.gep(pointer_to(builder, args[0], ir.IntType(64)), [args[1]]))

    return INT64(ADDRESS, ADDRESS), code


@inner
def _walk_loops(geometry: int, unit: int, loops: int, first: int, width: int, which: int) -> int:
    offset = 0
    for i in range(loops - 1, -1, -1):
        size = at(geometry, first + width * i)
        rest = unit // size
        offset += (unit - rest * size) * at(geometry, first + width * i + which)
        unit = rest
    return offset


@inlined
def _walk(geometry: int, unit: int, loops: int, first: int, width: int, which: int) -> int:
    if loops == 1:
        return unit * at(geometry, first + which)
    # Passed as run-time numbers, so that it is compiled once for all loops.
    return _walk_loops(geometry, unit, loops, int64(first), int64(width), int64(which))


@inlined
def kept_source(geometry: int, unit: int) -> int:
    """Returns the input offset, in elements, of a point of the kept loops."""
    return _walk(geometry, unit, at(geometry, KEPT_LOOPS), KEPT, KEPT_SLOTS, 1)


@inlined
def kept_target(geometry: int, unit: int) -> int:
    """Returns the output offset, in elements, of a point of the kept loops."""
    return _walk(geometry, unit, at(geometry, KEPT_LOOPS), KEPT, KEPT_SLOTS, 2)


@inlined
def run_source(geometry: int, run: int) -> int:
    """Returns the offset, in elements, from a point of the kept loops to the start of one of its runs."""
    return _walk(geometry, run, at(geometry, RUN_LOOPS), RUNS, RUN_SLOTS, 1)


@inlined
def segment_of(geometry: int, unit: int) -> tuple[int, int, int, int]:
    """Splits a unit into output (or tile) and segment; also returns the segment's first element and the last + 1."""
    segments, segment = at(geometry, SEGMENTS), at(geometry, SEGMENT)
    whole = unit // segments if segments > 1 else unit
    number = unit - whole * segments
    first = number * segment
    return whole, number, first, min(first + segment, at(geometry, COUNT))


@inlined
def tile_of(source: int, geometry: int, unit: int, zero: float) -> Tile:
    """Returns the columns and the segment of a unit, for an input at ``source``."""
    number, segment, first, last = segment_of(geometry, unit)
    tiles, tile = at(geometry, TILES), at(geometry, TILE)
    outer = number // tiles
    start = (number - outer * tiles) * tile
    width = min(tile, at(geometry, COLUMNS) - start)
    base = advance(source, kept_source(geometry, outer) + start * at(geometry, COLUMN_STEP), zero)
    offset = kept_target(geometry, outer) + start * at(geometry, COLUMN_TARGET)
    return Tile(base, offset, outer, start, width, segment, first, last)


@inner
def reduced_source(geometry: int, index: int) -> int:
    """Returns the offset, in elements, from a point of the kept loops to a reduced element."""
    run = index // at(geometry, RUN)
    return run_source(geometry, run) + (index - run * at(geometry, RUN)) * at(geometry, STEP)


@inner
def run_from(geometry: int, base: int, index: int, end: int, zero: float) -> tuple[int, int]:
    """Returns the address of a reduced element, and how many elements are left in its run, up to ``end``."""
    size = at(geometry, RUN)
    run = index // size if index >= size else 0  # a division takes as long as reading some hundred bytes
    place = index - run * size
    offset = run_source(geometry, run) + place * at(geometry, STEP)
    return advance(base, offset, zero), min(size - place, end - index)


@intrinsic
def advance(typing: Any, address: Any, elements: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns an address advanced by a number of elements."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.add(args[0], builder.mul(args[1], ir.Constant(args[1].type, zero.bitwidth // 8)))

    return ADDRESS(ADDRESS, ADDRESS, zero), code
