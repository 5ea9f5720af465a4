"""Functions of elements, by mpmath's functions of the exact argument."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from opwire.check import Plan
from tests.oracles.elements import (
    Number,
    each,
    is_nan,
    is_special,
    mp,
    nearest_float,
    number,
    of_real,
    output_type,
    over,
    real,
    scaled,
    sign,
    to_integer,
    wrap,
)

_ODD = ["SIN", "TAN", "ASIN", "ATAN", "SINH", "TANH", "ASINH", "ATANH", "ERF", "SQRT"]

FUNCTIONS = ("ACOS", "COS", "COSH", "ACOSH", "EXP", "LOG", *_ODD)

_AT_INFINITY = {
    "EXP": (0.0, math.inf),
    "LOG": (math.nan, math.inf),
    "SQRT": (math.nan, math.inf),
    "ATAN": (-mp.pi / 2, mp.pi / 2),
    "SINH": (-math.inf, math.inf),
    "COSH": (math.inf, math.inf),
    "TANH": (Fraction(-1), Fraction(1)),
    "ASINH": (-math.inf, math.inf),
    "ACOSH": (math.nan, math.inf),
    "ERF": (Fraction(-1), Fraction(1)),
}

_DOMAINS = {
    "LOG": (0, math.inf),
    "SQRT": (0, math.inf),
    "ASIN": (-1, 1),
    "ACOS": (-1, 1),
    "ACOSH": (1, math.inf),
    "ATANH": (-1, 1),
}

_NAMES = {"ERF": "erf", "LOG": "ln"}


def function(name: str, x: Number) -> Number:
    """Applies a named function to a number."""
    if is_nan(x):
        return math.nan
    if is_special(x) and x == 0:
        if name in _ODD:
            return x
        x = Fraction(0)
    if is_special(x):
        return _AT_INFINITY.get(name, (math.nan, math.nan))[x > 0]
    low, high = _DOMAINS.get(name, (-math.inf, math.inf))
    if not low <= x <= high:
        return math.nan
    if name == "ATANH" and abs(x) == 1:
        return sign(x) * math.inf
    if name == "LOG" and x == 0:
        return -math.inf
    if (name in ("LOG", "ACOSH") or name == "ACOS") and x == 1:
        return 0.0
    if name == "SQRT":
        above, below = math.isqrt(x.numerator), math.isqrt(x.denominator)
        if above**2 == x.numerator and below**2 == x.denominator:
            return Fraction(above, below)
    if name in ("SINH", "TANH", "ATANH", "ASINH", "ERF", "ASIN", "ATAN", "SIN", "TAN") and abs(x) < Fraction(1, 2**400):
        return x  # to more bits than the result is rounded to
    return getattr(mp, _NAMES.get(name, name.lower()))(real(x))


def _whole(rounding: Any) -> Any:
    def rounded(plan: Plan, x: Number) -> Number:
        if is_special(x):
            return x
        whole = rounding(plan, x)
        return Fraction(whole) if whole else sign(x) * 0.0

    return of_real(rounded)


def _round(plan: Plan, x: Fraction) -> int:
    mode = plan.attributes.RoundingMode.name
    if mode == "HALVES_TO_NEAREST_EVEN":
        return round(x)
    if mode == "TOWARD_ZERO":
        return math.trunc(x)
    return int(sign(x)) * math.floor(abs(x) + Fraction(1, 2))


def power(x: Number, y: Number) -> Number:
    """Returns C's ``pow`` over the reals."""
    if (is_special(y) and y == 0) or x == 1:
        return Fraction(1)
    if is_nan(x) or is_nan(y):
        return math.nan
    whole = not is_special(y) and y.denominator == 1
    odd = whole and y.numerator % 2 == 1
    if is_special(x) or is_special(y):
        base = x if is_special(x) else _beside_one(x)
        exponent = y if is_special(y) else (sign(y) * (3 if odd else 2) if whole else sign(y) * 0.75)
        return _special_power(base, exponent)
    if x < 0 and not whole:
        return math.nan
    value = _positive_power(abs(x), y)
    return -value if x < 0 and odd else value


def _special_power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except ValueError:  # negative power of zero
        return math.copysign(math.inf, base) if exponent % 2 == 1 else math.inf


def _beside_one(x: Fraction) -> float:
    """Returns a float that compares with -1, 0 and 1 as the number does."""
    return sign(x) * (1.0 if abs(x) == 1 else (2.0 if abs(x) > 1 else 0.5))


def _positive_power(x: Fraction, y: Fraction) -> Number:
    if y.denominator == 1 and abs(y) <= 64:
        return x**y.numerator
    root: Fraction | None = x
    for _ in range(y.denominator.bit_length() - 1):
        found = root and function("SQRT", root)
        root = found if isinstance(found, Fraction) else None
    if root is not None and abs(y.numerator) <= 64:
        return root**y.numerator
    return mp.exp(real(y) * mp.ln(real(x)))


def _power_of_integers(base: int, exponent: int, dtype: np.dtype[Any]) -> Any:
    if exponent < 0:
        return dtype.type(base ** (exponent % 2) if abs(base) == 1 else 0)
    register = np.dtype(f"{dtype.kind}{max(dtype.itemsize, 4)}")
    limits = np.iinfo(dtype)
    return dtype.type(sorted((int(limits.min), int(wrap(pow(base, exponent, 2**64), register)), int(limits.max)))[1])


def _pow(plan: Plan, x: Any, y: Any) -> Any:
    base, exponent, dtype = scaled(x, plan), scaled(y, plan), output_type(plan)
    if isinstance(base, int) and isinstance(exponent, int):
        return _power_of_integers(base, exponent, dtype)
    base, exponent = (number(each) if isinstance(each, int) else each for each in (base, exponent))
    result = power(base, exponent)
    if np.issubdtype(dtype, np.integer):
        return dtype.type(to_integer(result, dtype))
    return nearest_float(result, dtype)


def _atan2(plan: Plan, y: Number, x: Number) -> Number:
    if is_nan(y) or is_nan(x):
        return math.nan
    quarters = None
    if is_special(y) or is_special(x):
        rough = math.atan2(_far(y), _far(x))
        quarters = round(rough / (math.pi / 4))
        return math.copysign(0.0, rough) if not quarters else mp.pi * quarters / 4
    if x > 0 and abs(y / x) < Fraction(1, 2**400):
        return y / x
    return mp.atan2(real(y), real(x))


def _far(x: Number) -> float:
    return x if is_special(x) else sign(x)


EXPECTED = {
    **{f"ELEMENT_WISE_{name}": of_real(lambda plan, x, name=name: function(name, x)) for name in FUNCTIONS},
    "ELEMENT_WISE_CEIL": _whole(lambda plan, x: math.ceil(x)),
    "ELEMENT_WISE_FLOOR": _whole(lambda plan, x: math.floor(x)),
    "ELEMENT_WISE_ROUND": _whole(_round),
    "ELEMENT_WISE_CONSTANT_POW": of_real(lambda plan, x: power(x, number(plan.attributes.Exponent))),
    "ELEMENT_WISE_RECIP": of_real(lambda plan, x: over(Fraction(1), x)),
    "ELEMENT_WISE_POW": each(_pow, "InputTensor", "ExponentTensor"),
    "ELEMENT_WISE_ATAN_YX": of_real(_atan2, "ATensor", "BTensor"),
}
