"""Maps elements to unsigned integers in selection order: the first element has the least key."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from opwire.tensor import Array, DataType


class Order(NamedTuple):
    """Selection order.

    Attributes:
        data_type: type of the elements.
        greatest: whether the greatest elements come first; NaN is last in either order, and -0 equals 0.
    """

    data_type: DataType
    greatest: bool

    def keys(self, elements: Array) -> Array:
        """Returns a new array of keys, which are equal only for equal elements."""
        return self._of_floats(elements) if self.data_type.is_float else self._of_integers(elements)

    @property
    def _unsigned(self) -> np.dtype[Any]:
        return np.dtype(f"<u{self.data_type.bits // 8}")

    def _of_integers(self, elements: Array) -> Array:
        keys: Array = np.array(elements, order="C").view(self._unsigned)
        if self.data_type.is_signed:
            keys ^= keys.dtype.type(1 << (self.data_type.bits - 1))
        return np.invert(keys, out=keys) if self.greatest else keys

    def _of_floats(self, elements: Array) -> Array:
        bits = self.data_type.bits
        zero = np.zeros((), elements.dtype)
        numbers = np.add(elements, zero, order="C")  # turns -0 into 0
        keys: Array = numbers.view(self._unsigned)
        # Negative numbers have all bits inverted, others the sign; for the greatest first, the complement of that.
        turned = np.right_shift(numbers.view(f"<i{bits // 8}"), bits - 1).view(keys.dtype)
        turned |= keys.dtype.type(1 << (bits - 1))
        if self.greatest:
            np.invert(turned, out=turned)
        missing = numbers != numbers
        keys ^= turned
        keys[missing] = np.iinfo(keys.dtype).max
        return keys
