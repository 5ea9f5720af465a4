"""MIN and MAX along an axis that is not the innermost: rows of a wide tile, one group after the other.

Whole rows are read in the order of memory, while the best ranks of their columns stay in the nearest cache. A segment
of rows leaves one element for each column; of those the same kernel makes the result.
"""

from __future__ import annotations

import numpy as np

from ..jit.compiler import inner, kernel
from ..jit.element import integer_zero, load, of_bits, read, size_of, store
from ..run import geometry as g
from ..run.geometry import advance, at, tile_of
from . import parameters as p
from .extreme_rows import first_of
from .half_ranks import raise_two
from .rank_vectors import store_ranks, wide_lanes, wide_ranks
from .ranks import element_of, greater, is_float, is_half, lowest_rank, rank_of

FEW, MANY = 4, 256
"""The least and the most rows that a column's best rank stays in a register for."""

GROUP_BYTES = 1 << 14
"""Rows of more bytes would be in each other's way in the nearest cache."""


@inner
def rows_at_once(row: int) -> int:
    """For how many rows, so many bytes apart, a column's best rank stays in a register."""
    return min(MANY, max(FEW, GROUP_BYTES // max(abs(row), 1)))


@inner
def _raise_neighbours(zero: int, address: int, row: int, width: int, best: int, invert: int, rows: int) -> None:
    """Takes rows of columns without gaps into the best ranks."""
    rank_zero, lanes = lowest_rank(zero), wide_lanes(zero)
    i = 0
    while i + 2 * lanes <= width and raise_two(zero, address, row, rows, i, invert, best):
        i += 2 * lanes
    while i + 4 * lanes <= width:
        a, b = wide_ranks(best, i, 0, rank_zero), wide_ranks(best, i + lanes, 0, rank_zero)
        c, d = wide_ranks(best, i + 2 * lanes, 0, rank_zero), wide_ranks(best, i + 3 * lanes, 0, rank_zero)
        here = address
        for _ in range(rows):
            a = greater(wide_ranks(here, i, invert, zero), a)
            b = greater(wide_ranks(here, i + lanes, invert, zero), b)
            c = greater(wide_ranks(here, i + 2 * lanes, invert, zero), c)
            d = greater(wide_ranks(here, i + 3 * lanes, invert, zero), d)
            here += row
        store_ranks(best, i, a)
        store_ranks(best, i + lanes, b)
        store_ranks(best, i + 2 * lanes, c)
        store_ranks(best, i + 3 * lanes, d)
        i += 4 * lanes
    while i + 2 * lanes <= width:
        a, b = wide_ranks(best, i, 0, rank_zero), wide_ranks(best, i + lanes, 0, rank_zero)
        here = address
        for _ in range(rows):
            a = greater(wide_ranks(here, i, invert, zero), a)
            b = greater(wide_ranks(here, i + lanes, invert, zero), b)
            here += row
        store_ranks(best, i, a)
        store_ranks(best, i + lanes, b)
        i += 2 * lanes
    while i + lanes <= width:
        a = wide_ranks(best, i, 0, rank_zero)
        for j in range(rows):
            a = greater(wide_ranks(address + j * row, i, invert, zero), a)
        store_ranks(best, i, a)
        i += lanes
    _raise_columns(zero, address, row, 1, i, width, best, invert, rows)


@inner
def _raise_columns(
    zero: int, address: int, row: int, step: int, first: int, width: int, best: int, invert: int, rows: int
) -> None:
    """Takes rows of columns from ``first`` on into the best ranks."""
    rank_zero = lowest_rank(zero)
    for i in range(first, width):
        rank = load(best, i, rank_zero)
        for j in range(rows):
            rank = greater(rank_of(read(address + j * row, i * step, zero), invert), rank)
        store(best, i, rank)


@inner
def _raise(zero: int, base: int, begin: int, end: int, width: int, geometry: int, best: int) -> None:
    """Leaves the greatest rank of each column of a tile, for its rows ``begin`` to ``end``, in ``best``."""
    run_size, invert = at(geometry, g.RUN), at(geometry, p.INVERT)
    step, row = at(geometry, g.COLUMN_STEP), at(geometry, g.STEP) * size_of(zero)
    group = rows_at_once(row)
    i = begin
    while i < end:
        address = advance(base, g.reduced_source(geometry, i), zero)
        rows = min(run_size - i % run_size, end - i, group)
        if step == 1:
            _raise_neighbours(zero, address, row, width, best, invert, rows)
        else:
            _raise_columns(zero, address, row, step, 0, width, best, invert, rows)
        i += rows


@inner
def _write(zero: int, best: int, width: int, invert: int, target: int, offset: int, apart: int) -> None:
    rank_zero = lowest_rank(zero)
    for i in range(width):
        store(target, offset + i * apart, element_of(load(best, i, rank_zero), invert, zero))


@inner
def _first_with(zero: int, column: int, geometry: int, begin: int, end: int, rank: int) -> int:
    """The first element of a column that has a rank, else its first one."""
    run_size, step, invert = at(geometry, g.RUN), at(geometry, g.STEP), at(geometry, p.INVERT)
    i = begin
    while i < end:
        left = min(run_size - i % run_size, end - i)
        address = advance(column, g.reduced_source(geometry, i), zero)
        for j in range(left):
            element = read(address, j * step, zero)
            if rank_of(element, invert) == rank:
                return element
        i += left
    return read(column, g.reduced_source(geometry, begin), zero)


@inner
def _has_negative_zero(zero: int, base: int, begin: int, end: int, width: int, geometry: int) -> bool:
    """Whether any row of a tile has one."""
    step, bits = at(geometry, g.COLUMN_STEP), integer_zero(zero)
    negative = lowest_rank(bits)
    for i in range(begin, end):
        row = advance(base, g.reduced_source(geometry, i), zero)
        if first_of(bits, row, width, step, 0, negative) >= 0:
            return True
    return False


@inner
def _settle(
    zero: int,
    base: int,
    begin: int,
    end: int,
    width: int,
    geometry: int,
    best: int,
    target: int,
    offset: int,
    apart: int,
) -> None:
    """Writes the elements that ranks do not tell: NaN has none above that of -inf, a FLOAT16 that is zero no sign."""
    step, lowest, nought = at(geometry, g.COLUMN_STEP), lowest_rank(zero), rank_of(of_bits(0, zero), 0)
    zeros = False
    for i in range(width):
        rank = load(best, i, lowest)
        zeros |= rank == nought
        if not rank > lowest:
            element = _first_with(zero, advance(base, i * step, zero), geometry, begin, end, rank)
            store(target, offset + i * apart, element)
    if is_half(zero) and zeros and _has_negative_zero(zero, base, begin, end, width, geometry):
        for i in range(width):
            if load(best, i, lowest) == nought:
                element = _first_with(zero, advance(base, i * step, zero), geometry, begin, end, nought)
                store(target, offset + i * apart, element)


@kernel
def columns(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One tile of columns and one segment a unit; several segments leave their elements, row by row, in ``states``."""
    segments, all_columns = at(geometry, g.SEGMENTS), at(geometry, g.COLUMNS)
    invert, lowest = at(geometry, p.INVERT), lowest_rank(zero)
    memory = np.empty(at(geometry, g.TILE), np.int64)
    best = memory.ctypes.data
    for unit in range(begin, end):
        tile = tile_of(source, geometry, unit, zero)
        base, first, last, width = tile.base, tile.first, tile.last, tile.width
        for i in range(width):
            store(best, i, lowest)
        _raise(zero, base, first, last, width, geometry, best)
        put, offset, apart = target, tile.offset, at(geometry, g.COLUMN_TARGET)
        if segments > 1:
            put, offset, apart = states, (tile.outer * segments + tile.segment) * all_columns + tile.start, 1
        if apart == 1:
            _write(zero, best, width, invert, put, offset, 1)
        else:
            _write(zero, best, width, invert, put, offset, apart)
        if is_float(zero):
            _settle(zero, base, first, last, width, geometry, best, put, offset, apart)
    memory[0] = 0  # keeps the memory alive until here
