"""Real numbers for formulas: exact fractions as long as possible, then decimals of very high precision.

A number is a ``Fraction``, or a ``Decimal`` if it is a root, derived from one, an infinity, NaN or a negative zero.
Infinities, NaN and the signs of zeros follow IEEE 754, except that the root of a zero is always positive.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import copysign, isfinite
from typing import Any

from ..decimals import context, decimal_of, round_decimal
from ..exact import Float, FloatFormat, round_ratio

Real = Fraction | Decimal

REALS = context()

NEAR = context(40)
"""Enough digits to decide the rounding of most numbers."""

NEAR_UNIT = Decimal((0, (1,), 1 - NEAR.prec))
"""Bound on the relative error of an operation in ``NEAR``."""

ZERO, ONE = Fraction(0), Fraction(1)

NAN = Decimal("NaN")

_NEGATIVE_ZERO = Decimal("-0")

_TINY = Decimal((0, (1,), REALS.Emin))
"""Stands for powers that underflow: a power of a positive number is never zero."""


def real(value: Any) -> Real:
    """Converts a float exactly."""
    number = float(value)
    return _signed(Fraction(number), is_negative=copysign(1, number) < 0) if isfinite(number) else Decimal(number)


def _signed(number: Fraction, *, is_negative: bool) -> Real:
    """Returns a number; if it is zero, with the given sign."""
    return _NEGATIVE_ZERO if is_negative and not number else number


def decimal(number: Real) -> Decimal:
    return decimal_of(number, REALS) if isinstance(number, Fraction) else number


def add(a: Real, b: Real) -> Real:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a + b
    if not a and isinstance(b, Fraction):
        return b
    if not b and isinstance(a, Fraction):
        return a
    return REALS.add(decimal(a), decimal(b))


def subtract(a: Real, b: Real) -> Real:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a - b
    if not b and isinstance(a, Fraction):
        return a
    if not a and isinstance(b, Fraction):
        return -b if b else a
    return REALS.subtract(decimal(a), decimal(b))


def multiply(a: Real, b: Real) -> Real:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return _signed(a * b, is_negative=(a < 0) != (b < 0))
    return REALS.multiply(decimal(a), decimal(b))


def divide(a: Real, b: Real) -> Real:
    if isinstance(a, Fraction) and isinstance(b, Fraction) and b:
        return _signed(a / b, is_negative=b < 0)
    return REALS.divide(decimal(a), decimal(b))


def root(a: Real) -> Decimal:
    return REALS.sqrt(decimal(a)) if a else Decimal(0)


def power(a: Real, exponent: Real) -> Decimal:
    """Like C's pow, where even NaN to the power of 0 is 1."""
    base, to = decimal(a), decimal(exponent)
    if to == 0 or base == 1:
        return Decimal(1)
    if base.is_nan() or to.is_nan():
        return NAN
    if not base or not base.is_finite() or not to.is_finite():
        return _power_of_specials(base, to)
    is_integer = to == to.to_integral_value()
    if base < 0 and not is_integer:
        return NAN
    magnitude = REALS.exp(REALS.multiply(REALS.ln(base.copy_abs()), to)) or _TINY
    odd = is_integer and to.copy_abs() < 2**53 and int(to) % 2 == 1
    return magnitude.copy_negate() if base < 0 and odd else magnitude


def near_power(base: Fraction, exponent: Fraction) -> tuple[Decimal, Decimal]:
    """Returns a power to a few dozen digits, many times as fast, and a bound on its error.

    Args:
        base: not 0; if it is negative, the exponent must be an integer.
        exponent: the exponent.
    """
    if base < 0:
        magnitude, error = near_power(-base, exponent)
        return -magnitude if exponent.numerator % 2 else magnitude, error
    logarithm = NEAR.ln(decimal_of(base, NEAR))
    to = decimal_of(exponent, NEAR)
    found = NEAR.exp(NEAR.multiply(logarithm, to))
    relative = NEAR.multiply(to.copy_abs(), 2 + 4 * logarithm.copy_abs())
    return found, NEAR.multiply(found, NEAR.multiply(relative + 4, NEAR_UNIT))


def decided(number: Decimal, error: Decimal, to: FloatFormat) -> Float | None:
    """Rounds a number known up to an error; returns None if that does not decide the result."""
    low, high = (round_decimal(end, to) for end in (NEAR.subtract(number, error), NEAR.add(number, error)))
    return high if low == high and copysign(1, low) == copysign(1, high) else None


def _power_of_specials(base: Decimal, to: Decimal) -> Decimal:
    """Follows the special cases of C's float64 pow."""
    try:
        return Decimal(pow(float(base), float(to))) if base else Decimal("Infinity" if to < 0 else 0)
    except OverflowError:
        return Decimal("Infinity")


def rounded(number: Real, to: FloatFormat) -> Float:
    """Rounds to the nearest float, ties to even."""
    if isinstance(number, Fraction):
        return round_ratio(number.numerator, number.denominator, to)
    return round_decimal(number, to)
