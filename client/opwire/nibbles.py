"""The 4-bit types: two elements share a byte, the first in its low bits, and an element alone takes a byte.

Packed elements follow each other without a gap, also from row to row; strides count elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def unpacked(packed: Array, count: int, *, signed: bool) -> Array:
    """The first elements of packed ones, a byte each.

    Args:
        packed: UINT8, one-dimensional.
        count: elements; the last byte may hold one more.
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
    """Packs elements of a byte each into the bytes of ``into``; high bits after the last one stay as they are."""
    bits = elements.view(np.uint8)
    whole = bits.size // 2
    np.left_shift(bits[1::2], 4, out=into[:whole])
    into[:whole] |= bits[: 2 * whole : 2] & 15
    if bits.size % 2:
        into[whole] = (into[whole] & 0xF0) | (bits[-1] & 15)
