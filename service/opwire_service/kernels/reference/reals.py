"""Real numbers as formulas need them: exact fractions as long as they can be, then decimals of very many digits.

A number is a ``Fraction``, or a ``Decimal``: a root, what was computed from one, an infinity or NaN. Infinities and NaN
follow IEEE arithmetic; a zero has no sign.
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
"""Stands for powers that are too small: that of a positive number is never zero."""


def real(value: Any) -> Real:
    """The real number that a float is."""
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
    """Like C's pow, whose zeroth power is 1 even of NaN."""
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
    """By C's pow of float64, which knows all that is special."""
    try:
        return Decimal(pow(float(base), float(to))) if base else Decimal("Infinity" if to < 0 else 0)
    except OverflowError:
        return Decimal("Infinity")


def rounded(number: Real, to: FloatFormat) -> Float:
    """The nearest float, of two the even one."""
    if isinstance(number, Fraction):
        return round_ratio(number.numerator, number.denominator, to)
    return round_decimal(number, to)
