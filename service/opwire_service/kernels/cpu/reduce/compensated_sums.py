"""Compensated float sums, for those that the error bound of a plain sum does not decide.

The rounding errors of the additions are added up separately (Sum2 of Ogita, Rump and Oishi). If no addition rounded,
the sum is exact, which settles ties between integers. Otherwise the error is at most UNIT times the number of additions
times the sum of the errors' magnitudes.
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit.compiler import inner
from ..jit.element import load, store
from ..numbers.formats import values
from ..numbers.rounding import UNIT, two_sum
from ..numbers.vectors import WIDTH, Vector, absolutes, elements, load_vector, number, spread, store_vector
from ..run import geometry as g
from ..run.column_rows import Rows, column_address, walk
from ..run.geometry import Tile, advance, at, run_from
from .column_groups import in_vectors
from .parameters import SQUARES
from .plain_sums import SLACK, merged
from .sum_terms import Terms, term, terms_of

Sum = tuple[Vector, Vector, Vector]
"""A vector of sums: totals, accumulated rounding errors, and the accumulated magnitudes of those errors."""

ROWS = 64
"""Rows of columns added up in registers."""


@inner
def _add(sums: Sum, terms: Vector) -> Sum:
    total, rest = two_sum(sums[0], terms)
    return total, sums[1] + rest, sums[2] + absolutes(rest)


@inner
def _vectors(zero: float, address: int, row: int, rows: int, step: int | None, terms: Terms, sums: Sum) -> Sum:
    """Adds ``rows`` vectors that are ``row`` bytes apart."""
    for i in range(rows):
        x = values(elements(address + i * row, step, zero) & terms.mask)
        sums = _add(sums, x * x if terms.kind == SQUARES else x)
    return sums


@inner
def compensated_sum(zero: float, base: int, geometry: int, begin: int, end: int) -> tuple[float, float, float]:
    """Returns high and low part of the sum of terms ``begin`` to ``end``, and an error bound, 0 if it is exact."""
    step, terms = at(geometry, g.STEP), terms_of(geometry)
    sums = spread(-0.0), spread(0.0), spread(0.0)
    high, low, cut_off = -0.0, 0.0, 0.0
    additions = 0
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        vectors = size // WIDTH
        row = advance(0, WIDTH * step, zero)
        if step == 1:
            sums = _vectors(zero, address, row, vectors, None, terms, sums)
        else:
            sums = _vectors(zero, address, row, vectors, step, terms, sums)
        for j in range(vectors * WIDTH, size):
            high, rest = two_sum(high, term(zero, address, j * step, terms))
            low += rest
            cut_off += abs(rest)
        additions += vectors + WIDTH
        i += size
    for j in range(WIDTH):
        high, rest = two_sum(high, number(sums[0], j))
        low += rest + number(sums[1], j)
        cut_off += abs(rest) + number(sums[2], j)
    return merged(high, low, SLACK * UNIT * additions * cut_off, cut_off, 2 * WIDTH, False)


class _CompensatedState(NamedTuple):
    """The terms to add, and the address of the columns' sums, whose three parts are ``distance`` apart."""

    terms: Terms
    states: int
    distance: int


@inner
def _add_vectors(zero: float, rows: Rows, memory: _CompensatedState) -> None:
    """Adds rows to whole vectors of columns."""
    states, distance = memory.states, memory.distance
    for i in range(0, in_vectors(rows), WIDTH):
        sums = (
            load_vector(states, i, 0.0),
            load_vector(states, distance + i, 0.0),
            load_vector(states, 2 * distance + i, 0.0),
        )
        sums = _vectors(zero, column_address(zero, rows, i), rows.pitch, rows.height, None, memory.terms, sums)
        store_vector(states, i, sums[0])
        store_vector(states, distance + i, sums[1])
        store_vector(states, 2 * distance + i, sums[2])


@inner
def _add_column(zero: float, rows: Rows, column: int, memory: _CompensatedState) -> None:
    address, state, distance = column_address(zero, rows, column), memory.states + 8 * column, memory.distance
    total, low, cut_off = load(state, 0, 0.0), load(state, distance, 0.0), load(state, 2 * distance, 0.0)
    for j in range(rows.height):
        total, rest = two_sum(total, term(zero, address + j * rows.pitch, 0, memory.terms))
        low += rest
        cut_off += abs(rest)
    store(state, 0, total)
    store(state, distance, low)
    store(state, 2 * distance, cut_off)


@inner
def _take(zero: float, rows: Rows, memory: _CompensatedState, state: int) -> int:
    """Adds rows to columns. Strided columns are added one by one; gathering vectors would not pay off."""
    vectors = in_vectors(rows) if rows.step is None else 0
    if vectors:
        _add_vectors(zero, rows, memory)
    for i in range(vectors, rows.width):
        _add_column(zero, rows, i, memory)
    return state


@inner
def compensated_columns(zero: float, geometry: int, tile: Tile, states: int, distance: int) -> None:
    """Like ``compensated_sum``, for columns; stores high parts, low parts and error bounds ``distance`` apart."""
    for i in range(tile.width):
        store(states, i, -0.0)
        store(states, distance + i, 0.0)
        store(states, 2 * distance + i, 0.0)
    walk(zero, geometry, tile, ROWS, _take, _CompensatedState(terms_of(geometry), states, distance), 0)
    for i in range(tile.width):
        cut_off = load(states, 2 * distance + i, 0.0)
        error = SLACK * UNIT * (tile.last - tile.first) * cut_off
        high, low, error = merged(load(states, i, 0.0), load(states, distance + i, 0.0), error, cut_off, 1, False)
        store(states, i, high)
        store(states, distance + i, low)
        store(states, 2 * distance + i, error)
