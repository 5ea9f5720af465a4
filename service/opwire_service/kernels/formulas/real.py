"""The formula primitives on real numbers, with the infinities, NaN and signed zeros of IEEE 754.

A nonzero rational number is a fraction, an irrational number an interval around it, and a zero, an infinity or NaN a
float.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, copysign, floor, inf, isinf, isnan, isqrt, nan, trunc

from typing_extensions import TypeIs

from . import interval
from .interval import Interval, enclose

Number = float | Fraction | Interval


def _is_special(x: Number) -> TypeIs[float]:
    """Returns whether a number is a zero, an infinity or NaN."""
    return isinstance(x, float)


def number(value: float) -> Number:
    """Converts a float or an integer to a number."""
    return Fraction(value) if value and not (isinf(value) or isnan(value)) else float(value)


def sign(x: Number) -> int:
    """Returns 1 or -1, for zeros too; NaN is not allowed."""
    if _is_special(x):
        return int(copysign(1, x))
    return x.sign if isinstance(x, Interval) else (1 if x > 0 else -1)


def _is_nan(x: Number) -> bool:
    return _is_special(x) and isnan(x)


def _is_infinite(x: Number) -> bool:
    return _is_special(x) and isinf(x)


def _is_zero(x: Number) -> bool:
    return _is_special(x) and x == 0.0


def _rational(x: Fraction | int) -> Number:
    return Fraction(x) if x else 0.0


def add(a: Number, b: Number, bits: int) -> Number:
    if _is_special(a) and _is_special(b):
        return a + b
    if _is_special(a):
        return b if a == 0.0 else a
    if _is_special(b):
        return a if b == 0.0 else b
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return _rational(a + b)
    return interval.add(enclose(a, bits), enclose(b, bits), bits)


def negate(a: Number, bits: int = 0) -> Number:
    return interval.negate(a) if isinstance(a, Interval) else -a


def subtract(a: Number, b: Number, bits: int) -> Number:
    return add(a, negate(b), bits)


def multiply(a: Number, b: Number, bits: int) -> Number:
    if _is_special(a) or _is_special(b):
        if _is_nan(a) or _is_nan(b):
            return nan
        return _special(a) * _special(b)
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    return interval.multiply(enclose(a, bits), enclose(b, bits), bits)


def divide(a: Number, b: Number, bits: int) -> Number:
    if _is_special(a) or _is_special(b):
        if _is_nan(a) or _is_nan(b):
            return nan
        if _is_zero(b):
            return nan if _is_zero(a) else sign(a) * sign(b) * inf
        return _special(a) / _special(b)
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a / b
    return interval.divide(enclose(a, bits), enclose(b, bits), bits)


def _special(x: Number) -> float:
    """Returns a zero or an infinity as it is, and 1 or -1 for any other number."""
    return x if _is_special(x) else float(sign(x))


def compare(a: Number, b: Number, bits: int) -> int | None:
    """Returns -1, 0 or 1; None if either is NaN."""
    if _is_nan(a) or _is_nan(b):
        return None
    if isinstance(a, Interval) or isinstance(b, Interval):
        if _is_special(a) or _is_special(b):
            # An irrational number equals neither zero nor an infinity, so its sign decides.
            a, b = (x if _is_special(x) else Fraction(sign(x)) for x in (a, b))
            return (a > b) - (a < b)
        return interval.compare(enclose(a, bits), enclose(b, bits))
    return (a > b) - (a < b)


def minimum(a: Number, b: Number, bits: int) -> Number:
    order = compare(a, b, bits)
    return (b if _is_nan(a) else a) if order is None else (b if order > 0 else a)


def maximum(a: Number, b: Number, bits: int) -> Number:
    order = compare(a, b, bits)
    return (b if _is_nan(a) else a) if order is None else (b if order < 0 else a)


def remainder(a: Number, b: Number, bits: int) -> Number:
    """Returns ``a - b*trunc(a/b)``; a zero has the sign of a."""
    if _is_nan(a) or _is_nan(b) or _is_infinite(a) or _is_infinite(b) or _is_zero(b):
        return nan
    if _is_zero(a):
        return a
    assert isinstance(a, Fraction)
    assert isinstance(b, Fraction)
    rest = abs(a) % abs(b)
    return sign(a) * rest if rest else sign(a) * 0.0


def floor_remainder(a: Number, b: Number, bits: int) -> Number:
    """Returns ``a - b*floor(a/b)``; a zero has the sign of b."""
    rest = remainder(a, b, bits)
    if _is_nan(rest):
        return nan
    if _is_zero(rest):
        return sign(b) * 0.0
    return rest if sign(rest) == sign(b) else add(rest, b, bits)


def mean(a: Number, b: Number, bits: int) -> Number:
    return multiply(add(a, b, bits), Fraction(1, 2), bits)


def absolute(x: Number, bits: int) -> Number:
    return abs(x) if _is_special(x) else (negate(x) if sign(x) < 0 else x)


def signum(x: Number, bits: int) -> Number:
    """Returns -1, 0 or 1; 0 for NaN."""
    return 0.0 if _is_nan(x) or _is_zero(x) else Fraction(sign(x))


def _whole(rounding: Callable[[Fraction], int]) -> Callable[[Number, int], Number]:
    def function(x: Number, bits: int) -> Number:
        if _is_special(x):
            return x
        assert isinstance(x, Fraction)
        return Fraction(rounding(x)) if rounding(x) else sign(x) * 0.0

    return function


def _away(x: Fraction) -> int:
    """Rounds to the nearest integer, halves away from zero."""
    return sign(x) * floor(abs(x) + Fraction(1, 2))


_HALF_PI = "half of pi"

_AT: Mapping[str, tuple[float | str, float | str, float | str, float | str]] = {
    "sqrt": (nan, -0.0, 0.0, inf),
    "exp": (0.0, 1, 1, inf),
    "expm1": (-1, -0.0, 0.0, inf),
    "log": (nan, -inf, -inf, inf),
    "log1p": (nan, -0.0, 0.0, inf),
    "sin": (nan, -0.0, 0.0, nan),
    "cos": (nan, 1, 1, nan),
    "tan": (nan, -0.0, 0.0, nan),
    "asin": (nan, -0.0, 0.0, nan),
    "acos": (nan, _HALF_PI, _HALF_PI, nan),
    "atan": (f"-{_HALF_PI}", -0.0, 0.0, _HALF_PI),
    "sinh": (-inf, -0.0, 0.0, inf),
    "cosh": (inf, 1, 1, inf),
    "tanh": (-1, -0.0, 0.0, 1),
    "asinh": (-inf, -0.0, 0.0, inf),
    "acosh": (nan, nan, nan, inf),
    "atanh": (nan, -0.0, 0.0, nan),
    "erf": (-1, -0.0, 0.0, 1),
    "erfc": (2, 1, 1, 0.0),
}
"""Values of functions at negative infinity, -0, +0 and positive infinity."""

_ENDS: Mapping[str, tuple[float, float, float | None, float | None]] = {
    "sqrt": (0, inf, None, None),
    "log": (0, inf, None, None),
    "log1p": (-1, inf, -inf, None),
    "asin": (-1, 1, None, None),
    "acos": (-1, 1, None, 0.0),
    "acosh": (1, inf, 0.0, None),
    "atanh": (-1, 1, -inf, inf),
}
"""Lower and upper end of each domain, and the function's value there if that is a zero or an infinity."""


