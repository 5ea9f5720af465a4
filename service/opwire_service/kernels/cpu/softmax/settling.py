"""Softmax elements whose rounding float64 leaves undecided: settled in extended precision, then in decimals."""

from __future__ import annotations

import numpy as np

from opwire.tensor import Array

from ....execution import Stop
from ...exact import FLOAT16, FLOAT32, FloatFormat
from ...reference.elements import Elements
from ...reference.softmax import Block, Share, block_of
from ..run.tiles import TILE

WIDE = np.longdouble
"""Extended precision, 80 bits on most processors; where it is no wider than float64, only decimals settle."""

_MARGIN = 64 * float(np.finfo(np.longdouble).eps)
"""Relative error bound of extended-precision results, most of it from pairwise sums."""

_MARGIN_OF_HALF = 2.0**-50
"""The same for FLOAT16, which is rounded to from float64."""


class Row:
    """A block of elements with an undecided result.

    Args:
        view: the elements.
        share: computes a result with exact arithmetic.
        logarithm: whether results are logarithms.
        stop: polled while computing.
    """

    def __init__(self, view: Array, share: Share, *, logarithm: bool, stop: Stop) -> None:
        self._view = view
        self._share = share
        self._logarithm = logarithm
        self._stop = stop
        self._to: FloatFormat = FLOAT16 if view.dtype == np.float16 else FLOAT32
        self._others: tuple[np.longdouble, np.longdouble] | None = None
        self._block: Block | None = None

    def results(self, values: Array) -> Array:
        """Returns the results of some elements of the row."""
        distinct, places = np.unique(values, return_inverse=True)
        found = np.array([self._result(value) for value in distinct], self._to.dtype)
        result: Array = found[places.reshape(-1)]
        return result

    def _result(self, value: np.floating) -> np.floating:
        near = self._wide(value)
        if near is not None:
            return near
        if self._block is None:
            self._block = block_of(self._view, self._stop)
            assert self._block is not None
        return self._share(self._block, float(value), self._to)

    def _wide(self, value: np.floating) -> np.floating | None:
        """Returns the extended-precision result, or None if that leaves the rounding undecided."""
        if self._others is None:
            self._others = self._sum_of_others()
        greatest, others = self._others
        difference = WIDE(value) - greatest
        result = difference - np.log1p(others) if self._logarithm else np.exp(difference) / (1 + others)
        near = abs(result) * WIDE(_MARGIN_OF_HALF if self._to is FLOAT16 else _MARGIN)
        least, most = result - near, result + near
        if self._logarithm and others > 0 and difference + greatest == value and difference - value == -greatest:
            # The logarithm of the sum, however small, moves an exact difference off a tie.
            kind = np.float64 if self._to is FLOAT16 else WIDE
            most = min(most, np.nextafter(kind(difference), kind(-np.inf)))
        # NumPy would round from extended precision to FLOAT16 via FLOAT32.
        low, high = (
            np.float64(bound).astype(np.float16) if self._to is FLOAT16 else bound.astype(np.float32)
            for bound in (least, most)
        )
        return high if low == high and result != 0 else None

    def _sum_of_others(self) -> tuple[np.longdouble, np.longdouble]:
        greatest, total, skipped = WIDE(self._view.max()), WIDE(0), False
        for values in Elements(self._view, self._stop, TILE):
            powers = np.exp(values.astype(WIDE) - greatest)
            if not skipped and (values == greatest).any():
                powers[np.argmax(values == greatest)] = 0
                skipped = True
            total += powers.sum()
        return greatest, total
