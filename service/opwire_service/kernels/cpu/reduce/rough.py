"""Sums for LOG_SUM of terms that are not negative: four terms are added up in FLOAT32 before float64 takes over.

Each term takes part in two additions that err by 2**-24, so the sum errs by at most ``ERROR`` times itself; what
float64 adds to that is far less than what is left. From ``enough_for_rough`` on the logarithm is within an ULP for all
that. Smaller sums, negative terms and sums that leave FLOAT32's range are for others.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import int32, prefetch, size_of
from ..jit.prefetch import rows_ahead
from ..numbers.formats import enough_for_rough
from ..numbers.vectors import (
    WIDTH,
    Vector,
    any_of,
    elements,
    load_vector,
    single_bits,
    singles,
    spread,
    store_vector,
    total_of,
    widened,
)
from ..run import geometry as g
from ..run.geometry import advance, at, run_from

ERROR = 2.0**-22.9

_MOST = 2.0**127
"""A sum of FLOAT32 that is no more has not overflowed on the way."""

_ROWS = 8
"""Rows that are added up in registers before their sum goes to the column's total."""

_AHEAD = 1024
"""Bytes from a run's terms to those that are asked for. Asking further ahead costs a tenth where memory is slow."""

Sums = tuple[Vector, Vector]
"""Sixteen sums, and bits of which the highest one is set if any term is negative."""


@inner
def _four(zero: float, address: int, row: int, sums: Sums) -> Sums:
    """Adds four vectors of terms that lie ``row`` bytes apart."""
    a, b = singles(elements(address, None, zero)), singles(elements(address + row, None, zero))
    c, d = singles(elements(address + 2 * row, None, zero)), singles(elements(address + 3 * row, None, zero))
    signs = (single_bits(a) | single_bits(b)) | (single_bits(c) | single_bits(d))
    return sums[0] + widened((a + b) + (c + d)), sums[1] | signs


@inner
def _one(zero: float, address: int, sums: Sums) -> Sums:
    x = singles(elements(address, None, zero))
    return sums[0] + widened(x), sums[1] | single_bits(x)


@inner
def add_rough_run(zero: float, address: int, vectors: int, signs: Vector) -> Sums:
    """The sums of whole vectors of neighbours; ``signs`` is what other terms have left."""
    row = advance(0, WIDTH, zero)
    sums = spread(-0.0), signs
    for _ in range(vectors // 4):
        for j in range(4):
            prefetch(address + j * row + _AHEAD)
        sums = _four(zero, address, row, sums)
        address += 4 * row
    for j in range(vectors % 4):
        sums = _one(zero, address + j * row, sums)
    return sums


@inner
def is_enough(zero: float, total: float) -> bool:
    return enough_for_rough(zero) < total < _MOST


@inner
def are_positive(signs: Vector) -> bool:
    return not any_of(signs < 0)


@inner
def rough_total(zero: float, address: int, vectors: int) -> tuple[bool, float]:
    """Whether the sum of whole vectors of neighbours is good enough, and that sum."""
    sums = add_rough_run(zero, address, vectors, spread(int32(0)))
    total = total_of(sums[0])
    return are_positive(sums[1]) and is_enough(zero, total), total


@inner
def _rows(zero: float, address: int, row: int, rows: int, width: int, totals: int, signs: Vector) -> Vector:
    """Adds a group of rows."""
    ahead = rows_ahead(row, _ROWS)
    for i in range(0, width, WIDTH):
        here = advance(address, i, zero)
        sums = load_vector(totals, i, 0.0), signs
        if rows == _ROWS:
            if ahead:
                for j in range(_ROWS):
                    prefetch(here + j * row + ahead)
            sums = _four(zero, here + 4 * row, row, _four(zero, here, row, sums))
        else:
            for j in range(rows):
                sums = _one(zero, here + j * row, sums)
        store_vector(totals, i, sums[0])
        signs = sums[1]
    return signs


@inner
def rough_columns(zero: float, base: int, geometry: int, begin: int, end: int, width: int, totals: int) -> bool:
    """Leaves the sums of terms ``begin`` to ``end`` of neighbouring columns; whether all of them are good enough."""
    row = at(geometry, g.STEP) * size_of(zero)
    if width % WIDTH or at(geometry, g.COLUMN_STEP) != 1:
        return False
    for i in range(0, width, WIDTH):
        store_vector(totals, i, spread(-0.0))
    signs, i = spread(int32(0)), begin
    while i < end:
        address, rows = run_from(geometry, base, i, end, zero)
        for first in range(0, rows, _ROWS):
            signs = _rows(zero, address + first * row, row, min(_ROWS, rows - first), width, totals, signs)
        i += rows
    every = spread(0.0) < 1.0
    enough = every
    for i in range(0, width, WIDTH):
        total = load_vector(totals, i, 0.0)
        enough = enough & (total > enough_for_rough(zero)) & (total < _MOST)
    return are_positive(signs) and not any_of(enough ^ every)