def _function(name: str) -> Callable[[Number, int], Number]:
    def function(x: Number, bits: int) -> Number:
        if _is_special(x):
            return nan if isnan(x) else _at(name, x, bits)
        if name in _ENDS:
            low, high, at_low, at_high = _ENDS[name]
            for end, at_end, outside in ((low, at_low, -1), (high, at_high, 1)):
                order = compare(x, number(end), bits)
                if order == outside:
                    return nan
                if order == 0 and at_end is not None:
                    return at_end
        if name == "sqrt" and isinstance(x, Fraction) and (root := _root(x)) is not None:
            return root
        return interval.function(name, enclose(x, bits), bits)

    return function


def _at(name: str, x: float, bits: int) -> Number:
    value = _AT[name][(0 if x < 0 else 3) if isinf(x) else (1 if copysign(1, x) < 0 else 2)]
    if isinstance(value, str):
        half = divide(interval.pi(bits), Fraction(2), bits)
        return half if value == _HALF_PI else negate(half)
    return number(value)


def _root(x: Fraction) -> Fraction | None:
    above, below = isqrt(x.numerator), isqrt(x.denominator)
    return Fraction(above, below) if above**2 == x.numerator and below**2 == x.denominator else None


def atan2(y: Number, x: Number, bits: int) -> Number:
    """Returns the angle of a point, with the special cases of C's atan2."""
    if _is_nan(y) or _is_nan(x):
        return nan
    if _is_zero(y) or (_is_infinite(x) and not _is_infinite(y)):
        return sign(y) * 0.0 if sign(x) > 0 else multiply(Fraction(sign(y)), interval.pi(bits), bits)
    if _is_special(y) or _is_special(x):
        eighths = 4 if not (_is_infinite(y) and _is_infinite(x)) else (2 if sign(x) > 0 else 6)
        return multiply(Fraction(sign(y) * eighths, 8), interval.pi(bits), bits)
    return interval.atan2(enclose(y, bits), enclose(x, bits), bits)


