"""The interface through which FLOAT64 functions emit code, for any target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Number = Any
"""A FLOAT64 in generated code, or a truth value, or an integer of the target's own kind."""


class Writer(Protocol):
    """Emits FLOAT64 code."""

    def number(self, number: float) -> Number: ...

    def add(self, a: Number, b: Number) -> Number: ...

    def subtract(self, a: Number, b: Number) -> Number: ...

    def multiply(self, a: Number, b: Number) -> Number: ...

    def divide(self, a: Number, b: Number) -> Number:
        """A quotient within 2**-50, unless the quotient or the divisor is near the ends of the range."""
        ...

    def ratio(self, a: Number, b: Number) -> Number:
        """Like ``divide``, for a divisor that is never 0 or near the ends of the range, but may be NaN."""
        ...

    def fused(self, a: Number, b: Number, c: Number) -> Number:
        """``a*b + c``, rounded once."""
        ...

    def multiply_add(self, a: Number, b: Number, c: Number) -> Number:
        """``a*b + c``, rounded once or twice."""
        ...

    def horner(self, coefficients: Sequence[float], x: Number) -> Number:
        """A polynomial, highest power first."""
        ...

    def root(self, x: Number) -> Number:
        """A square root within 2**-50."""
        ...

    def negate(self, a: Number) -> Number: ...

    def absolute(self, a: Number) -> Number: ...

    def sign_of(self, size: Number, sign: Number) -> Number:
        """``size``, which is never negative, with the sign of ``sign``."""
        ...

    def compare(self, how: str, a: Number, b: Number) -> Number:
        """A truth value; false if either is NaN."""
        ...

    def is_usual(self, a: Number) -> Number:
        """False if the number is 0, subnormal, infinite or NaN; possibly false if it is negative."""
        ...

    def of_positive(self, x: Number, value: Number) -> Number:
        """``value``, or NaN where ``x`` is a usual negative number."""
        ...

    def not_(self, a: Number) -> Number: ...

    def choose(self, condition: Number, yes: Number, no: Number) -> Number: ...

    def limited(self, x: Number, most: float) -> Number:
        """``x`` clamped to ``[-most, most]``; NaN is preserved."""
        ...

    def at_most(self, x: Number, most: float) -> Number:
        """The minimum of two positive numbers; NaN is preserved."""
        ...

    def unless_negative(self, a: Number) -> Number:
        """``a``, or 0 times ``a`` if it is negative: -0 for -0, and NaN for negative infinity."""
        ...

    def sign_changed(self, a: Number, turns: Number) -> Number:
        """``a``, negated if the integer ``turns`` is odd."""
        ...

    def nearest_product(self, a: Number, b: Number) -> tuple[Number, Number]:
        """An integer nearest to a product below 2**31, as a number and as an integer."""
        ...

    def exponent_added(self, a: Number, exponent: Number) -> Number:
        """``a`` times two to an integer power, where neither is subnormal."""
        ...

    def exponent_taken(self, a: Number, exponent: Number) -> Number:
        """``a`` divided by two to an integer power, under the same condition."""
        ...

    @property
    def is_narrow(self) -> bool:
        """Whether numbers end at about 2**127, and are so short that polynomials must not subtract large terms."""
        ...

    @property
    def has_sixteenths(self) -> bool:
        """Whether ``two_to_sixteenths`` is cheap."""
        ...

    def two_to_sixteenths(self, sixteenths: Number) -> Number:
        """Two to the power of an integer divided by 16."""
        ...

    def split(self, x: Number) -> tuple[Number, Number]:
        """The significand of a number minus 1, from -0.2929 to 0.4143, and its exponent."""
        ...

    def of_odd(self, number: Number, odd: Number, even: Number) -> Number:
        """``odd`` if the integer ``number`` is odd, else ``even``."""
        ...
