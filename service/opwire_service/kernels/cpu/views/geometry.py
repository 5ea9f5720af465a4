"""Encodes copies as an array of int64 slots, cut into units of work, and decodes what a unit copies."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

from ...layout import Loop
from ...views.view import Copy
from ..jit.compiler import inlined, inner
from ..jit.element import load
from ..jit.records import Record, packed, rows
from ..run.walk import split
from .moves import LINE, PART_ROW, PART_ROWS, VECTOR

INNER = 3
"""Loops of the tiles."""

MOST_LOOPS = 16
"""Loops of a copy that splits each dimension of a tensor in two."""


class CopyLoop(Record):
    """A loop, with steps in bytes."""

    size: int
    source: int
    target: int


class TiledCopyLoop(CopyLoop):
    """A loop that is cut into tiles."""

    tile: int
    tiles: int


class EncodedCopy(Record):
    """A copy, with offsets in bytes."""

    end: int  # units of this copy and those before it
    first: int  # units of the copies before it
    source: int  # number of the tensor
    target: int
    source_offset: int
    target_offset: int
    kind: int  # how its elements are moved
    outer: int  # number of loops outside the tiles
    begin: int  # first diagonal that is copied, and the last + 1
    last: int
    second: int  # distance of the second of each pair of source rows of a transposed copy; 0 if they form no pairs
    levels = rows(TiledCopyLoop, INNER)  # loops of the tiles, outermost first
    loops = rows(CopyLoop, MOST_LOOPS)


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
    encoded = []
    units, elements = 0, 1
    for copy, form in copies:
        levels = (Loop(1, 0, 0),) * (INNER - len(form.loops)) + form.loops[-INNER:]
        tiles = _tiles(form, levels)
        outer = form.loops[:-INNER]
        counts = [-(-loop.size // tile) for loop, tile in zip(levels, tiles, strict=True)]
        first, units = units, units + prod(counts) * prod(loop.size for loop in outer)
        begin, last = copy.band or EVERYWHERE
        record = EncodedCopy(
            end=units,
            first=first,
            source=copy.source,
            target=copy.target,
            source_offset=copy.source_offset * item,
            target_offset=copy.target_offset * item,
            kind=form.kind,
            outer=len(outer),
            begin=begin,
            last=last,
            second=form.second,
            levels=[(*each, *cut) for each, *cut in zip(levels, tiles, counts, strict=True)],
            loops=outer,
        )
        encoded.append(record)
        elements = max(elements, _visits(form, tiles))
    return packed(encoded), units, elements


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
def tile_of(tensors: int, copy: EncodedCopy, unit: int) -> CopyTile:
    """Decodes what a unit copies; ``tensors`` is the address of the tensors' addresses."""
    source = load(tensors, copy.source, 0) + copy.source_offset
    target = load(tensors, copy.target, 0) + copy.target_offset
    rest, column, inner_size = tile_part(copy.levels[2], unit - copy.first)
    rest, row, middle = tile_part(copy.levels[1], rest)
    rest, first, outer = tile_part(copy.levels[0], rest)
    source += first * copy.levels[0].source + row * copy.levels[1].source + column * copy.levels[2].source
    target += first * copy.levels[0].target + row * copy.levels[1].target + column * copy.levels[2].target
    for i in range(copy.outer - 1, -1, -1):
        rest, place = split(rest, copy.loops[i].size)
        source += place * copy.loops[i].source
        target += place * copy.loops[i].target
    return CopyTile(source, target, outer, middle, inner_size, column - row)


@inner
def tile_part(loop: Any, unit: int) -> tuple[int, int, int]:
    """Splits off the index along a tiled loop; returns the rest of the unit, its start and its size along the loop."""
    if loop.tiles == 1:
        return unit, 0, loop.size
    rest, number = split(unit, loop.tiles)
    start = number * loop.tile
    return rest, start, min(loop.tile, loop.size - start)
