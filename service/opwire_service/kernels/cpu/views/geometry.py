"""Encodes copies as an array of int64 slots, cut into units of work, and decodes what a unit copies."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from ...layout import Loop
from ...views.view import Copy
from ..jit.compiler import inlined, inner
from ..run.geometry import at
from .moves import LINE, PART_ROW, PART_ROWS, VECTOR

# Slots of the record of a copy. Steps and offsets are in bytes.
END = 0  # units of this copy and those before it
FIRST = 1  # units of the copies before it
SOURCE, TARGET, SOURCE_OFFSET, TARGET_OFFSET = 2, 3, 4, 5
KIND = 6  # how its elements are moved
OUTER = 7  # number of loops outside the tiles
BEGIN, LAST = 8, 9  # first diagonal that is copied, and the last + 1
SECOND = 10  # distance of the second of each pair of source rows of a transposed copy; 0 if they form no pairs
LEVELS = 11  # loops of the tiles, outermost first
SIZE, SOURCE_STEP, TARGET_STEP, TILE, TILES = range(5)
LEVEL_SLOTS = 5
INNER = 3
LOOPS = LEVELS + INNER * LEVEL_SLOTS
LOOP_SLOTS = 3
MOST_LOOPS = 16
"""Loops of a copy that splits each dimension of a tensor in two."""
RECORD = LOOPS + LOOP_SLOTS * MOST_LOOPS

TILE_BYTES = 1 << 17
"""Maximum number of bytes that a unit moves in runs."""

UNIT = 16
"""Overhead of a unit, in visited elements."""

TILE_ITEMS = 1 << 14
"""Maximum number of elements that a unit moves one by one."""

SIDE = 128
"""Rows and columns of a tile transposed in the cache; if it is shorter one way, it is longer the other way."""

PAST_CACHE = 1 << 23
"""Bytes from which transposed data uses streaming stores: the cache would not hold it until it is read."""

EVERYWHERE = -(1 << 40), 1 << 40
"""Bounds that include all diagonals."""

LONG_LINE = 16
"""Minimum number of elements of a loop that should be innermost."""

RUNS, ITEMS, FILL, PAIRS, TRANSPOSED, TRANSPOSED_PAST_CACHE = range(6)
"""Kinds of copies; see ``CopyForm``."""


class CopyTile(NamedTuple):
    """The part of a copy that a unit makes.

    Attributes:
        source, target: addresses of its first element.
        outer, middle, inner: number of elements along the loops of tiles.
        diagonal: the diagonal of its first element.
    """

    source: int
    target: int
    outer: int
    middle: int
    inner: int
    diagonal: int


class CopyForm(NamedTuple):
    """The method by which a copy is made.

    Attributes:
        kind: ``RUNS`` of bytes, ``ITEMS`` one by one, ``FILL`` with one repeated element, ``PAIRS`` of two interleaved
            lines, or squares ``TRANSPOSED``, possibly written ``PAST_CACHE`` with streaming stores.
        item: bytes that the innermost loop moves at once; 1 for runs.
        loops: the loops, in bytes; the innermost loop of a run counts its bytes.
        second: if the source rows of a transposed copy form pairs, the distance of the second of a pair, else 0.
    """

    kind: int
    item: int
    loops: tuple[Loop, ...]
    second: int = 0


def copy_form(copy: Copy, item: int) -> CopyForm:
    """Returns the best form of a copy of elements of ``item`` bytes."""
    loops = [Loop(loop.size, loop.source * item, loop.target * item) for loop in copy.loops]
    if copy.band is not None:
        return CopyForm(ITEMS if loops[-1].source else FILL, item, tuple(loops))
    run = item
    if loops and loops[-1].source == loops[-1].target == item:
        run *= loops.pop().size
    if not loops or run not in (1, 2, 4, 8):
        return CopyForm(RUNS, 1, (*loops, Loop(run, 1, 1)))
    if loops[-1].source == 0:
        return CopyForm(FILL, run, tuple(loops))
    rows = next((i for i, loop in enumerate(loops[:-1]) if loop.source == run), None)
    if rows is not None and loops[-1] == (2, loops[-1].source, run) and loops[rows].target == 2 * run:
        loops.append(loops.pop(rows))
        return CopyForm(PAIRS, run, tuple(loops))
    second = 0
    if rows is not None and loops[-1].size == 2 and loops[-2].target == 2 * run:
        second = loops[-1].source
    width = 2 * loops[-2].size if second else loops[-1].size
    if rows is None or loops[-1].target != run or min(width, loops[rows].size) * run < VECTOR:
        if loops[-1].size < LONG_LINE:
            # Move a long loop inside the short ones, unless each of its elements is in another pair of cache lines.
            long = (loop for loop in reversed(loops) if loop.size >= LONG_LINE and _least_step(loop) < LINE)
            longest = next(long, loops[-1])
            loops.remove(longest)
            loops.append(longest)
        else:
            # Read lines that are adjacent in the source together.
            loops[:-1] = sorted(loops[:-1], key=lambda loop: abs(loop.source), reverse=True)
        return CopyForm(ITEMS, run, tuple(loops))
    is_long = run * prod(loop.size for loop in loops) >= PAST_CACHE
    if second:
        loops.pop()
    # Consecutive tiles then continue in the same source lines.
    loops.append(loops.pop(rows))
    return CopyForm(TRANSPOSED_PAST_CACHE if is_long else TRANSPOSED, run, tuple(loops), second)


def _least_step(loop: Loop) -> int:
    return min(abs(loop.source), abs(loop.target))


def encode(copies: Iterable[tuple[Copy, CopyForm]], item: int) -> tuple[array[int], int, int]:
    """Encodes copies that one kernel makes, of elements of ``item`` bytes.

    Returns:
        The records, the number of units, and the maximum number of elements that a unit visits.
    """
    row: list[int] = []
    units, elements = 0, 1
    for copy, form in copies:
        levels = (Loop(1, 0, 0),) * (INNER - len(form.loops)) + form.loops[-INNER:]
        tiles = _tiles(form, levels)
        outer = form.loops[:-INNER]
        counts = [-(-loop.size // tile) for loop, tile in zip(levels, tiles, strict=True)]
        first, units = units, units + prod(counts) * prod(loop.size for loop in outer)
        offsets = copy.source_offset * item, copy.target_offset * item
        record = [units, first, copy.source, copy.target, *offsets, form.kind, len(outer), *(copy.band or EVERYWHERE)]
        record.append(form.second)
        for loop, tile, count in zip(levels, tiles, counts, strict=True):
            record += [*loop, tile, count]
        record += [number for loop in outer for number in loop]
        row += record + [0] * (RECORD - len(record))
        elements = max(elements, _visits(form, tiles))
    return array("q", row), units, elements


def _tiles(form: CopyForm, levels: Sequence[Loop]) -> list[int]:
    """Returns the tile sizes of the loops of tiles."""
    if form.kind >= TRANSPOSED:
        tall, wide = (PART_ROW // form.item, PART_ROWS) if form.kind == TRANSPOSED_PAST_CACHE else (SIDE, SIDE)
        tall //= 2 if form.second else 1
        height, width = min(levels[1].size, tall), min(levels[2].size, wide)
        return [1, min(levels[1].size, wide // width * tall), min(levels[2].size, tall // height * wide)]
    left = TILE_BYTES if form.kind == RUNS else TILE_ITEMS
    found = []
    for loop in reversed(levels):
        found.append(min(loop.size, left))
        left = max(1, left // loop.size)
    return found[::-1]


def _visits(form: CopyForm, tiles: Sequence[int]) -> int:
    """Returns the cost of a unit, in visits of four-byte elements; a run has a fixed overhead of some visits."""
    count = prod(tiles) * (2 if form.second else 1)
    return UNIT + (count // 4 + 2 * count // tiles[-1] if form.kind == RUNS else count)


@inlined
def tile_of(tensors: int, geometry: int, unit: int) -> CopyTile:
    """Decodes what a unit copies; ``tensors`` is the address of the tensors' addresses."""
    unit -= at(geometry, FIRST)
    source = at(tensors, at(geometry, SOURCE)) + at(geometry, SOURCE_OFFSET)
    target = at(tensors, at(geometry, TARGET)) + at(geometry, TARGET_OFFSET)
    unit, column, inner_size = _part(geometry, LEVELS + 2 * LEVEL_SLOTS, unit)
    unit, row, middle = _part(geometry, LEVELS + LEVEL_SLOTS, unit)
    unit, first, outer = _part(geometry, LEVELS, unit)
    source += _bytes(geometry, SOURCE_STEP, first, row, column)
    target += _bytes(geometry, TARGET_STEP, first, row, column)
    for i in range(at(geometry, OUTER) - 1, -1, -1):
        slot = LOOPS + LOOP_SLOTS * i
        size = at(geometry, slot)
        rest = unit // size
        place = unit - rest * size
        source += place * at(geometry, slot + SOURCE_STEP)
        target += place * at(geometry, slot + TARGET_STEP)
        unit = rest
    return CopyTile(source, target, outer, middle, inner_size, column - row)


@inlined
def step_of(geometry: int, level: int, which: int) -> int:
    """Returns the ``SOURCE_STEP`` or ``TARGET_STEP`` of a loop of tiles, in bytes."""
    return at(geometry, LEVELS + level * LEVEL_SLOTS + which)


@inlined
def _bytes(geometry: int, which: int, first: int, row: int, column: int) -> int:
    """Returns the offset, in bytes, of an element from the first one in the loops of tiles."""
    return (
        first * step_of(geometry, 0, which) + row * step_of(geometry, 1, which) + column * step_of(geometry, 2, which)
    )


@inner
def _part(geometry: int, level: int, unit: int) -> tuple[int, int, int]:
    """Splits off the index along a loop of tiles; returns the rest of the unit, its start and its size in the loop."""
    tiles, size, tile = at(geometry, level + TILES), at(geometry, level + SIZE), at(geometry, level + TILE)
    if tiles == 1:
        return unit, 0, size
    rest = unit // tiles
    start = (unit - rest * tiles) * tile
    return rest, start, min(tile, size - start)
