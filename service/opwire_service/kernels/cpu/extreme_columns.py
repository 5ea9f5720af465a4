"""Where extremes are along an axis that is not the innermost: a tile of columns at a time, row after row."""

from __future__ import annotations

import numpy as np

from . import geometry as g
from .compiler import inlined, inner, kernel
from .element import cast_to, choose, int32, int64, integer_zero, load, read, size_of, store
from .geometry import advance, at, segment_of, tile_of
from .ranks import NOTHING, is_float, is_number, key_of, lowest_rank, rank_of

_ASIDE = 40
"""Numbers between parts of a kernel's memory that would else be in each other's way in the cache."""


_GROUP = 8
"""Rows that a column's best rank stays in a register for."""


@inner
def _name_rows(
    zero: int, address: int, row: int, step: int, width: int, best: int, names: int, invert: int, name: int, rows: int
) -> None:
    """Takes rows, named ``name`` and following, into the best ranks and their names."""
    rank_zero = lowest_rank(zero)
    named = integer_zero(rank_zero)
    for i in range(width):
        rank, found = load(best, i, rank_zero), load(names, i, named)
        for j in range(rows):
            here = rank_of(read(address + j * row, i * step, zero), invert)
            better = here > rank
            rank = choose(better, here, rank)
            found = choose(better, cast_to(name + j, named), found)
        store(best, i, rank)
        store(names, i, found)


@inner
def _name(zero: int, base: int, first: int, rows: int, width: int, best: int, names: int, geometry: int) -> None:
    """Names the best of ``rows`` rows in the order asked for: rows count from the end where the last wins."""
    run_size, count, invert = at(geometry, g.RUN), at(geometry, g.COUNT), at(geometry, g.INVERT)
    last, step = at(geometry, g.LAST), at(geometry, g.COLUMN_STEP)
    row = (-1 if last else 1) * at(geometry, g.STEP) * size_of(zero)
    i = 0
    while i < rows:
        index = count - 1 - first - i if last else first + i
        place = index % run_size
        left = min(place + 1 if last else run_size - place, rows - i)
        address = advance(base, g.reduced_source(geometry, index), zero)
        while left >= _GROUP:
            if step == 1:
                _name_rows(zero, address, row, 1, width, best, names, invert, i, _GROUP)
            else:
                _name_rows(zero, address, row, step, width, best, names, invert, i, _GROUP)
            address += row * _GROUP
            i += _GROUP
            left -= _GROUP
        while left > 0:
            if step == 1:
                _name_rows(zero, address, row, 1, width, best, names, invert, i, 1)
            else:
                _name_rows(zero, address, row, step, width, best, names, invert, i, 1)
            address += row
            i += 1
            left -= 1


@inner
def _begin(zero: int, width: int, best: int, names: int) -> None:
    rank = lowest_rank(zero)
    for i in range(width):
        store(best, i, rank)
        store(names, i, integer_zero(rank))


@inner
def _find(
    zero: int, base: int, begin: int, end: int, width: int, geometry: int, best: int, names: int, found: int
) -> None:
    """Leaves the greatest rank of each column of a tile, for its rows ``begin`` to ``end``, in ``best``, and the row
    that has it in ``found``.

    Rows are named in the width of a rank, so that one vector holds as many names as ranks; of narrow elements a block
    of rows has as many as there are names.
    """
    rank_zero = lowest_rank(zero)
    named = integer_zero(rank_zero)
    block = 1 << min(8 * size_of(named), 30)
    count, last = at(geometry, g.COUNT), at(geometry, g.LAST)
    if last:
        begin, end = count - end, count - begin
    overall = found + 8 * (width + _ASIDE)
    for first in range(begin, end, block):
        _begin(zero, width, best, names)
        _name(zero, base, first, min(block, end - first), width, best, names, geometry)
        for i in range(width):
            here, so_far = load(best, i, rank_zero), load(overall, i, rank_zero)
            index = first + (int64(load(names, i, named)) & (block - 1))
            better = (first == begin) | (here > so_far)
            store(overall, i, choose(better, here, so_far))
            store(found, i, choose(better, index, load(found, i, 0)))
    for i in range(width):
        store(best, i, load(overall, i, rank_zero))
        if last:
            store(found, i, count - 1 - load(found, i, 0))


@inner
def _first_number(zero: int, column: int, geometry: int, begin: int, end: int) -> int:
    """The first (last) row that is not NaN, or -1."""
    run_size, step, last = at(geometry, g.RUN), at(geometry, g.STEP), at(geometry, g.LAST)
    found, i = -1, begin
    while i < end and (last or found < 0):
        left = min(run_size - i % run_size, end - i)
        address = advance(column, g.reduced_source(geometry, i), zero)
        for j in range(left):
            rank = rank_of(read(address, j * step, zero), 0)
            if is_number(rank, zero) and (last or found < 0):
                found = i + j
        i += left
    return found


@inner
def _settle(zero: int, base: int, begin: int, end: int, width: int, geometry: int, best: int, found: int) -> None:
    """Tells best ranks of -inf from those of NaN alone, which become NaN, and finds their rows."""
    step, lowest = at(geometry, g.COLUMN_STEP), lowest_rank(zero)
    for i in range(width):
        if load(best, i, lowest) == lowest:
            column = advance(base, i * step, zero)
            element = rank_of(read(column, g.reduced_source(geometry, load(found, i, 0)), zero), 0)
            if not is_number(element, zero):
                number = _first_number(zero, column, geometry, begin, end)
                if number < 0:
                    store(best, i, element)
                else:
                    store(found, i, number)


@inlined
def _put_indices(target: int, offset: int, apart: int, found: int, width: int, size: int) -> None:
    if size == 8:
        for i in range(width):
            store(target, offset + i * apart, load(found, i, 0))
    else:
        for i in range(width):
            store(target, offset + i * apart, int32(load(found, i, 0)))


@kernel
def columns(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One tile of columns and one segment a unit; several segments leave (key, winner) of each column in ``states``."""
    segments, tile, step = at(geometry, g.SEGMENTS), at(geometry, g.TILE), at(geometry, g.COLUMN_STEP)
    all_columns, apart = at(geometry, g.COLUMNS), at(geometry, g.COLUMN_TARGET)
    size = at(geometry, g.INDEX_SIZE)
    rank_zero = lowest_rank(zero)
    scratch = np.empty(4 * tile + 3 * _ASIDE, np.int64)
    best = scratch.ctypes.data
    apart_by = 8 * (tile + _ASIDE)
    names, found = best + apart_by, best + 2 * apart_by
    for unit in range(begin, end):
        number, segment, first, last = segment_of(geometry, unit)
        outer, start, width = tile_of(geometry, number)
        base = advance(source, g.kept_source(geometry, outer) + start * step, zero)
        offset = g.kept_target(geometry, outer) + start * apart
        _find(zero, base, first, last, width, geometry, best, names, found)
        if is_float(zero):
            _settle(zero, base, first, last, width, geometry, best, found)
        for i in range(width if segments > 1 else 0):
            rank = load(best, i, rank_zero)
            place = 2 * ((outer * segments + segment) * all_columns + start + i)
            store(states, place, key_of(rank) if is_number(rank, zero) else NOTHING)
            store(states, place + 1, load(found, i, 0))
        if segments == 1 and apart == 1:
            _put_indices(target, offset, 1, found, width, size)
        elif segments == 1:
            _put_indices(target, offset, apart, found, width, size)
    scratch[0] = 0  # keeps the memory alive until here
