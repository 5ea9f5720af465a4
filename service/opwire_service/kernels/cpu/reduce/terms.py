"""The terms of float sums: elements, magnitudes or squares as float64, which holds each of them exactly."""

from __future__ import annotations

from opwire.tensor import DataType

from ..jit.compiler import inner
from ..jit.element import read
from ..numbers.formats import masked
from ..run import geometry as g

KIND = g.MASK + 2
"""Place in the geometry: which terms."""

SIGNED, MAGNITUDE, SQUARES, ROUGH = 0, 1, 2, 3
"""The last are elements of which ``rough`` may take the sum."""

IS_EXACT = g.MASK + 1
"""Place in the geometry: whether float64 adds up ``EXACT_TERMS`` terms without rounding."""

EXACT_TERMS = 8192
"""FLOAT16 values are multiples of 2**-24 up to 2**16: so many of them sum up to less than 2**53 multiples."""

MAGNITUDES = {DataType.FLOAT32: 0x7FFFFFFF, DataType.FLOAT16: 0x7FFF}
"""``MASK`` for sums of magnitudes: all bits but the sign. For plain sums it is -1."""


@inner
def term(zero: float, address: int, index: int, mask: int, kind: int) -> float:
    value = masked(read(address, index, zero), mask)
    return value * value if kind == SQUARES else value
