"""The loops of a reduction as a record, and the functions by which kernels read it.

A unit of work is one output element, or a tile of adjacent ones, times one segment of the reduced elements. All
addresses follow from the unit's number, so any range of units can run on any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from llvmlite import ir

from ...layout import Loop, ReductionLayout
from ..jit.compiler import inlined, inner
from ..jit.element import ADDRESS, intrinsic
from ..jit.records import Record, Row, rows
from .walk import split

MOST_LOOPS = 8
"""Maximum number of loops: the maximum rank of a tensor."""


class Steps(Record):
    """A loop, with steps in elements."""

    size: int
    source: int
    target: int


class Loops(Record):
    """The loops around the columns, outermost first."""

    kept_loops: int
    kept = rows(Steps, MOST_LOOPS)


class Reduction(Loops):
    """A reduction; families add what they reduce to."""

    count: int  # reduced elements in all and per segment, and the number of segments
    segment: int
    segments: int
    outputs: int  # number of output elements
    run: int  # innermost reduced loop: its size and step, and the number of loops around it
    step: int
    run_loops: int
    columns: int  # innermost kept loop: its size and steps, and the size and number of its tiles
    column_step: int
    column_target: int
    tile: int
    tiles: int
    runs = rows(Steps, MOST_LOOPS)


R = TypeVar("R", bound=Reduction)


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


def encode(kind: type[R], layout: ReductionLayout, column: Loop | None, segment: int, tile: int) -> R:
    """Encodes a reduction.

    Args:
        kind: its record.
        layout: its loops, without ``column``.
        column: the innermost kept loop, if units are tiles of it.
        segment: reduced elements per unit.
        tile: columns per unit.
    """
    *runs, run = layout.reduced or (Loop(1, 0),)
    count = layout.reduced_count
    geometry = kind(
        kept_loops=len(layout.kept),
        kept=layout.kept,
        count=count,
        segment=segment,
        segments=-(-count // segment),
        outputs=layout.kept_count * (1 if column is None else column.size),
        run=run.size,
        step=run.source,
        run_loops=len(runs),
        runs=runs,
    )
    if column is not None:
        geometry.columns, geometry.column_step, geometry.column_target = column
        geometry.tile, geometry.tiles = tile, -(-column.size // tile)
    return geometry


@inner
def _source(loops: Row[Steps], count: int, unit: int) -> int:
    offset = 0
    for i in range(count - 1, -1, -1):
        unit, place = split(unit, loops[i].size)
        offset += place * loops[i].source
    return offset


@inner
def _target(loops: Row[Steps], count: int, unit: int) -> int:
    offset = 0
    for i in range(count - 1, -1, -1):
        unit, place = split(unit, loops[i].size)
        offset += place * loops[i].target
    return offset


@inlined
def _source_of(loops: Row[Steps], count: int, unit: int) -> int:
    """Returns the input offset, in elements, of a point of some loops."""
    return unit * loops[0].source if count == 1 else _source(loops, count, unit)


@inlined
def kept_source(geometry: Loops, unit: int) -> int:
    """Returns the input offset, in elements, of a point of the kept loops."""
    return _source_of(geometry.kept, geometry.kept_loops, unit)


@inlined
def kept_target(geometry: Loops, unit: int) -> int:
    """Returns the output offset, in elements, of a point of the kept loops."""
    if geometry.kept_loops == 1:
        return unit * geometry.kept[0].target
    return _target(geometry.kept, geometry.kept_loops, unit)


@inlined
def segment_of(geometry: Reduction, unit: int) -> tuple[int, int, int, int]:
    """Splits a unit into output (or tile) and segment; also returns the segment's first element and the last + 1."""
    segments, segment = geometry.segments, geometry.segment
    whole = unit // segments if segments > 1 else unit
    number = unit - whole * segments
    first = number * segment
    return whole, number, first, min(first + segment, geometry.count)


@inlined
def tile_of(source: int, geometry: Reduction, unit: int, zero: float) -> Tile:
    """Returns the columns and the segment of a unit, for an input at ``source``."""
    number, segment, first, last = segment_of(geometry, unit)
    tiles, tile = geometry.tiles, geometry.tile
    outer = number // tiles
    start = (number - outer * tiles) * tile
    width = min(tile, geometry.columns - start)
    base = advance(source, kept_source(geometry, outer) + start * geometry.column_step, zero)
    offset = kept_target(geometry, outer) + start * geometry.column_target
    return Tile(base, offset, outer, start, width, segment, first, last)


@inner
def run_from(geometry: Reduction, base: int, index: int, end: int, zero: float) -> tuple[int, int]:
    """Returns the address of a reduced element, and how many elements are left in its run, up to ``end``."""
    size = geometry.run
    run = index // size if index >= size else 0  # a division takes as long as reading some hundred bytes
    place = index - run * size
    offset = _source_of(geometry.runs, geometry.run_loops, run) + place * geometry.step
    return advance(base, offset, zero), min(size - place, end - index)


@intrinsic
def advance(typing: Any, address: Any, elements: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns an address advanced by a number of elements."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.add(args[0], builder.mul(args[1], ir.Constant(args[1].type, zero.bitwidth // 8)))

    return ADDRESS(ADDRESS, ADDRESS, zero), code
