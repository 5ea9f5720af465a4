"""What functions of FLOAT64 are written with, whatever the code is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Number = Any
"""Some FLOAT64 in code that is being written; or a truth value, or an integer of its own kind."""


class Writer(Protocol):
    """Writes code for FLOAT64."""

    def number(self, number: float) -> Number: ...

    def add(self, a: Number, b: Number) -> Number: ...

    def subtract(self, a: Number, b: Number) -> Number: ...

    def multiply(self, a: Number, b: Number) -> Number: ...

    def divide(self, a: Number, b: Number) -> Number:
        """Within 2**-50, where neither the quotient nor the divisor is near the ends of the range."""
        ...

    def ratio(self, a: Number, b: Number) -> Number:
        """The same by what is never 0 or near the ends of the range, but may be NaN."""
        ...

    def fused(self, a: Number, b: Number, c: Number) -> Number:
        """``a*b + c``, rounded once."""
        ...

    def multiply_add(self, a: Number, b: Number, c: Number) -> Number:
        """``a*b + c``, rounded once or twice."""
        ...

    def horner(self, coefficients: Sequence[float], x: Number) -> Number:
        """A polynomial, the highest power first."""
        ...

    def root(self, x: Number) -> Number:
        """A square root within 2**-50."""
        ...

    def negate(self, a: Number) -> Number: ...

    def absolute(self, a: Number) -> Number: ...

    def sign_of(self, size: Number, sign: Number) -> Number:
        """What is nowhere negative, with the sign of another number."""
        ...

    def compare(self, how: str, a: Number, b: Number) -> Number:
        """A truth value; none holds of NaN."""
        ...

    def is_usual(self, a: Number) -> Number:
        """False where a number is 0, subnormal, infinite or NaN, and perhaps where it is below 0."""
        ...

    def of_positive(self, x: Number, value: Number) -> Number:
        """A value, in place of which stands NaN where a usual number is below 0."""
        ...

    def not_(self, a: Number) -> Number: ...

    def choose(self, condition: Number, yes: Number, no: Number) -> Number: ...

    def limited(self, x: Number, most: float) -> Number:
        """The nearest number within those to this one and its negative; NaN stays."""
        ...

    def at_most(self, x: Number, most: float) -> Number:
        """The lesser of two positive numbers; NaN stays."""
        ...

    def unless_negative(self, a: Number) -> Number:
        """A number, or 0 times it if it is below 0: -0 of -0, and NaN of an infinity below 0."""
        ...

    def sign_changed(self, a: Number, turns: Number) -> Number:
        """A number, or if an integer is odd its negative."""
        ...

    def nearest_product(self, a: Number, b: Number) -> tuple[Number, Number]:
        """An integer next to a product below 2**31, as a number and as an integer."""
        ...

    def exponent_added(self, a: Number, exponent: Number) -> Number:
        """A number times two to the power of an integer, where neither is subnormal."""
        ...

    def exponent_taken(self, a: Number, exponent: Number) -> Number:
        """The same divided by it."""
        ...

    @property
    def has_sixteenths(self) -> bool:
        """Whether ``two_to_sixteenths`` takes little."""
        ...

    def two_to_sixteenths(self, sixteenths: Number) -> Number:
        """Two to the power of an integer over 16."""
        ...

    def split(self, x: Number) -> tuple[Number, Number]:
        """How much a number divided by a power of two lies above 1, from -0.2929 to 0.4143, and its exponent."""
        ...

    def of_odd(self, number: Number, odd: Number, even: Number) -> Number:
        """One of two numbers: the first if an integer is odd."""
        ...
