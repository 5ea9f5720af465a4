"""Error-free transformations: sums of float64 together with their rounding errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.tensor import Array


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Returns the rounded sum of two numbers, vectors or arrays, and its rounding error (Knuth's TwoSum)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def add_odd(a: Array, b: Array) -> Array:
    """Returns sums rounded to odd, so that rounding them once more, to a narrower type, is correct.

    An inexact sum is replaced by the neighbor of the exact sum whose last bit is set (Boldo and Melquiond).
    """
    total, rest = two_sum(a, b)
    bits = total.view(np.int64)
    # For non-finite sums the error is NaN; they stay as they are.
    wrong = np.flatnonzero((rest != 0) & (rest == rest) & (bits & 1 == 0))
    if wrong.size:
        outward = (rest.flat[wrong] > 0) == (total.flat[wrong] > 0)
        bits.flat[wrong] += np.where(outward, 1, -1)
    odd: Array = total
    return odd
