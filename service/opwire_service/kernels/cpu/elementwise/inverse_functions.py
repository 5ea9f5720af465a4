"""Vectorized FLOAT64 inverse functions, with error bounds as in ``approximations``."""

from __future__ import annotations

import math

from .approximations import FUNCTIONS as OTHERS
from .approximations import log
from .lanes import Lanes, Vector

_ATAN = (
    -0.019162068915902573,
    0.03921955253255129,
    -0.05085030492810941,
    0.058580687568615106,
    -0.06664502215671447,
    0.07692182535116648,
    -0.09090904549884611,
    0.11111111014561013,
    -0.14285714284657894,
    0.1999999999999548,
    -0.3333333333333333,
)
"""(atan(t)/t - 1) / t**2 as a polynomial in t*t, for t up to tan(pi/8): within 2**-56.9."""

_ASIN = (
    0.02877844261259304,
    -0.014881409392818066,
    0.017419357964884856,
    0.00545087818772055,
    0.010324318288744113,
    0.011478952690257387,
    0.013971235301124539,
    0.017352391265909227,
    0.022372173002005596,
    0.030381944137085216,
    0.04464285714637338,
    0.07499999999998425,
    0.16666666666666669,
)
"""(asin(t)/t - 1) / t**2 as a polynomial in t*t, for t up to 1/2: within 2**-57.4."""

_HALF_PI = math.pi / 2


def atan(v: Lanes, x: Vector) -> Vector:
    """Within 2**-50: the argument is within 3u and is not amplified, nor are the last two sums.

    Above 1, the arctangent of the reciprocal is subtracted from pi/2; above tan(pi/8), that of (t - 1)/(t + 1) is added
    to pi/4.
    """
    size = v.absolute(x)
    is_large = v.compare(">", size, v.number(1))
    t = v.choose(is_large, v.divide(v.number(1), size), size)
    is_upper = v.compare(">", t, v.number(math.sqrt(2) - 1))
    s = v.choose(is_upper, v.divide(v.subtract(t, v.number(1)), v.add(t, v.number(1))), t)
    z = v.multiply(s, s)
    near = v.multiply_add(v.multiply(s, z), v.polynomial(_ATAN, z), s)
    near = v.choose(is_upper, v.add(near, v.number(math.pi / 4)), near)
    return v.sign_of(v.choose(is_large, v.subtract(v.number(_HALF_PI), near), near), x)


def _asin_series(v: Lanes, t: Vector) -> Vector:
    """For numbers up to 1/2, within 2u."""
    z = v.multiply(t, t)
    return v.multiply_add(v.multiply(t, z), v.polynomial(_ASIN, z), t)


def _asin_of_upper(v: Lanes, size: Vector) -> Vector:
    """Returns ``acos(size)`` from 1/2 on: twice the arcsine of sqrt((1 - size) / 2), within 4u; NaN above 1."""
    half = v.multiply(v.subtract(v.number(1), size), v.number(0.5))
    series = _asin_series(v, v.call("sqrt", half))
    return v.add(series, series)


def asin(v: Lanes, x: Vector) -> Vector:
    """Within 2**-50: above 1/2, the number subtracted from pi/2 is at most twice the result."""
    size = v.absolute(x)
    upper = v.subtract(v.number(_HALF_PI), _asin_of_upper(v, size))
    is_upper = v.compare(">", size, v.number(0.5))
    return v.sign_of(v.choose(is_upper, upper, _asin_series(v, size)), x)


def acos(v: Lanes, x: Vector) -> Vector:
    """Within 2**-50: differences are at least pi/3."""
    size = v.absolute(x)
    upper = _asin_of_upper(v, size)
    outer = v.choose(v.compare("<", x, v.number(0)), v.subtract(v.number(math.pi), upper), upper)
    inner = v.subtract(v.number(_HALF_PI), _asin_series(v, x))
    return v.choose(v.compare("<=", size, v.number(0.5)), inner, outer)


def _log_of_1_plus(v: Lanes, y: Vector) -> Vector:
    """For nonnegative numbers, within 2**-49.5: the logarithm of 1 + y rounded, plus a correction."""
    total = v.add(y, v.number(1))
    rest = v.divide(v.subtract(y, v.subtract(total, v.number(1))), total)
    result = v.add(log(v, total), rest)
    return v.choose(v.compare("==", y, v.infinity), y, result)


def asinh(v: Lanes, x: Vector) -> Vector:
    """For numbers whose squares do not overflow, within 2**-49: the logarithm's argument is within 4u."""
    size = v.absolute(x)
    squared = v.multiply(size, size)
    root = v.call("sqrt", v.add(squared, v.number(1)))
    above = v.add(size, v.divide(squared, v.add(root, v.number(1))))
    above = v.choose(v.compare("==", size, v.infinity), size, above)
    return v.sign_of(_log_of_1_plus(v, above), x)


def acosh(v: Lanes, x: Vector) -> Vector:
    """Like ``asinh``; the difference is exact close to 1."""
    above = v.subtract(x, v.number(1))
    root = v.call("sqrt", v.multiply(above, v.add(x, v.number(1))))
    above = v.choose(v.compare("<", x, v.number(1)), v.number(math.nan), v.add(above, root))
    return _log_of_1_plus(v, above)


def atanh(v: Lanes, x: Vector) -> Vector:
    """Within 2**-49: half the logarithm of 1 + y, where y = 2x / (1 - x) is within 2u."""
    size = v.absolute(x)
    y = v.divide(v.add(size, size), v.subtract(v.number(1), size))
    y = v.choose(v.compare(">", size, v.number(1)), v.number(math.nan), y)
    return v.sign_of(v.multiply(_log_of_1_plus(v, y), v.number(0.5)), x)


FUNCTIONS = {**OTHERS, **{function.__name__: function for function in (atan, asin, acos, asinh, acosh, atanh)}}
"""All vector functions, by primitive."""
