"""Packing and unpacking of 4-bit elements. In a buffer two share a byte, the first in the low bits.

There are no gaps between packed elements, not even between rows; strides count elements. Unpacked elements take a byte
each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def unpacked(packed: Array, count: int, *, signed: bool) -> Array:
    """Unpacks elements to a byte each.

    Args:
        packed: a one-dimensional UINT8 array.
        count: number of elements; the last byte may hold one more.
        signed: whether they are INT4, which become INT8, or UINT4, which become UINT8.
    """
    elements = np.empty((packed.size, 2), np.uint8)
    np.bitwise_and(packed, 15, out=elements[:, 0])
    np.right_shift(packed, 4, out=elements[:, 1])
    flat: Array = elements.reshape(-1)[:count]
    if signed:
        flat ^= 8
        flat -= 8
        return flat.view(np.int8)
    return flat


def pack(elements: Array, into: Array) -> None:
    """Packs elements of a byte each into ``into``, leaving the high bits after an odd last one untouched."""
    bits = elements.view(np.uint8)
    whole = bits.size // 2
    np.left_shift(bits[1::2], 4, out=into[:whole])
    into[:whole] |= bits[: 2 * whole : 2] & 15
    if bits.size % 2:
        into[whole] = (into[whole] & 0xF0) | (bits[-1] & 15)
