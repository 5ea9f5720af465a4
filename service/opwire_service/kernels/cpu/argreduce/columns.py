"""Winners along an axis that is not the innermost: row by row in one tile of columns after the other.

Whole rows are read in memory order, while the best ranks of their columns, and labels of the rows these come from, stay
in the L1 cache. A label is as wide as a rank, which limits the rows of a segment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, bits_of, cast_to, choose, int64, integer_zero, load, read, size_of, store
from ..run.column_rows import Rows, stride_of, walk
from ..run.geometry import Tile, advance, run_from, tile_of
from .geometry import Search
from .rank_vectors import (
    label_all,
    label_of_greater,
    label_of_not_less,
    next_label,
    store_ranks,
    wide_lanes,
    wide_ranks,
)
from .ranks import NOTHING, element_of, greater, is_float, is_number, key_of, lowest_rank, rank_of
from .rows import put_winner

_ASIDE = 40
"""Padding, in int64, between parts of the scratch buffer that would otherwise compete for the same cache sets."""

LEAST_IN_REGISTER, MOST_IN_REGISTER = 8, 256
"""Minimum and maximum number of rows for which a column's best rank stays in a register."""

GROUP_BYTES = 1 << 14
"""Maximum size of such rows, in bytes: more would compete for the same sets of the L1 cache."""

ELEMENTS, FIRST, LAST = range(3)
"""What is searched for: only the best rank, or also the first or the last row that has it."""


class _Winners(NamedTuple):
    """The addresses of the columns' best ranks and of their labels, the bits to invert, and what is searched for."""

    best: int
    labels: int
    invert: int
    wanted: int


@inlined
def _raise_two(zero: int, rows: Rows, winners: _Winners, label: int, i: int, j: int, wanted: int) -> None:
    """Updates the winners of the vectors of columns from ``i`` and from ``j`` on; the first row has the given label."""
    address, invert, rank_zero = rows.address, winners.invert, lowest_rank(zero)
    label_zero = integer_zero(rank_zero)
    a, b = wide_ranks(winners.best, i, 0, rank_zero), wide_ranks(winners.best, j, 0, rank_zero)
    of_a, of_b = wide_ranks(winners.labels, i, 0, label_zero), wide_ranks(winners.labels, j, 0, label_zero)
    this = label_all(label, a)
    for _ in range(rows.height):
        c, d = wide_ranks(address, i, invert, zero), wide_ranks(address, j, invert, zero)
        if wanted == FIRST:
            of_a, of_b = label_of_greater(c, a, this, of_a), label_of_greater(d, b, this, of_b)
        elif wanted == LAST:
            of_a, of_b = label_of_not_less(c, a, this, of_a), label_of_not_less(d, b, this, of_b)
        a, b, this = greater(c, a), greater(d, b), next_label(this)
        address += rows.pitch
    store_ranks(winners.best, i, a)
    store_ranks(winners.best, j, b)
    if wanted != ELEMENTS:
        store_ranks(winners.labels, i, of_a)
        store_ranks(winners.labels, j, of_b)


@inlined
def _raise_vectors(zero: int, rows: Rows, winners: _Winners, label: int, wanted: int) -> None:
    """Updates the winners of at least a vector of contiguous columns; columns visited twice do not change again."""
    lanes = wide_lanes(zero)
    for i in range(0, rows.width, 2 * lanes):
        last = rows.width - lanes
        _raise_two(zero, rows, winners, label, min(i, last), min(i + lanes, last), wanted)


@inlined
def _raise_columns(zero: int, rows: Rows, winners: _Winners, label: int) -> None:
    """Updates the winners of columns one by one."""
    rank_zero, is_last = lowest_rank(zero), winners.wanted == LAST
    label_zero = integer_zero(rank_zero)
    for i in range(rows.width):
        best, row = load(winners.best, i, rank_zero), load(winners.labels, i, label_zero)
        for j in range(rows.height):
            rank = rank_of(read(rows.address + j * rows.pitch, i * stride_of(rows), zero), winners.invert)
            better = (rank > best) | (is_last & (rank == best))
            best, row = choose(better, rank, best), choose(better, cast_to(label + j, label_zero), row)
        store(winners.best, i, best)
        store(winners.labels, i, row)


@inner
def _take(zero: int, rows: Rows, winners: _Winners, label: int) -> int:
    """Updates the winners with a group of rows; returns the label of the next row."""
    if rows.step is not None or rows.width < wide_lanes(zero):
        _raise_columns(zero, rows, winners, label)
    elif winners.wanted == ELEMENTS:
        _raise_vectors(zero, rows, winners, label, ELEMENTS)
    elif winners.wanted == FIRST:
        _raise_vectors(zero, rows, winners, label, FIRST)
    else:
        _raise_vectors(zero, rows, winners, label, LAST)
    return label + rows.height


@inner
def _number(zero: int, column: int, geometry: Search, tile: Tile) -> int:
    """Returns the first (or last) row of a column that is not NaN; if all are, the first (or last) one."""
    step, is_last = geometry.step, geometry.last
    found, i = -1, tile.first
    while i < tile.last and (is_last or found < 0):
        address, size = run_from(geometry, column, i, tile.last, zero)
        for j in range(size):
            if is_number(rank_of(read(address, j * step, zero), 0), zero) and (is_last or found < 0):
                found = i + j
        i += size
    if found >= 0:
        return found
    return tile.last - 1 if is_last else tile.first


@kernel
def columns(zero: int, source: int, target: int, states: int, geometry: Search, begin: int, end: int) -> None:
    """Column kernel: a unit is a segment of a tile; for what segments leave, see ``rows.rows``."""
    group = min(MOST_IN_REGISTER, max(LEAST_IN_REGISTER, GROUP_BYTES // max(abs(geometry.step) * size_of(zero), 1)))
    invert, step, apart = geometry.invert, geometry.column_step, geometry.column_target
    rank_zero = lowest_rank(zero)
    label_zero = integer_zero(rank_zero)
    memory = np.empty(2 * (geometry.tile + _ASIDE), np.int64)
    best = address_of(memory)
    labels = best + 8 * (geometry.tile + _ASIDE)
    wanted = ELEMENTS
    if geometry.index_size:
        wanted = LAST if geometry.last else FIRST
    for unit in range(begin, end):
        tile = tile_of(source, geometry, unit, zero)
        for i in range(tile.width):
            store(best, i, rank_zero)
            store(labels, i, label_zero)
        walk(zero, geometry, tile, group, _take, _Winners(best, labels, invert, wanted), int64(0))
        output = tile.outer * geometry.columns + tile.start
        for i in range(tile.width):
            rank = load(best, i, rank_zero)
            key, element = key_of(rank), element_of(rank, invert, zero)
            row = tile.first + (int64(load(labels, i, label_zero)) & (1 << min(8 * size_of(label_zero), 32)) - 1)
            if is_float(zero) and rank == rank_zero:
                # The greatest rank of a column is the lowest one, or there is nothing besides NaN.
                column = advance(tile.base, i * step, zero)
                row = _number(zero, column, geometry, tile)
                element = read(run_from(geometry, column, row, row + 1, zero)[0], 0, zero)
                key = key if is_number(rank_of(element, 0), zero) else NOTHING
            won = row if wanted != ELEMENTS else bits_of(element)
            put_winner(zero, target, states, geometry, output + i, tile.segment, tile.offset + i * apart, key, won)
    memory[0] = 0  # keeps the buffer alive until here
