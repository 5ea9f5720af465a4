"""Shared by the oracles of element-wise operators: real numbers with the signed zeros and infinities of floats.

A number is a fraction or an mpmath number, or a Python float if it is zero, infinite or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Oracle, fraction_of

mp = mpmath.MPContext()
mp.prec = 700
"""More bits than the literal formulas lose to cancellation, unless their result is as good as zero."""

Number = Any


def number(value: float) -> Number:
    """Converts a float to a number."""
    return Fraction(value) if math.isfinite(value) and value else float(value)


def is_special(x: Number) -> bool:
    return isinstance(x, float)


def is_nan(x: Number) -> bool:
    return isinstance(x, float) and math.isnan(x)


def as_float(x: Number) -> float:
    """Returns a float with the same sign, infinite, zero or NaN where the number is."""
    return x if isinstance(x, float) else (1.0 if x > 0 else -1.0)


def sign(x: Number) -> float:
    return math.copysign(1, as_float(x))


def add(a: Number, b: Number) -> Number:
    if is_special(a) and is_special(b):
        return a + b
    if is_special(a):
        return b if a == 0 else a
    if is_special(b):
        return a if b == 0 else b
    return a + b or 0.0


def times(a: Number, b: Number) -> Number:
    return as_float(a) * as_float(b) if is_special(a) or is_special(b) else a * b


def over(a: Number, b: Number) -> Number:
    if is_special(b) and b == 0:
        return math.nan if is_nan(a) or (is_special(a) and a == 0) else sign(a) * sign(b) * math.inf
    return as_float(a) / as_float(b) if is_special(a) or is_special(b) else a / b


def real(x: Number) -> Any:
    """Converts a finite number for mpmath."""
    if isinstance(x, Fraction):
        return mp.mpf(x.numerator) / x.denominator
    return mp.mpf(x)


def greater(a: Number, b: Number) -> bool:
    """Whether a > b; False with NaN."""
    if is_nan(a) or is_nan(b):
        return False
    if is_special(a) and is_special(b):
        return bool(a > b)
    if is_special(a) or is_special(b):
        return as_float(a) > as_float(b)
    return bool(a > b)


def least(a: Number, b: Number) -> Number:
    """Returns the smaller number: the first of two equal ones, and not NaN if possible."""
    if is_nan(a):
        return b
    return b if greater(a, b) else a


def greatest(a: Number, b: Number) -> Number:
    if is_nan(a):
        return b
    return b if greater(b, a) else a


def nearest_float(x: Number, dtype: np.dtype[Any]) -> Any:
    """Rounds a number to the nearest float, ties to even; underflow keeps the sign."""
    if is_special(x):
        return dtype.type(x)
    if isinstance(x, mp.mpf) and abs(mp.mag(x)) > 2000:
        return dtype.type(sign(x) * (math.inf if mp.mag(x) > 0 else 0.0))
    exact = fraction_of(x)
    assert exact is not None
    info = np.finfo(dtype)
    unit = max(_binade(exact) - info.nmant, info.minexp - info.nmant)
    steps = exact / Fraction(2) ** unit
    whole = round(steps)  # round() of a Fraction rounds to nearest, ties to even
    if not whole:
        return dtype.type(sign(exact) * 0.0)
    value = Fraction(whole) * Fraction(2) ** unit
    if abs(value) >= Fraction(2) ** info.maxexp:
        return dtype.type(sign(exact) * math.inf)
    return dtype.type(float(value))


def _binade(exact: Fraction) -> int:
    """Returns the exponent of the largest power of two not above the magnitude."""
    exponent = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= abs(exact) else exponent - 1


def to_integer(x: Number, dtype: np.dtype[Any]) -> int:
    """Truncates, then saturates; NaN becomes 0."""
    info = np.iinfo(dtype)
    if is_nan(x):
        return 0
    if is_special(x):
        return 0 if x == 0 else (int(info.max) if x > 0 else int(info.min))
    return min(
        max(int(x) if isinstance(x, Fraction) else int(mp.floor(abs(x)) * mp.sign(x)), int(info.min)), int(info.max)
    )


def wrap(x: int, dtype: np.dtype[Any]) -> Any:
    info = np.iinfo(dtype)
    span = int(info.max) - int(info.min) + 1
    return dtype.type((x - int(info.min)) % span + int(info.min))


def scaled(x: Any, plan: Plan) -> Number:
    """Returns ``x * Scale + Bias`` as a number; for integers, wrapped to their type."""
    given = getattr(plan.attributes, "ScaleBias", None)
    is_integer = np.issubdtype(type(x), np.integer)
    if given is None:
        return int(x) if is_integer else number(float(x))
    value = number(int(x) if is_integer else float(x))
    found = add(times(value, number(given.Scale)), number(given.Bias))
    return to_integer(found, np.dtype(type(x))) if is_integer else found


def each(function: Callable[..., Any], *names: str) -> Oracle:
    """Returns the oracle of operators computed by ``function(plan, *elements)`` on NumPy scalars."""

    def expected(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Array]:
        (name, desc), *_ = plan.outputs.items()
        found = np.empty(desc.sizes, desc.data_type.dtype)
        for place in np.ndindex(*desc.sizes):
            found[place] = function(plan, *(inputs[each_name][place] for each_name in names))
        return {name: found}

    return expected


def output_type(plan: Plan) -> np.dtype[Any]:
    (desc, *_) = plan.outputs.values()
    dtype: np.dtype[Any] = desc.data_type.dtype
    return dtype


def of_real(function: Callable[..., Number], *names: str) -> Oracle:
    """Returns the oracle of ``function(plan, *numbers)``, with ScaleBias applied to the first, rounded once."""

    def one(plan: Plan, *elements: Any) -> Any:
        first, *others = elements
        result = function(plan, scaled(first, plan), *(number(float(x)) for x in others))
        return nearest_float(result, output_type(plan))

    return each(one, *(names or ("InputTensor",)))
