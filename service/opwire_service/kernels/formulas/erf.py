"""The error function and its complement in float64, with NumPy.

``erf`` is within 4 ULPs. So is ``erfc`` except that rounding ``x*x`` perturbs its argument, which adds up to 2*x*x ULPs
far from 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.tensor import Array

from .coefficients import ERF_NEAR, ERFC, ERFC_MIDDLE


def erf(x: Array) -> Array:
    """Returns the error function of each element."""
    far = np.copysign(1 - _erfc_of_positive(np.abs(x)), x)
    return np.where(np.abs(x) < 1, _near(x), far)


def erfc(x: Array) -> Array:
    """Returns the complementary error function of each element."""
    tail = _erfc_of_positive(np.abs(x))
    return np.where(np.abs(x) < 0.5, 1 - _near(x), np.where(x < 0, 2 - tail, tail))


def _near(x: Array) -> Array:
    result = _polynomial(ERF_NEAR, np.minimum(x * x, 1))
    result *= x
    return result


def _erfc_of_positive(x: Array) -> Array:
    bounded = np.minimum(x, 64)  # exp(-x*x) is 0 beyond
    series: Array = _polynomial(ERFC, (bounded - ERFC_MIDDLE) / (bounded + ERFC_MIDDLE))
    series *= np.exp(-bounded * bounded)
    series /= 1 + 2 * bounded
    return series


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Array:
    result: Array = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result *= x
        result += coefficient
    return result
