"""Left operands that no run changes, copied to float64 once for all runs."""

from __future__ import annotations

from typing import Self

import numpy as np

from ..run.scratch import lined
from .operands import apart, widening
from .product import Product, Tile
from .widening import WIDEN

MOST_LEFT_BYTES = 1 << 20
"""Maximum size of a left operand that is kept in float64, in bytes."""


class FixedLeft:
    """A left operand in float64.

    Attributes:
        numbers: ``[matrices, rows, depth]``.
    """

    def __init__(self, product: Product) -> None:
        given = product.left.array[0]
        matrices, rows, depth = given.shape
        self._squares = np.zeros((matrices, rows))
        memory = lined(matrices * _lines(rows, depth))
        self._widen, self.numbers = widening(given, memory, self._squares)
        self._entry, self._kept = product.find(WIDEN[given.dtype.type]), given
        self._is_known = False

    @classmethod
    def of(cls, product: Product) -> Self | None:
        """Returns the left operand of a product, or None if that may change or is too large."""
        batches, matrices, rows, depth = product.left.array.shape
        is_little = 8 * matrices * _lines(rows, depth) <= MOST_LEFT_BYTES
        return cls(product) if product.is_left_fixed and batches == 1 and is_little else None

    def squares_of(self, tile: Tile) -> int:
        """Returns the address of the sums of the squares of a tile's rows."""
        return self._squares[tile[1].start, tile[2].start :].ctypes.data

    def read(self) -> None:
        """Reads the operand, the first time."""
        if not self._is_known:
            self._widen.run(self._entry)
            self._is_known = True


def _lines(rows: int, depth: int) -> int:
    """Returns the numbers of a matrix, in any order."""
    return max(rows * apart(depth), depth * apart(rows))
