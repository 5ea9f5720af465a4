# No annotations on overloads: numba compares their signatures.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
"""Greatest ranks of FLOAT16 from the extremes of their bits, which takes fewer steps than computing every rank.

As signed integers, the greatest bits belong to the greatest element with a clear sign bit, and the least bits to the
greatest element with the sign bit set. The greater of the two ranks is therefore the greatest rank, unless there are
bits above those of infinity: then there is a NaN, and ranks must be compared one by one.
"""

from typing import Any

from numba.extending import overload

from ..jit.compiler import inlined
from ..jit.element import HALF, int16, integer_zero
from .rank_vectors import (
    RankVector,
    above_lanes,
    greatest_lane,
    ranks_of_bits,
    store_ranks,
    wide,
    wide_lanes,
    wide_ranks,
)
from .ranks import HALF_INFINITY, greater, lesser, lowest_rank


@inlined
def _has_nan(greatest: RankVector, bits: int) -> bool:
    return above_lanes(greatest, wide(int16(HALF_INFINITY), bits)) != 0


def greatest_of_run(zero: Any, address: Any, count: Any, invert: Any) -> Any:
    """Returns the greatest rank of a run of at least one vector, and whether it is certain (only for FLOAT16)."""


@overload(greatest_of_run, inline="always")
def _greatest_of_run(zero, address, count, invert):
    if zero == HALF:
        return lambda zero, address, count, invert: _run(zero, address, count, invert)
    return lambda zero, address, count, invert: (lowest_rank(zero), False)


@inlined
def _run(zero: int, address: int, count: int, invert: int) -> tuple[int, bool]:
    bits, lanes = integer_zero(zero), wide_lanes(zero)
    a = b = c = d = wide_ranks(address, count - lanes, invert, bits)
    i = 0
    while i + 2 * lanes <= count:
        here, there = wide_ranks(address, i, invert, bits), wide_ranks(address, i + lanes, invert, bits)
        a, b = greater(here, a), lesser(here, b)
        c, d = greater(there, c), lesser(there, d)
        i += 2 * lanes
    if i + lanes <= count:
        here = wide_ranks(address, i, invert, bits)
        a, b = greater(here, a), lesser(here, b)
    a, b = greater(c, a), lesser(d, b)
    best = greater(ranks_of_bits(a, zero), ranks_of_bits(b, zero))
    return greater(greatest_lane(best), lowest_rank(zero)), not _has_nan(a, bits)


def raise_two(zero: Any, address: Any, row: Any, rows: Any, column: Any, invert: Any, best: Any) -> Any:
    """Updates the best ranks of two vectors of columns with rows; returns whether it could (only for FLOAT16)."""


@overload(raise_two, inline="always")
def _raise_two(zero, address, row, rows, column, invert, best):
    if zero == HALF:
        return lambda zero, address, row, rows, column, invert, best: _two(
            zero, address, row, rows, column, invert, best
        )
    return lambda zero, address, row, rows, column, invert, best: False


@inlined
def _two(zero: int, address: int, row: int, rows: int, column: int, invert: int, best: int) -> bool:
    bits, beside = integer_zero(zero), column + wide_lanes(zero)
    a = b = wide_ranks(address, column, invert, bits)
    c = d = wide_ranks(address, beside, invert, bits)
    for i in range(1, rows):
        here = wide_ranks(address + i * row, column, invert, bits)
        there = wide_ranks(address + i * row, beside, invert, bits)
        a, b = greater(here, a), lesser(here, b)
        c, d = greater(there, c), lesser(there, d)
    if _has_nan(greater(a, c), bits):
        return False
    so_far = wide_ranks(best, column, 0, bits)
    store_ranks(best, column, greater(greater(ranks_of_bits(a, zero), ranks_of_bits(b, zero)), so_far))
    so_far = wide_ranks(best, beside, 0, bits)
    store_ranks(best, beside, greater(greater(ranks_of_bits(c, zero), ranks_of_bits(d, zero)), so_far))
    return True
