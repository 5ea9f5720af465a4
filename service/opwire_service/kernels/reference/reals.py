"""Real numbers for formulas: exact fractions as long as possible, then decimals of very high precision.

A number is a ``Fraction``, or a ``Decimal`` if it is a root, derived from one, an infinity or NaN. Infinities and NaN
follow IEEE 754; zeros have no sign.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from operator import add as plus
from operator import mul as times
from operator import sub as minus
from typing import Any

from ..decimals import context, decimal_of, round_decimal
from ..exact import Float, FloatFormat, round_ratio

Real = Fraction | Decimal

REALS = context()

ZERO, ONE = Fraction(0), Fraction(1)

NAN = Decimal("NaN")

_TINY = Decimal((0, (1,), REALS.Emin))
"""Stands for powers that underflow: a power of a positive number is never zero."""


def real(value: Any) -> Real:
    """Converts a float exactly."""
    number = float(value)
    return Fraction(number) if isfinite(number) else Decimal(number)


def decimal(number: Real) -> Decimal:
    return decimal_of(number, REALS) if isinstance(number, Fraction) else number


def _combined(exactly: Callable[[Any, Any], Any], nearly: Callable[[Decimal, Decimal], Decimal]) -> Any:
    def combine(a: Real, b: Real) -> Real:
        if isinstance(a, Fraction) and isinstance(b, Fraction):
            exact: Fraction = exactly(a, b)
            return exact
        return nearly(decimal(a), decimal(b))

    return combine


Binary = Callable[[Real, Real], Real]

add: Binary = _combined(plus, REALS.add)
subtract: Binary = _combined(minus, REALS.subtract)
multiply: Binary = _combined(times, REALS.multiply)


def divide(a: Real, b: Real) -> Real:
    if isinstance(a, Fraction) and isinstance(b, Fraction) and b:
        return a / b
    return REALS.divide(decimal(a), decimal(b))


def root(a: Real) -> Decimal:
    return REALS.sqrt(decimal(a))


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
