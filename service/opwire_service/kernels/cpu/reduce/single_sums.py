"""Sums of nonnegative terms for LOG_SUM: four terms are added up in FLOAT32 before they are added in float64.

Each term takes part in two additions with an error of 2**-24, so the relative error of the sum is at most ``ERROR``;
float64's own errors are well within the remaining margin. From ``enough_for_single_sums`` on, the logarithm is still
within an ULP. Smaller sums, negative terms and sums outside FLOAT32's range are left to other methods.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import int32, prefetch
from ..jit.prefetch import rows_ahead
from ..numbers.formats import enough_for_single_sums
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
from ..run.column_rows import Rows, column_address, walk_neighbors
from ..run.geometry import Tile, advance, at
from .column_groups import GROUP

ERROR = 2.0**-22.9
"""Relative error bound of a sum."""

_MOST = 2.0**127
"""A sum not above this has not overflowed in FLOAT32 on the way."""

_AHEAD = 1024
"""Prefetch distance within a run, in bytes. A larger one costs a tenth where memory is slow."""

Sums = tuple[Vector, Vector]
"""A vector of sums, and bits whose sign bit is set if any term is negative."""


@inner
def _four(zero: float, address: int, row: int, sums: Sums) -> Sums:
    """Adds four vectors of terms that are ``row`` bytes apart."""
    a, b = singles(elements(address, None, zero)), singles(elements(address + row, None, zero))
    c, d = singles(elements(address + 2 * row, None, zero)), singles(elements(address + 3 * row, None, zero))
    signs = (single_bits(a) | single_bits(b)) | (single_bits(c) | single_bits(d))
    return sums[0] + widened((a + b) + (c + d)), sums[1] | signs


@inner
def _one(zero: float, address: int, sums: Sums) -> Sums:
    x = singles(elements(address, None, zero))
    return sums[0] + widened(x), sums[1] | single_bits(x)


@inner
def add_single_run(zero: float, address: int, vectors: int, signs: Vector) -> Sums:
    """Returns the sums of whole contiguous vectors; ``signs`` holds the sign bits so far."""
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
def is_accurate(zero: float, total: float) -> bool:
    return enough_for_single_sums(zero) < total < _MOST


@inner
def are_positive(signs: Vector) -> bool:
    return not any_of(signs < 0)


@inner
def single_total(zero: float, address: int, vectors: int) -> tuple[bool, float]:
    """Returns whether the sum of whole contiguous vectors is accurate enough, and the sum."""
    sums = add_single_run(zero, address, vectors, spread(int32(0)))
    total = total_of(sums[0])
    return are_positive(sums[1]) and is_accurate(zero, total), total


@inner
def _take(zero: float, rows: Rows, totals: int, signs: Vector) -> Vector:
    """Adds a group of rows."""
    row, ahead = rows.pitch, rows_ahead(rows.pitch, GROUP)
    for i in range(0, rows.width, WIDTH):
        here = column_address(zero, rows, i)
        sums = load_vector(totals, i, 0.0), signs
        if rows.height == GROUP:
            if ahead:
                for j in range(GROUP):
                    prefetch(here + j * row + ahead)
            sums = _four(zero, here + 4 * row, row, _four(zero, here, row, sums))
        else:
            for j in range(rows.height):
                sums = _one(zero, here + j * row, sums)
        store_vector(totals, i, sums[0])
        signs = sums[1]
    return signs


@inner
def single_sum_columns(zero: float, geometry: int, tile: Tile, totals: int) -> bool:
    """Computes the sums of columns; returns whether all of them are accurate enough."""
    width = tile.width
    if width % WIDTH or at(geometry, g.COLUMN_STEP) != 1:
        return False
    for i in range(0, width, WIDTH):
        store_vector(totals, i, spread(-0.0))
    signs = walk_neighbors(zero, geometry, tile, GROUP, _take, totals, spread(int32(0)))
    every = spread(0.0) < 1.0
    enough = every
    for i in range(0, width, WIDTH):
        total = load_vector(totals, i, 0.0)
        enough = enough & (total > enough_for_single_sums(zero)) & (total < _MOST)
    return are_positive(signs) and not any_of(enough ^ every)
