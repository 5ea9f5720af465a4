"""Real numbers in decimal: so many digits that rounding once more gives the float nearest to the real number.

Contexts are the caller's own, so threads do not meet; nothing traps, overflow is infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from opwire.tensor import DataType

from .exact import Float, FloatFormat, round_ratio

FLOAT64 = FloatFormat(DataType.FLOAT64, 52)

DIGITS = 250
"""Of numbers whose differences may cancel: what is left of the greatest is far below the least subnormal FLOAT32."""

_FIRST_DIGITS = 40
"""With so many most results are decided."""

_LEAST = -1100
"""Powers of ten below which every format knows but zero."""

Bounds = tuple[Decimal, Decimal]
"""The least and the greatest that a real number may be."""


def context(digits: int = DIGITS) -> Context:
    return Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def decimal_of(number: Fraction, within: Context) -> Decimal:
    """A fraction, exact as far as the context has digits."""
    return within.divide(Decimal(number.numerator), Decimal(number.denominator))


def round_decimal(number: Decimal, to: FloatFormat) -> Float:
    """The nearest float, of two the even one; infinities, NaN and zeros, of any exponent, stay what they are."""
    if not number or not number.is_finite():
        return to.of(float(number))
    if number.adjusted() < _LEAST:
        number = Decimal((number.is_signed(), (1,), _LEAST))
    if number.adjusted() > -_LEAST:
        return to.of(float("-inf" if number.is_signed() else "inf"))
    return round_ratio(*number.as_integer_ratio(), to)


def round_bounds(bounds: Callable[[Context], Bounds], to: FloatFormat) -> Float:
    """A real number that is no tie, from bounds that narrow with the digits of the context."""
    digits = _FIRST_DIGITS
    while True:
        low, high = (round_decimal(bound, to) for bound in bounds(context(digits)))
        if low == high:
            return high
        digits *= 2
