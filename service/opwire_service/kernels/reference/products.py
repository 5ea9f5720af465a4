"""Sums of products as real numbers, rounded once; shared by matrix products and convolutions."""

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
"""A finite number as a fraction; an infinity or NaN as a float."""


@dataclass
class ProductSum:
    """The exact sum of the products added so far.

    Attributes:
        units: sum of the finite products in multiples of ``2**(2*unit)``.
        special: sum of the infinities and NaNs alone; 0 if there are none.
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
    """Returns the sum of the products of two views of equal shape."""
    total = ProductSum(of)
    for a, b in zip(Elements(left, stop), Elements(right, stop), strict=True):
        total.add(a, b)
    return total.value


def integer_product_sum(left: Array, left_zero: int, right: Array, right_zero: int, stop: Stop) -> int:
    """Returns the sum of the products of two integer views, after subtracting the zero points."""
    total = 0
    for a, b in zip(Elements(left, stop), Elements(right, stop), strict=True):
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        total += sum((x - left_zero) * (y - right_zero) for x, y in pairs)
    return total


def real(number: Any) -> Real:
    """Converts a float exactly."""
    return Fraction(float(number)) if isfinite(number) else float(number)


def scaled(number: Real, factor: Real) -> Real:
    """Returns the product; infinities and NaN follow IEEE 754."""
    if isinstance(number, Fraction) and isinstance(factor, Fraction):
        return number * factor
    return _as_float(number) * _as_float(factor)


def added(number: Real, addend: Real) -> Real:
    """Returns the sum; infinities and NaN follow IEEE 754."""
    if isinstance(number, Fraction) and isinstance(addend, Fraction):
        return number + addend
    return _as_float(number) + _as_float(addend)


def _as_float(number: Real) -> float:
    """Returns an infinity or NaN as it is, and the sign of a fraction."""
    return number if isinstance(number, float) else float((number > 0) - (number < 0))


def rounded(number: Real, to: FloatFormat) -> Float:
    """Rounds a number to nearest, ties to even; zero is +0."""
    return to.of(number) if isinstance(number, float) else round_ratio(number.numerator, number.denominator, to)


def finished(number: Real, fused: NestedOperator | None, to: FloatFormat) -> Float:
    """Applies the fused activation, if any, and rounds to a format."""
    if fused is None:
        return rounded(number, to)
    with np.errstate(over="ignore", under="ignore"):
        return cast(Float, activated(fused, np.array(float(number))).astype(to.dtype)[()])


def quantized(number: Real, scale: float, zero_point: int, to: DataType) -> int:
    """Divides by the scale, rounds half to even, adds the zero point and saturates."""
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
