"""Sums of float64 numbers together with what rounding leaves out of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.tensor import Array


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounded sum of two numbers, vectors or arrays, and what rounding left out of it (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def add_odd(a: Array, b: Array) -> Array:
    """The sums rounded to odd, so that rounding them to a narrower type gives what the exact sums would give.

    Where a sum is not exact, it has its last bit set, on the side of the exact sum (Boldo and Melquiond).
    """
    total, rest = two_sum(a, b)
    bits = total.view(np.int64)
    # Of numbers that are not finite the rest is NaN, and they stay as they are.
    wrong = np.flatnonzero((rest != 0) & (rest == rest) & (bits & 1 == 0))
    if wrong.size:
        outward = (rest.flat[wrong] > 0) == (total.flat[wrong] > 0)
        bits.flat[wrong] += np.where(outward, 1, -1)
    odd: Array = total
    return odd
