"""Exact sums of float64 terms, many at once, for elements that an error bound leaves undecided.

Each round extracts the leading bits of all terms on a common grid, coarse enough that their sum is exact; the
remainders go into the next round, until nothing remains.
"""

from __future__ import annotations

import numpy as np

from opwire.tensor import Array

from ...error_free import split, to_odd, two_sum


class ExactSums:
    """Exact sums of rows of finite terms, each below ``2**900`` in magnitude.

    Args:
        rows: number of sums.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._parts: list[Array] = []

    def add(self, terms: Array) -> None:
        """Adds the terms of each row, ``[rows, count]``; overwrites them."""
        headroom = terms.shape[1].bit_length() + 1
        while True:
            greatest = np.abs(terms).max(1)
            if not greatest.any():
                break
            grid = np.ldexp(1.0, np.frexp(greatest)[1] + headroom)[:, None]
            leading = (terms + grid) - grid
            terms -= leading
            self._parts.append(leading.sum(1))

    def odd(self) -> Array:
        """Returns the sums rounded to odd: inexact ones have their last bit set, so that rounding again is correct."""
        sums, rests, *_ = self._distilled()
        return to_odd(sums, rests)

    def _distilled(self) -> Array:
        """Distills the parts, so that each is the rounded sum of itself and those that follow."""
        parts = np.array([*self._parts, *np.zeros((1 if self._parts else 2, self._rows))])
        while True:
            before = parts.copy()
            for i in range(len(parts) - 1, 0, -1):
                parts[i - 1], parts[i] = two_sum(parts[i - 1], parts[i])
            if np.array_equal(parts, before):
                return parts


def times(terms: Array, factors: Array) -> Array:
    """Returns terms ``[rows, count]`` times a factor of at most 26 bits per row, as twice as many exact terms."""
    return np.concatenate([part * factors[:, None] for part in split(terms)], axis=1)
