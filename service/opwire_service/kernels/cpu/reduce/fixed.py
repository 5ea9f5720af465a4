"""Sums of FLOAT16 without error in numbers of 32 bits: what they leave modulo 2**32, and about how much they are.

In units of 2**-24 a term is an integer, below 2**31 if it is below ``LIMIT``. Sums of such integers modulo 2**32 have
no error. Of the numbers that leave the same remainder, 256 apart, the sum is the one next to a sum in FLOAT32 if that
errs by less than 128. For terms that take part in ``depth`` additions it errs by at most ``depth * 2**-24 * terms *
LIMIT`` to first order, so ``MOST`` bounds ``depth * terms``.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import float32, int32, load, prefetch, size_of, store
from ..jit.prefetch import AHEAD, rows_ahead
from ..numbers.vectors import (
    WIDTH,
    Vector,
    bits_singles,
    elements,
    fused_vectors,
    greatest_of,
    ints_to_doubles,
    load_vector,
    pick,
    single_bits,
    singles,
    spread,
    store_vector,
    total_of,
    truncated,
    widened,
)
from ..run import geometry as g
from ..run.geometry import advance, at, run_from
from .terms import MAGNITUDE, SIGNED, SQUARES, term

LIMIT = 0x43000000
"""The bits of 128 as a FLOAT32."""

MOST = 15 << 20

GROUP = 8
"""Rows that are added up in registers before their sums go to those of the columns."""

_UNITS = float32(2.0**24)
_TO_INTEGER = 1.5 * 2.0**52
"""What is added to it, and taken away again, is rounded to an integer."""

Sums = tuple[Vector, Vector, Vector]
"""Sixteen sums: remainders, FLOAT32, and the greatest magnitude among the terms."""


@inner
def are_fixed(zero: float, kind: int) -> bool:
    """Whether terms are FLOAT16, which is known when a kernel is compiled, or their magnitudes."""
    return size_of(zero) == 2 and kind != SQUARES


@inner
def _add(zero: float, address: int, mask: int, kind: int, sums: Sums) -> Sums:
    """Adds sixteen terms.

    The mask comes after the conversion, which takes half as long if elements go from memory right into it.
    """
    bits = single_bits(singles(elements(address, None, zero)))
    if kind == MAGNITUDE:
        # The mask for the bits of what was a FLOAT16.
        bits = bits & int32(mask << 16 | 0xFFFF)
    value, magnitude = bits_singles(bits), bits & 0x7FFFFFFF
    greatest = pick(magnitude > sums[2], magnitude, sums[2])
    return sums[0] + truncated(value * _UNITS), fused_vectors(value, _UNITS, sums[1]), greatest


@inner
def exact_sums(remainders: Vector, about: Vector) -> Vector:
    """The sums as float64. A sum in FLOAT32 is -0 if all terms are."""
    near, remainder = widened(about), ints_to_doubles(remainders)
    times = ((near - remainder) * 2.0**-32 + _TO_INTEGER) - _TO_INTEGER
    exact = (remainder + times * 2.0**32) * 2.0**-24
    return pick((exact < 0.0) | (exact > 0.0) | (near < 0.0) | (near > 0.0), exact, near)


@inner
def _add_run(zero: float, address: int, vectors: int, row: int, mask: int, kind: int, greatest: Vector) -> Sums:
    sums = spread(int32(0)), spread(float32(-0.0)), greatest
    for _ in range(vectors):
        prefetch(address + AHEAD)
        sums = _add(zero, address, mask, kind, sums)
        address += row
    return sums


@inner
def add_fixed_run(zero: float, address: int, vectors: int, row: int, mask: int, kind: int, greatest: Vector) -> Sums:
    """The sums of whole vectors of neighbours; ``greatest`` is what other terms have left."""
    if kind == MAGNITUDE:
        return _add_run(zero, address, vectors, row, mask, MAGNITUDE, greatest)
    return _add_run(zero, address, vectors, row, mask, SIGNED, greatest)


@inner
def fixed_total(zero: float, address: int, vectors: int, row: int, mask: int, kind: int) -> tuple[bool, float]:
    """Whether the sum of whole vectors of neighbours is right, and that sum."""
    sums = add_fixed_run(zero, address, vectors, row, mask, kind, spread(int32(0)))
    return greatest_of(sums[2]) < LIMIT, total_of(exact_sums(sums[0], sums[1]))


@inner
def _rows(
    zero: float,
    address: int,
    row: int,
    rows: int,
    whole: int,
    mask: int,
    kind: int,
    remainders: int,
    about: int,
    greatest: Vector,
) -> Vector:
    """Adds a group of rows to whole vectors of columns."""
    ahead = rows_ahead(row, GROUP)
    for i in range(0, whole, WIDTH):
        here = advance(address, i, zero)
        sums = spread(int32(0)), spread(float32(-0.0)), greatest
        if rows == GROUP and ahead:
            for j in range(GROUP):
                prefetch(here + j * row + ahead)
                sums = _add(zero, here + j * row, mask, kind, sums)
        elif rows == GROUP:
            for j in range(GROUP):
                sums = _add(zero, here + j * row, mask, kind, sums)
        else:
            for j in range(rows):
                sums = _add(zero, here + j * row, mask, kind, sums)
        store_vector(remainders, i, load_vector(remainders, i, int32(0)) + sums[0])
        store_vector(about, i, load_vector(about, i, float32(0.0)) + sums[1])
        greatest = sums[2]
    return greatest


@inner
def _rest(
    zero: float, address: int, row: int, rows: int, first: int, width: int, mask: int, kind: int, sums: int
) -> None:
    """Columns that fill no vector."""
    for i in range(first, width):
        total = load(sums, i, 0.0)
        for j in range(rows):
            total += term(zero, address + j * row, i, mask, kind)
        store(sums, i, total)


@inner
def fixed_columns(
    zero: float, base: int, geometry: int, begin: int, end: int, width: int, kind: int, sums: int, about: int, left: int
) -> bool:
    """Leaves the sums of terms ``begin`` to ``end`` of neighbouring columns, and tells whether they are right.

    Args:
        about, left: memory for as many numbers of 32 bits as there are columns.
    """
    row, mask = at(geometry, g.STEP) * size_of(zero), at(geometry, g.MASK)
    whole = width // WIDTH * WIDTH
    for i in range(0, width, WIDTH):
        store_vector(sums, i, spread(-0.0))
        store_vector(about, i, spread(float32(-0.0)))
        store_vector(left, i, spread(int32(0)))
    greatest = spread(int32(0))
    depth, i = GROUP, begin
    while i < end:
        address, rows = run_from(geometry, base, i, end, zero)
        for first in range(0, rows, GROUP):
            here, size = address + first * row, min(GROUP, rows - first)
            if kind == MAGNITUDE:
                greatest = _rows(zero, here, row, size, whole, mask, MAGNITUDE, left, about, greatest)
            else:
                greatest = _rows(zero, here, row, size, whole, mask, SIGNED, left, about, greatest)
            _rest(zero, here, row, size, whole, width, mask, kind, sums)
        depth += -(-rows // GROUP)
        i += rows
    if greatest_of(greatest) >= LIMIT or depth * (end - begin) > MOST:
        return False
    for i in range(0, whole, WIDTH):
        exact = exact_sums(load_vector(left, i, int32(0)), load_vector(about, i, float32(0.0)))
        store_vector(sums, i, exact)
    return True
