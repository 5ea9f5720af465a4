"""Error-free transformations: sums and products of float64 together with their rounding errors.

Those of plain arithmetic take numbers and arrays, and compiled for kernels also vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.tensor import Array


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Returns the rounded sum of two numbers and its rounding error (Knuth's TwoSum)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def split(a: Any) -> tuple[Any, Any]:
    """Splits a number into two of at most 26 bits (Veltkamp)."""
    scaled = a * 134217729.0  # 2**27 + 1
    high = scaled - (scaled - a)
    return high, a - high


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Returns the rounded product of two numbers and its rounding error (Dekker), NaN where that is out of range."""
    product = a * b
    (high, low), (other_high, other_low) = split(a), split(b)
    return product, low * other_low - (((product - high * other_high) - low * other_high) - high * other_low)


def to_odd(totals: Array, rests: Array) -> Array:
    """Rounds sums to odd in place, so that rounding them once more, to a narrower type, is correct.

    An inexact sum is replaced by the neighbor of the exact sum whose last bit is set (Boldo and Melquiond).

    Args:
        totals: rounded sums.
        rests: their rounding errors; where these are NaN, sums stay as they are.
    """
    bits = totals.view(np.int64)
    wrong = np.flatnonzero((rests != 0) & (rests == rests) & (bits & 1 == 0))
    if wrong.size:
        outward = (rests.flat[wrong] > 0) == (totals.flat[wrong] > 0)
        bits.flat[wrong] += np.where(outward, 1, -1)
    return totals


def add_odd(a: Array, b: Array) -> Array:
    """Returns sums rounded to odd."""
    return to_odd(*two_sum(a, b))
