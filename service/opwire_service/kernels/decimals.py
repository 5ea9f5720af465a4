"""Real numbers as decimals with enough digits that one final rounding yields the nearest float.

The caller provides the context, so threads share no state. Nothing traps; overflow yields infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from opwire.tensor import DataType

from .exact import Float, FloatFormat, round_ratio

FLOAT64 = FloatFormat(DataType.FLOAT64, 52)

DIGITS = 250
"""Precision where differences may cancel: the error stays far below the least subnormal FLOAT32."""

_FIRST_DIGITS = 40
"""Initial precision, which decides the rounding of most results."""

_LEAST = -1100
"""Decimal exponent below which every number rounds to zero in every format."""

Bounds = tuple[Decimal, Decimal]
"""Lower and upper bound of a real number."""


def context(digits: int = DIGITS) -> Context:
    return Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def decimal_of(number: Fraction, within: Context) -> Decimal:
    """Converts a fraction, rounded to the precision of the context."""
    return within.divide(Decimal(number.numerator), Decimal(number.denominator))


def round_decimal(number: Decimal, to: FloatFormat) -> Float:
    """Rounds to the nearest float, ties to even. Infinities, NaN and zeros of any exponent are preserved."""
    if not number or not number.is_finite():
        return to.of(float(number))
    if number.adjusted() < _LEAST:
        number = Decimal((number.is_signed(), (1,), _LEAST))
    if number.adjusted() > -_LEAST:
        return to.of(float("-inf" if number.is_signed() else "inf"))
    return round_ratio(*number.as_integer_ratio(), to)


def round_bounds(bounds: Callable[[Context], Bounds], to: FloatFormat) -> Float:
    """Rounds a real number that is not a tie, given bounds that tighten as the precision of the context grows."""
    digits = _FIRST_DIGITS
    while True:
        low, high = (round_decimal(bound, to) for bound in bounds(context(digits)))
        if low == high:
            return high
        digits *= 2
