"""MIN and MAX along an axis that is not the innermost: rows of a wide tile, one group after the other.

Whole rows are read in memory order, while the best ranks of their columns stay in the L1 cache. Each segment of rows
leaves one element per column, which the same kernel then reduces to the result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.compiler import inner, kernel
from ..jit.element import address_of, integer_zero, load, of_bits, read, size_of, store
from ..run import geometry as g
from ..run.column_rows import Rows, stride_of, walk
from ..run.geometry import Tile, advance, at, tile_of
from . import parameters as p
from .extreme_rows import first_of
from .half_ranks import raise_two
from .rank_vectors import store_ranks, wide_lanes, wide_ranks
from .ranks import element_of, greater, is_float, is_half, lowest_rank, rank_of

FEW, MANY = 4, 256
"""Minimum and maximum number of rows for which a column's best rank stays in a register."""

GROUP_BYTES = 1 << 14
"""Maximum size of such rows, in bytes: more would compete for the same sets of the L1 cache."""


@inner
def _rows_at_once(row: int) -> int:
    """Returns for how many rows of a given pitch a column's best rank stays in a register."""
    return min(MANY, max(FEW, GROUP_BYTES // max(abs(row), 1)))


@inner
def _raise_neighbors(zero: int, rows: Rows, best: int, invert: int) -> None:
    """Updates the best ranks with rows of contiguous columns."""
    rank_zero, lanes = lowest_rank(zero), wide_lanes(zero)
    address, row, height, width = rows.address, rows.pitch, rows.height, rows.width
    i = 0
    while i + 2 * lanes <= width and raise_two(zero, address, row, height, i, invert, best):
        i += 2 * lanes
    while i + 4 * lanes <= width:
        a, b = wide_ranks(best, i, 0, rank_zero), wide_ranks(best, i + lanes, 0, rank_zero)
        c, d = wide_ranks(best, i + 2 * lanes, 0, rank_zero), wide_ranks(best, i + 3 * lanes, 0, rank_zero)
        here = address
        for _ in range(height):
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
        for _ in range(height):
            a = greater(wide_ranks(here, i, invert, zero), a)
            b = greater(wide_ranks(here, i + lanes, invert, zero), b)
            here += row
        store_ranks(best, i, a)
        store_ranks(best, i + lanes, b)
        i += 2 * lanes
    while i + lanes <= width:
        a = wide_ranks(best, i, 0, rank_zero)
        for j in range(height):
            a = greater(wide_ranks(address + j * row, i, invert, zero), a)
        store_ranks(best, i, a)
        i += lanes
    _raise_columns(zero, rows, i, best, invert)


@inner
def _raise_columns(zero: int, rows: Rows, first: int, best: int, invert: int) -> None:
    """Updates the best ranks with rows of the columns from ``first`` on."""
    rank_zero = lowest_rank(zero)
    for i in range(first, rows.width):
        rank = load(best, i, rank_zero)
        for j in range(rows.height):
            rank = greater(rank_of(read(rows.address + j * rows.pitch, i * stride_of(rows), zero), invert), rank)
        store(best, i, rank)


class _BestRanks(NamedTuple):
    """The address of the best ranks, and the bits of elements to invert."""

    best: int
    invert: int


@inner
def _take(zero: int, rows: Rows, memory: _BestRanks, state: int) -> int:
    if rows.step is None:
        _raise_neighbors(zero, rows, memory.best, memory.invert)
    else:
        _raise_columns(zero, rows, 0, memory.best, memory.invert)
    return state


@inner
def _raise(zero: int, geometry: int, tile: Tile, best: int) -> None:
    """Stores the greatest rank of each column of a tile in ``best``."""
    group = _rows_at_once(at(geometry, g.STEP) * size_of(zero))
    for i in range(tile.width):
        store(best, i, lowest_rank(zero))
    walk(zero, geometry, tile, group, _take, _BestRanks(best, at(geometry, p.INVERT)), 0)


class _Output(NamedTuple):
    """Destination of the columns' elements: address, and offset and stride in elements."""

    address: int
    offset: int
    apart: int


@inner
def _write(zero: int, best: int, width: int, invert: int, output: _Output) -> None:
    rank_zero = lowest_rank(zero)
    address, offset, apart = output
    if apart == 1:
        for i in range(width):
            store(address, offset + i, element_of(load(best, i, rank_zero), invert, zero))
    else:
        for i in range(width):
            store(address, offset + i * apart, element_of(load(best, i, rank_zero), invert, zero))


@inner
def _first_with(zero: int, column: int, geometry: int, begin: int, end: int, rank: int) -> int:
    """Returns the first element of a column that has a given rank, else the column's first element."""
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
def _has_negative_zero(zero: int, geometry: int, tile: Tile) -> bool:
    """Whether any row of a tile contains a negative zero."""
    step, bits = at(geometry, g.COLUMN_STEP), integer_zero(zero)
    negative = lowest_rank(bits)
    for i in range(tile.first, tile.last):
        row = advance(tile.base, g.reduced_source(geometry, i), zero)
        if first_of(bits, row, tile.width, step, 0, negative) >= 0:
            return True
    return False


@inner
def _settle(zero: int, geometry: int, tile: Tile, best: int, output: _Output) -> None:
    """Writes the elements that ranks do not determine: -inf ranks as high as NaN, and FLOAT16 zeros have no sign."""
    lowest, nought = lowest_rank(zero), rank_of(of_bits(0, zero), 0)
    zeros = False
    for i in range(tile.width):
        rank = load(best, i, lowest)
        zeros |= rank == nought
        if not rank > lowest:
            _write_first_with(zero, geometry, tile, i, rank, output)
    if is_half(zero) and zeros and _has_negative_zero(zero, geometry, tile):
        for i in range(tile.width):
            if load(best, i, lowest) == nought:
                _write_first_with(zero, geometry, tile, i, nought, output)


@inner
def _write_first_with(zero: int, geometry: int, tile: Tile, column: int, rank: int, output: _Output) -> None:
    """Writes the first element of a column that has a given rank."""
    address = advance(tile.base, column * at(geometry, g.COLUMN_STEP), zero)
    element = _first_with(zero, address, geometry, tile.first, tile.last, rank)
    store(output.address, output.offset + column * output.apart, element)


@kernel
def columns(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Column kernel: a unit is a segment of a tile. Several segments store rows of elements in ``states``."""
    segments, invert = at(geometry, g.SEGMENTS), at(geometry, p.INVERT)
    memory = np.empty(at(geometry, g.TILE), np.int64)
    best = address_of(memory)
    for unit in range(begin, end):
        tile = tile_of(source, geometry, unit, zero)
        _raise(zero, geometry, tile, best)
        output = _Output(target, tile.offset, at(geometry, g.COLUMN_TARGET))
        if segments > 1:
            row = (tile.outer * segments + tile.segment) * at(geometry, g.COLUMNS)
            output = _Output(states, row + tile.start, 1)
        _write(zero, best, tile.width, invert, output)
        if is_float(zero):
            _settle(zero, geometry, tile, best, output)
    memory[0] = 0  # keeps the buffer alive until here
