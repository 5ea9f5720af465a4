"""Quantizes and dequantizes runs of elements that share their scale and zero point, in one pass."""

from __future__ import annotations

from array import array
from struct import pack, unpack

import numpy as np

from opwire.tensor import Array

from ..jit.compiler import Entry, Kernel, inlined, kernel
from ..jit.element import FLOAT32, HALF, INT8, bits_double, float32, float64, int8, int16, int32, int64, read, store
from ..numbers.formats import number_of
from ..run.geometry import at

SCALE, ZERO_POINT, LEAST, GREATEST, WIDTH, IS_SIGNED = range(6)
"""Bits of float64 first; then limits, bytes of an integer that is written, and whether one that is read has a sign."""


@inlined
def _quantized(source: int, j: int, scale: float, zero_point: float, least: float, greatest: float, zero: float) -> int:
    whole = np.rint(number_of(read(source, j, zero)) / scale)
    moved = (whole if whole == whole else 0.0) + zero_point
    return int64(min(max(moved, least), greatest))


@kernel
def quantize(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Units are elements; a quotient that is no number is 0."""
    scale, zero_point = bits_double(at(geometry, SCALE)), bits_double(at(geometry, ZERO_POINT))
    least, greatest, width = float64(at(geometry, LEAST)), float64(at(geometry, GREATEST)), at(geometry, WIDTH)
    if width == 1:
        for j in range(begin, end):
            store(target, j, int8(_quantized(source, j, scale, zero_point, least, greatest, zero)))
    elif width == 2:
        for j in range(begin, end):
            store(target, j, int16(_quantized(source, j, scale, zero_point, least, greatest, zero)))
    else:
        for j in range(begin, end):
            store(target, j, int32(_quantized(source, j, scale, zero_point, least, greatest, zero)))


@kernel
def dequantize(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Units are elements: integers of 8 bits to FLOAT32."""
    scale, zero_point = bits_double(at(geometry, SCALE)), bits_double(at(geometry, ZERO_POINT))
    flipped = 0 if at(geometry, IS_SIGNED) else 0x80
    # The bits of an unsigned number with the highest one flipped are those of a signed one that is 128 less.
    for j in range(begin, end):
        integer = int64(int8(int64(read(source, j, zero)) ^ flipped)) + flipped
        store(target, j, float32((float64(integer) - zero_point) * scale))


QUANTIZE = Kernel(quantize, FLOAT32), Kernel(quantize, HALF)
DEQUANTIZE = Kernel(dequantize, INT8)


def apply(entry: Entry, source: Array, target: Array, scale: float, zero_point: float, limits: tuple[int, int]) -> None:
    """Converts a run of elements.

    Args:
        entry: of one of the kernels.
        source, target: C-contiguous.
        scale, zero_point: of all.
        limits: of the integers.
    """
    bits = (unpack("q", pack("d", value))[0] for value in (scale, zero_point))
    row = array("q", (*bits, *limits, target.itemsize, source.dtype.kind == "i"))
    place, _ = row.buffer_info()
    entry.call(0, source.ctypes.data, target.ctypes.data, 0, place, 0, source.size)
