"""Sums of products as real numbers, rounded once: what matrix products and convolutions have in common."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import copysign, inf, isfinite, isnan, nan
from typing import Any, cast

import numpy as np

from opwire.fields.member import NestedOperator
from opwire.tensor import Array, DataType

from ...execution import Stop
from ..activation import activated
from ..exact import Float, FloatFormat, integer_sum, round_ratio
from .elements import Elements

Real = Fraction | float
"""A real number as a fraction; an infinity or NaN as a float."""


@dataclass
class ProductSum:
    """The exact sum of the products added so far.

    Attributes:
        units: that of the finite ones as a multiple of ``2**(2*unit)``.
        special: what infinities and NaN alone add up to; 0 without any.
    """

    format: FloatFormat
    units: int = 0
    special: float = 0.0

    def add(self, left: Array, right: Array) -> None:
        """Adds the product of each pair."""
        finite = np.isfinite(left) & np.isfinite(right)
        for a, b in zip(left[~finite].tolist(), right[~finite].tolist(), strict=True):
            self.special += a * b
        integers, shifts = self.format.parts(left[finite])
        factors, more = self.format.parts(right[finite])
        self.units += integer_sum(integers * factors, shifts + more)

    @property
    def value(self) -> Real:
        return self.special or Fraction(self.units, 1 << -2 * self.format.unit)


def product_sum(left: Array, right: Array, of: FloatFormat, stop: Stop) -> Real:
    """The sum of the products of two views of one shape."""
    total = ProductSum(of)
    for a, b in zip(Elements(left, stop), Elements(right, stop), strict=True):
        total.add(a, b)
    return total.value


def integer_product_sum(left: Array, left_zero: int, right: Array, right_zero: int, stop: Stop) -> int:
    """The sum of the products of two views of integers, each less its zero point."""
    total = 0
    for a, b in zip(Elements(left, stop), Elements(right, stop), strict=True):
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        total += sum((x - left_zero) * (y - right_zero) for x, y in pairs)
    return total


def real(number: Any) -> Real:
    """A float as it is."""
    return Fraction(float(number)) if isfinite(number) else float(number)


def scaled(number: Real, factor: Real) -> Real:
    """The product; with an infinity or NaN by the rules of IEEE 754."""
    if isinstance(number, Fraction) and isinstance(factor, Fraction):
        return number * factor
    return _as_float(number) * _as_float(factor)


def added(number: Real, addend: Real) -> Real:
    """The sum; with an infinity or NaN by the rules of IEEE 754."""
    if isinstance(number, Fraction) and isinstance(addend, Fraction):
        return number + addend
    return _as_float(number) + _as_float(addend)


def _as_float(number: Real) -> float:
    """An infinity or NaN, or in place of a fraction its sign."""
    return number if isinstance(number, float) else float((number > 0) - (number < 0))


def rounded(number: Real, to: FloatFormat) -> Float:
    """A number rounded to nearest, ties to even; zero is +0."""
    return to.of(number) if isinstance(number, float) else round_ratio(number.numerator, number.denominator, to)


def finished(number: Real, fused: NestedOperator | None, to: FloatFormat) -> Float:
    """A number after an activation, if there is one, rounded to a format."""
    if fused is None:
        return rounded(number, to)
    with np.errstate(over="ignore", under="ignore"):
        return cast(Float, activated(fused, np.array(float(number))).astype(to.dtype)[()])


def quantized(number: Real, scale: float, zero_point: int, to: DataType) -> int:
    """A number over a scale, halves to even, plus the zero point, saturated."""
    limits = np.iinfo(to.dtype)
    quotient = _quotient(number, scale)
    if isinstance(quotient, Fraction):
        found = round(quotient) + zero_point
    elif isnan(quotient):
        found = zero_point
    else:
        found = int(limits.max if quotient > 0 else limits.min)
    return min(max(found, int(limits.min)), int(limits.max))


def _quotient(number: Real, scale: float) -> Real:
    if scale == 0:
        return nan if number == 0 or number != number else _as_float(number) * copysign(inf, scale)
    if isfinite(scale):
        return number / Fraction(scale) if isinstance(number, Fraction) else number * copysign(1, scale)
    return nan if isinstance(number, float) or isnan(scale) else Fraction(0)
