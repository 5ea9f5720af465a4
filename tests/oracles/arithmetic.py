"""Sums, products, quotients and extremes of elements, in fractions and integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from opwire.check import Plan
from tests.oracles import Oracle
from tests.oracles.activations import activated
from tests.oracles.elements import (
    Number,
    add,
    each,
    greatest,
    is_nan,
    is_special,
    least,
    nearest_float,
    number,
    output_type,
    over,
    scaled,
    sign,
    times,
    wrap,
)


def _negative(x: Number) -> Number:
    return -x


def _typed(reals: Callable[..., Number], integers: Callable[..., int], *names: str, scales: bool = False) -> Oracle:
    """Returns the oracle of an operator with one formula for floats and one for integers."""

    def one(plan: Plan, *elements: Any) -> Any:
        dtype = output_type(plan)
        if np.issubdtype(type(elements[0]), np.integer):
            values = [scaled(x, plan) if scales else int(x) for x in elements]
            return wrap(integers(*values, dtype) if integers in _OF_TYPE else integers(*values), dtype)
        values = [scaled(x, plan) if scales else number(float(x)) for x in elements]
        return nearest_float(reals(*values), dtype)

    return each(one, *(names or ("ATensor", "BTensor")))


def _remainder(a: Number, b: Number) -> Number:
    if is_nan(a) or is_nan(b) or (is_special(a) and math.isinf(a)) or (is_special(b) and (math.isinf(b) or b == 0)):
        return math.nan
    if is_special(a):
        return a
    return a - b * math.trunc(a / b) or sign(a) * 0.0


def _floor_remainder(a: Number, b: Number) -> Number:
    rest = _remainder(a, b)
    if is_nan(rest):
        return rest
    if is_special(a) or is_special(rest):
        return sign(b) * 0.0
    return a - b * math.floor(a / b) or sign(b) * 0.0


def _quotient(a: int, b: int, dtype: np.dtype[Any]) -> int:
    if not b:
        return -1 if a >= 0 or dtype.itemsize == 8 else 1
    return int(Fraction(a, b))


def _rest(a: int, b: int, dtype: np.dtype[Any]) -> int:
    if not b:
        return a if dtype in (np.int8, np.int16, np.int32) else -1
    return a - b * int(Fraction(a, b))


def _floor_rest(a: int, b: int, dtype: np.dtype[Any]) -> int:
    return a - b * math.floor(Fraction(a, b)) if b else _quotient(a, b, dtype)


def _mean(a: int, b: int, dtype: np.dtype[Any]) -> int:
    total = wrap(a + b, np.dtype(f"{dtype.kind}{max(dtype.itemsize, 4)}"))
    return int(Fraction(int(total), 2))


def _magnitude(a: int, dtype: np.dtype[Any]) -> int:
    return min(abs(a), int(np.iinfo(dtype).max)) if dtype.itemsize < 4 else abs(a)


_OF_TYPE = (_quotient, _rest, _floor_rest, _mean, _magnitude)
"""The functions of integers that depend on their type."""


def _identity(plan: Plan, x: Any) -> Any:
    if plan.attributes.ScaleBias is None:
        return x
    value = scaled(x, plan)
    return output_type(plan).type(value) if isinstance(value, int) else nearest_float(value, output_type(plan))


def _value_scale(plan: Plan, inputs: Any) -> Any:
    source, dtype = inputs["InputTensor"], output_type(plan)
    found = np.empty(source.shape, dtype)
    for place in np.ndindex(*source.shape):
        product = times(number(float(source[place])), number(plan.attributes.Scale))
        found[place] = nearest_float(add(product, number(plan.attributes.Bias[place[1]])), dtype)
    return {"OutputTensor": found}


def _difference(a: Number, b: Number) -> Number:
    return add(a, _negative(b))


def _sign(x: Number) -> Number:
    return 0.0 if is_nan(x) or (is_special(x) and x == 0) else Fraction(int(sign(x)))


def _add1(plan: Plan, a: Any, b: Any) -> Any:
    total = add(number(float(a)), number(float(b)))
    return nearest_float(activated(plan.attributes.FusedActivation, total), output_type(plan))


_INPUT = ("InputTensor",)

EXPECTED = {
    "ELEMENT_WISE_IDENTITY": each(_identity, *_INPUT),
    "ELEMENT_WISE_ABS": _typed(lambda x: -x if sign(x) < 0 else x, _magnitude, *_INPUT, scales=True),
    "ELEMENT_WISE_NEGATE": _typed(_negative, lambda x: -x, *_INPUT),
    "ELEMENT_WISE_SIGN": _typed(_sign, lambda x: (x > 0) - (x < 0), *_INPUT),
    "ELEMENT_WISE_ADD": _typed(add, lambda a, b: a + b),
    "ELEMENT_WISE_SUBTRACT": _typed(_difference, lambda a, b: a - b),
    "ELEMENT_WISE_MULTIPLY": _typed(times, lambda a, b: a * b),
    "ELEMENT_WISE_DIVIDE": _typed(over, _quotient),
    "ELEMENT_WISE_MAX": _typed(greatest, max),
    "ELEMENT_WISE_MIN": _typed(least, min),
    "ELEMENT_WISE_MEAN": _typed(lambda a, b: times(add(a, b), Fraction(1, 2)), _mean),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": _typed(
        lambda a, b: times(_difference(a, b), _difference(a, b)), lambda a, b: (a - b) ** 2
    ),
    "ELEMENT_WISE_MODULUS_TRUNCATE": _typed(_remainder, _rest),
    "ELEMENT_WISE_MODULUS_FLOOR": _typed(_floor_remainder, _floor_rest),
    "ELEMENT_WISE_ADD1": each(_add1, "ATensor", "BTensor"),
    "VALUE_SCALE_2D": _value_scale,
}
