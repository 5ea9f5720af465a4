"""Float sums with the error of every addition kept, for the sums that the plain bound does not decide.

What the additions cut off is added up apart (Ogita, Rump and Oishi, Sum2). If nothing was cut off the sum is exact;
that settles the ties between integers. Otherwise the error is at most UNIT times the number of additions times the sum
of the magnitudes cut off.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import load, size_of, store
from ..numbers.formats import values
from ..numbers.rounding import UNIT, two_sum
from ..numbers.vectors import WIDTH, Vector, absolutes, elements, load_vector, number, spread, store_vector
from ..run import geometry as g
from ..run.geometry import advance, at, run_from
from .plain import SLACK, merged
from .terms import KIND, SQUARES, term

Sum = tuple[Vector, Vector, Vector]
"""Eight sums: what they are, what was cut off, and its magnitude."""

ROWS = 64
"""Rows of columns that are added up in registers."""


@inner
def _add(sums: Sum, terms: Vector) -> Sum:
    total, rest = two_sum(sums[0], terms)
    return total, sums[1] + rest, sums[2] + absolutes(rest)


@inner
def _vectors(zero: float, address: int, row: int, rows: int, step: int | None, mask: int, kind: int, sums: Sum) -> Sum:
    """Adds ``rows`` vectors that lie ``row`` bytes apart."""
    for i in range(rows):
        terms = values(elements(address + i * row, step, zero) & mask)
        sums = _add(sums, terms * terms if kind == SQUARES else terms)
    return sums


@inner
def compensated_sum(zero: float, base: int, geometry: int, begin: int, end: int) -> tuple[float, float, float]:
    """High and low part of the sum of terms ``begin`` to ``end``, and a bound on its error, 0 if it is exact."""
    step, mask, kind = at(geometry, g.STEP), at(geometry, g.MASK), at(geometry, KIND)
    sums = spread(-0.0), spread(0.0), spread(0.0)
    high, low, cut_off = -0.0, 0.0, 0.0
    additions = 0
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        vectors = size // WIDTH
        row = advance(0, WIDTH * step, zero)
        if step == 1:
            sums = _vectors(zero, address, row, vectors, None, mask, kind, sums)
        else:
            sums = _vectors(zero, address, row, vectors, step, mask, kind, sums)
        for j in range(vectors * WIDTH, size):
            high, rest = two_sum(high, term(zero, address, j * step, mask, kind))
            low += rest
            cut_off += abs(rest)
        additions += vectors + WIDTH
        i += size
    for j in range(WIDTH):
        high, rest = two_sum(high, number(sums[0], j))
        low += rest + number(sums[1], j)
        cut_off += abs(rest) + number(sums[2], j)
    return merged(high, low, SLACK * UNIT * additions * cut_off, cut_off, 2 * WIDTH, False)


@inner
def _column_vectors(
    zero: float,
    address: int,
    row: int,
    rows: int,
    whole: int,
    mask: int,
    kind: int,
    states: int,
    width: int,
) -> None:
    across = size_of(zero)
    for first in range(0, rows, ROWS):
        here, size = address + first * row, min(ROWS, rows - first)
        for i in range(0, whole, WIDTH):
            sums = (
                load_vector(states, i, 0.0),
                load_vector(states, width + i, 0.0),
                load_vector(states, 2 * width + i, 0.0),
            )
            sums = _vectors(zero, here + i * across, row, size, None, mask, kind, sums)
            store_vector(states, i, sums[0])
            store_vector(states, width + i, sums[1])
            store_vector(states, 2 * width + i, sums[2])


@inner
def _column(
    zero: float, address: int, row: int, rows: int, mask: int, kind: int, states: int, width: int, i: int
) -> None:
    total, low, cut_off = load(states, i, 0.0), load(states, width + i, 0.0), load(states, 2 * width + i, 0.0)
    for j in range(rows):
        total, rest = two_sum(total, term(zero, address + j * row, 0, mask, kind))
        low += rest
        cut_off += abs(rest)
    store(states, i, total)
    store(states, width + i, low)
    store(states, 2 * width + i, cut_off)


@inner
def compensated_columns(
    zero: float, base: int, geometry: int, begin: int, end: int, columns: int, states: int, width: int
) -> None:
    """Like ``compensated_sum``, of neighbouring columns; their high and low parts and bounds lie ``width`` apart."""
    row = at(geometry, g.STEP) * size_of(zero)
    stride, mask, kind = at(geometry, g.COLUMN_STEP), at(geometry, g.MASK), at(geometry, KIND)
    whole = columns // WIDTH * WIDTH if stride == 1 else 0
    for i in range(columns):
        store(states, i, -0.0)
        store(states, width + i, 0.0)
        store(states, 2 * width + i, 0.0)
    i = begin
    while i < end:
        address, rows = run_from(geometry, base, i, end, zero)
        _column_vectors(zero, address, row, rows, whole, mask, kind, states, width)
        for j in range(whole, columns):
            _column(zero, advance(address, j * stride, zero), row, rows, mask, kind, states, width, j)
        i += rows
    for i in range(columns):
        cut_off = load(states, 2 * width + i, 0.0)
        error = SLACK * UNIT * (end - begin) * cut_off
        high, low, error = merged(load(states, i, 0.0), load(states, width + i, 0.0), error, cut_off, 1, False)
        store(states, i, high)
        store(states, width + i, low)
        store(states, 2 * width + i, error)
