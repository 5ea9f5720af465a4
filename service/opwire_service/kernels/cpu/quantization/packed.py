"""Unpacks tensors of 4-bit types to one byte per element, and packs them again, in pieces on all threads."""

from __future__ import annotations

import numpy as np

from opwire.nibbles import pack, unpacked
from opwire.tensor import Array, BufferTensorDesc

from ....execution import Stop
from ..run.pool import Pool

PIECE = 1 << 18
"""Bytes processed at once."""


def bytes_of(desc: BufferTensorDesc, packed: Array, pool: Pool, stop: Stop) -> Array:
    """Returns the elements from the first to the last address, gaps included, one byte each."""
    elements = np.empty(2 * packed.size, desc.data_type.dtype)

    def piece(begin: int, end: int) -> None:
        part = packed[begin:end]
        elements[2 * begin : 2 * end] = unpacked(part, 2 * part.size, signed=desc.data_type.is_signed)

    pool.run(piece, packed.size, PIECE, stop)
    return elements[: desc.extent]


def pack_into(packed: Array, elements: Array, pool: Pool, stop: Stop) -> None:
    """Packs the elements from ``bytes_of``."""

    def piece(begin: int, end: int) -> None:
        pack(elements[2 * begin : 2 * end], packed[begin:end])

    pool.run(piece, packed.size, PIECE, stop)


def strided(desc: BufferTensorDesc, elements: Array) -> Array:
    """Returns the tensor as a view of its unpacked elements."""
    return np.lib.stride_tricks.as_strided(elements, desc.sizes, desc.element_strides)
