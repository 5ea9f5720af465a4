"""The terms of float sums: elements, magnitudes or squares as float64, which holds each of them exactly."""

from __future__ import annotations

from opwire.tensor import DataType

from . import geometry as g
from .compiler import inner
from .element import read
from .formats import masked

MAGNITUDES = {DataType.FLOAT32: 0x7FFFFFFF, DataType.FLOAT16: 0x7FFF}
"""``MASK`` for sums of magnitudes: all bits but the sign. For plain sums it is -1."""


@inner
def term(zero: float, address: int, index: int, mask: int, square: bool) -> float:
    value = masked(read(address, index, zero), mask)
    return value * value if square else value


@inner
def _two(zero: float, address: int, row: int, index: int, mask: int, square: bool) -> float:
    return term(zero, address, index, mask, square) + term(zero, address + row, index, mask, square)


@inner
def _four(zero: float, address: int, row: int, index: int, mask: int, square: bool) -> float:
    return _two(zero, address, row, index, mask, square) + _two(zero, address + 2 * row, row, index, mask, square)


@inner
def _eight(zero: float, address: int, row: int, index: int, mask: int, square: bool) -> float:
    return _four(zero, address, row, index, mask, square) + _four(zero, address + 4 * row, row, index, mask, square)


@inner
def sixteen(zero: float, address: int, row: int, index: int, mask: int, square: bool) -> float:
    """The sum of one term from each of 16 rows that lie ``row`` bytes apart, as a tree of depth 4."""
    return _eight(zero, address, row, index, mask, square) + _eight(zero, address + 8 * row, row, index, mask, square)


IS_EXACT = g.MASK + 1
"""Place in the geometry: whether float64 adds up ``EXACT_TERMS`` terms without rounding."""

SQUARE = g.MASK + 2
"""Place in the geometry: whether terms are squares."""

EXACT_TERMS = 8192
"""FLOAT16 values are multiples of 2**-24 up to 2**16: so many of them sum up to less than 2**53 multiples."""
