"""Exact arithmetic for reductions of floats: the real result, rounded once.

Every finite FLOAT16 or FLOAT32 is an integer multiple of a fixed power of two, so Python integers represent sums and
products exactly. All functions take their elements as chunks, 1-dimensional arrays that may be iterated repeatedly.
Infinities, NaN and the sign of zero follow IEEE 754.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import isqrt, prod
from typing import Any, cast

import numpy as np

from opwire.tensor import Array, DataType

Chunks = Iterable[Array]

Float = np.floating[Any]


@dataclass(frozen=True)
class FloatFormat:
    """An IEEE 754 binary format. Every finite value is an integer multiple of ``2**unit``, the least subnormal."""

    data_type: DataType
    fraction_bits: int

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        return self.data_type.dtype

    @cached_property
    def bits_dtype(self) -> np.dtype[Any]:
        return np.dtype(f"<u{self.dtype.itemsize}")

    @cached_property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.data_type.bits - 1)

    @cached_property
    def infinity(self) -> int:
        """The bit pattern of positive infinity, which is also the mask of the exponent field."""
        return self.sign - (1 << self.fraction_bits)

    @cached_property
    def unit(self) -> int:
        exponent_bits = self.data_type.bits - 1 - self.fraction_bits
        return 2 - (1 << (exponent_bits - 1)) - self.fraction_bits

    def of_bits(self, bits: int) -> Float:
        return cast(Float, np.array(bits, self.bits_dtype).view(self.dtype)[()])

    def of(self, value: float) -> Float:
        """A zero, an infinity or NaN of this format."""
        return cast(Float, np.array(value, self.dtype)[()])

    def bits_of(self, values: Array) -> Array:
        return np.ascontiguousarray(values).view(self.bits_dtype)

    def parts(self, values: Array) -> tuple[Array, Array]:
        """Splits finite values into int64 signed integers and shifts: each is ``integer * 2**(shift + unit)``."""
        bits = self.bits_of(values).astype(np.int64)
        implicit = 1 << self.fraction_bits
        exponents = (bits & self.infinity) >> self.fraction_bits
        significands = (bits & (implicit - 1)) + np.where(exponents > 0, implicit, 0)
        return np.where(bits & self.sign, -significands, significands), np.maximum(exponents, 1) - 1


FLOAT16 = FloatFormat(DataType.FLOAT16, 10)
FLOAT32 = FloatFormat(DataType.FLOAT32, 23)

FORMATS = {row.data_type: row for row in (FLOAT16, FLOAT32)}


def round_ratio(numerator: int, denominator: int, to: FloatFormat) -> Float:
    """Rounds ``numerator / denominator`` to nearest, ties to even. Zero yields +0; an underflow keeps its sign."""
    if not numerator:
        return to.of(0)
    magnitude = abs(numerator)
    significant = to.fraction_bits + 1
    # Counted in multiples of 2**shift units, the quotient has at least the significant bits.
    shift = max(0, magnitude.bit_length() - denominator.bit_length() - to.unit - significant)
    scaled = magnitude << -to.unit
    quotient, rest = divmod(scaled, denominator << shift)
    if quotient >> significant:
        shift += 1
        quotient, rest = divmod(scaled, denominator << shift)
    half = denominator << shift
    if 2 * rest > half or (2 * rest == half and quotient & 1):
        quotient += 1
    # The leading bit of a normal significand adds one to the exponent field, and so does a carry out of rounding.
    bits = min((shift << to.fraction_bits) + quotient, to.infinity)
    return to.of_bits(bits | to.sign if numerator < 0 else bits)


def round_scaled(integer: int, exponent: int, to: FloatFormat) -> Float:
    """Rounds ``integer * 2**exponent`` like ``round_ratio``, for any exponent."""
    # Far outside the format's range the exponent no longer matters; clamping it keeps the integers small.
    exponent = max(-integer.bit_length() - 1000, min(exponent, 1000))
    return round_ratio(integer << max(exponent, 0), 1 << max(-exponent, 0), to)


def round_root(numerator: int, denominator: int, to: FloatFormat) -> Float:
    """Returns the square root of a non-negative ratio, rounded once."""
    significant = to.fraction_bits + 1
    extra = max(0, significant + 2 - (numerator.bit_length() - denominator.bit_length()) // 2)
    root = isqrt((numerator << 2 * extra) // denominator)
    inexact = root * root * denominator != numerator << 2 * extra
    # The root has more bits than are kept; one sticky bit below them records whether anything was cut off.
    return round_ratio(2 * root + inexact, 2 << extra, to)


_LIMB = 24


def integer_sum(integers: Array, shifts: Array) -> int:
    """Returns the sum of ``integers * 2**shifts``, for at most 2**29 int64 integers below 2**48 in magnitude."""
    total = 0
    for limb, offset in ((integers & ((1 << _LIMB) - 1), 0), (integers >> _LIMB, _LIMB)):
        # Limbs have 24 bits, so float64 sums 2**29 of them without rounding.
        by_shift = np.bincount(shifts, limb.astype(np.float64))
        for shift in np.flatnonzero(by_shift).tolist():
            total += int(by_shift[shift]) << (shift + offset)
    return total


@dataclass
class Sum:
    """The exact sum of the elements added so far, or of their squares.

    Attributes:
        units: sum of the finite elements in multiples of ``2**unit``; of their squares, of ``2**(2*unit)``.
        special: sum of the infinities and NaNs alone; 0 if there are none.
        count: number of elements added.
        negative_zeros: whether every element is -0, which makes the sum -0.
    """

    format: FloatFormat
    units: int = 0
    special: float = 0.0
    count: int = 0
    negative_zeros: bool = True

    def add(self, values: Array, *, squared: bool = False) -> None:
        """Adds the values, or their squares."""
        finite = np.isfinite(values)
        for value in values[~finite].tolist():
            self.special += abs(value) if squared else value
        integers, shifts = self.format.parts(values[finite])
        self.units += integer_sum(integers**2, 2 * shifts) if squared else integer_sum(integers, shifts)
        self.count += values.size
        if (self.format.bits_of(values) != self.format.sign).any():
            self.negative_zeros = False

    def rounded(self, divisor: int = 1) -> Float:
        """Returns the sum divided by ``divisor``, rounded."""
        if self.special:
            return self.format.of(self.special)
        if self.negative_zeros:
            return self.format.of(-0.0)
        return round_ratio(self.units, divisor << -self.format.unit, self.format)


def sum_of(chunks: Chunks, of: FloatFormat) -> Sum:
    """Returns the exact sum of all elements."""
    total = Sum(of)
    for values in chunks:
        total.add(values)
    return total


def _squares(chunks: Chunks, of: FloatFormat) -> Sum:
    total = Sum(of)
    for values in chunks:
        total.add(values, squared=True)
    return total


def exact_sum(chunks: Chunks, of: FloatFormat) -> Float:
    return sum_of(chunks, of).rounded()


def average(chunks: Chunks, of: FloatFormat) -> Float:
    total = sum_of(chunks, of)
    return total.rounded(total.count)


def l1(chunks: Chunks, of: FloatFormat) -> Float:
    """Returns the sum of the magnitudes."""
    return sum_of((np.abs(values) for values in chunks), of).rounded()


def sum_square(chunks: Chunks, of: FloatFormat) -> Float:
    total = _squares(chunks, of)
    if total.special:
        return of.of(total.special)
    return round_scaled(total.units, 2 * of.unit, of)


def l2(chunks: Chunks, of: FloatFormat) -> Float:
    """Returns the root of the sum of squares; it overflows only if the root itself does."""
    total = _squares(chunks, of)
    if total.special:
        return of.of(total.special)
    return round_root(total.units, 1 << -2 * of.unit, of)


@dataclass
class ProductBounds:
    """Bounds of a positive product, ``low * 2**exponent`` and ``high * 2**exponent``, each of at most ``bits`` bits.

    They are equal as long as the product itself fits in ``bits`` bits.
    """

    bits: int
    low: int = 1
    high: int = 1
    exponent: int = 0

    def multiply(self, integer: int, exponent: int) -> None:
        """Multiplies by ``integer * 2**exponent``, where ``integer`` is positive."""
        # With trailing zeros removed, no intermediate product has more bits than the final one.
        zeros = (integer & -integer).bit_length() - 1
        integer >>= zeros
        self.low *= integer
        self.high *= integer
        self.exponent += exponent + zeros
        excess = self.low.bit_length() - self.bits
        if excess > 0:
            self.low >>= excess
            self.high = -(-self.high >> excess)
            self.exponent += excess


@dataclass
class ExactProduct:
    """The product of the elements multiplied so far.

    Attributes:
        magnitude: magnitude of the product of all finite nonzero elements.
        negative: whether the product is negative.
        special: product of the magnitudes of all other elements; 1 if there are none.
    """

    format: FloatFormat
    magnitude: ProductBounds
    negative: bool = False
    special: float = 1.0

    def multiply(self, values: Array) -> None:
        signs = np.signbit(values)
        self.negative ^= bool(np.count_nonzero(signs) % 2)
        ordinary = np.isfinite(values) & (values != 0)
        for value in values[~ordinary].tolist():
            self.special *= abs(value)
        integers, shifts = self.format.parts(values[ordinary])
        for start in range(0, integers.size, _FACTORS):
            piece = slice(start, start + _FACTORS)
            exponent = int(shifts[piece].sum()) + self.format.unit * shifts[piece].size
            self.magnitude.multiply(abs(prod(integers[piece].tolist())), exponent)

    def rounded(self) -> Float | None:
        """Returns the product, or None while its bounds round to different floats."""
        sign = -1 if self.negative else 1
        if self.special != 1:
            return self.format.of(sign * self.special)
        low, high = (
            round_scaled(sign * bound, self.magnitude.exponent, self.format)
            for bound in (self.magnitude.low, self.magnitude.high)
        )
        return low if low == high else None


_FACTORS = 64


def multiply(chunks: Chunks, of: FloatFormat, bits: int = 256) -> Float:
    """Returns the product, in bounded memory: doubles the precision from ``bits`` until the rounding is decided."""
    while True:
        product = ExactProduct(of, ProductBounds(bits))
        for values in chunks:
            product.multiply(values)
        result = product.rounded()
        if result is not None:
            return result
        bits *= 2