def power(x: Number, y: Number, bits: int) -> Number:
    """Returns the power, with the special cases of C's pow."""
    if _is_zero(y) or x == 1:
        return Fraction(1)
    if _is_nan(x) or _is_nan(y):
        return nan
    if _is_infinite(y):
        return _to_infinity(x, y)
    assert isinstance(y, Fraction)
    whole = y.denominator == 1
    odd = whole and y.numerator % 2 == 1
    if _is_special(x):
        magnitude = 0.0 if (x == 0.0) == (y > 0) else inf
        return copysign(magnitude, x) if odd else magnitude
    if sign(x) < 0:
        if not whole:
            return nan
        value = _positive_power(negate(x), y, bits)
        return negate(value) if odd else value
    return _positive_power(x, y, bits)


def _to_infinity(x: Number, y: Number) -> Number:
    order = compare(absolute(x, 0), Fraction(1), 64)
    if not order:
        return Fraction(1)
    return inf if order == sign(y) else 0.0


_MOST_BITS = 1024
"""Size limit for powers computed as fractions; larger ones are neither floats nor midpoints of two floats."""


def _positive_power(x: Number, y: Fraction, bits: int) -> Number:
    if x == 1:
        return Fraction(1)
    if isinstance(x, Fraction):
        base: Fraction | None = x
        for _ in range(y.denominator.bit_length() - 1):  # the denominator is a power of two
            base = None if base is None else _root(base)
        if base is not None:
            size = max(base.numerator.bit_length(), base.denominator.bit_length())
            if size * abs(y.numerator) <= _MOST_BITS:
                return base**y.numerator
    return interval.power(enclose(x, bits), enclose(y, bits), bits)  # type: ignore[arg-type]


FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "remainder": remainder,
    "floor_remainder": floor_remainder,
    "mean": mean,
    "minimum": minimum,
    "maximum": maximum,
    "power": power,
    "atan2": atan2,
    "negate": negate,
    "absolute": absolute,
    "sign": signum,
    "ceil": _whole(ceil),
    "floor": _whole(floor),
    "truncate": _whole(trunc),
    "round_even": _whole(round),
    "round_away": _whole(_away),
    **{name: _function(name) for name in _AT},
}
"""The primitives that return numbers; their last argument is the precision of intervals in bits."""

COMPARISONS: Mapping[str, Callable[[int], bool]] = {
    "equal": lambda order: order == 0,
    "less": lambda order: order < 0,
    "less_equal": lambda order: order <= 0,
    "greater": lambda order: order > 0,
    "greater_equal": lambda order: order >= 0,
}
"""The comparison primitives, given the order of their operands; with NaN none holds."""
