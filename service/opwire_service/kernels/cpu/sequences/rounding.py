"""Sums of two floats rounded once to a narrower type, in whole arrays."""

from __future__ import annotations

import numpy as np

from opwire.tensor import Array


def add_odd(one: Array, other: Array) -> Array:
    """The sum of FLOAT64 numbers as one that rounds to any narrower type as the exact sum does.

    Where it cannot be exact it has its last bit set, on the side of the exact sum: as in "round to odd".
    """
    total = one + other
    part = total - one
    rest = (one - (total - part)) + (other - part)
    bits = total.view(np.int64)
    # Of numbers that are not finite the rest is NaN, and they stay as they are.
    wrong = np.flatnonzero((rest != 0) & (rest == rest) & (bits & 1 == 0))
    if wrong.size:
        outward = (rest.flat[wrong] > 0) == (total.flat[wrong] > 0)
        bits.flat[wrong] += np.where(outward, 1, -1)
    return total
