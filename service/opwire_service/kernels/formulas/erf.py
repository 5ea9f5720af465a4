"""The error function and its complement in float64, with NumPy.

``erf`` is within 4 ULPs. So is ``erfc`` except that rounding ``x*x`` perturbs its argument, which adds up to 2*x*x ULPs
far from 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.tensor import Array

_ERFC = (
    3.2052623379289157e-10,
    -2.618520156503145e-09,
    -3.798189797736207e-09,
    3.195398612057818e-08,
    2.3398534313040898e-08,
    -2.4851108650210706e-07,
    -5.741076073013916e-08,
    1.7419011945194367e-06,
    -9.733875167494142e-07,
    -1.1437980374495534e-05,
    2.2384138525656757e-05,
    5.164649341002877e-05,
    -0.00029015404203352704,
    0.000293714390578856,
    0.001755625843431864,
    -0.00974657968596217,
    0.028362277420377335,
    -0.05869339857631061,
    0.09230432116025894,
    -0.10880393014246645,
    0.08227673849014977,
    0.003585415485479575,
    -0.14024059858554702,
    1.2375126308378275,
)
"""Coefficients of (1 + 2*x) * exp(x*x) * erfc(x) in (x - 3.75)/(x + 3.75), highest power first."""

_ERF = (
    -7.795898827002142e-10,
    1.3720064546777686e-08,
    -1.6208483801871705e-07,
    1.6447424703317362e-06,
    -1.492473690741966e-05,
    0.00012055294904839707,
    -0.0008548325975389692,
    0.0052239776071164225,
    -0.02686617064323777,
    0.11283791670945006,
    -0.37612638903183543,
    1.1283791670955126,
)
"""Coefficients of erf(x)/x in x*x, for x up to 1."""

_MIDDLE = 3.75


def erf(x: Array) -> Array:
    """Returns the error function of each element."""
    far = np.copysign(1 - _erfc_of_positive(np.abs(x)), x)
    return np.where(np.abs(x) < 1, _near(x), far)


def erfc(x: Array) -> Array:
    """Returns the complementary error function of each element."""
    tail = _erfc_of_positive(np.abs(x))
    return np.where(np.abs(x) < 0.5, 1 - _near(x), np.where(x < 0, 2 - tail, tail))


def _near(x: Array) -> Array:
    result = _polynomial(_ERF, np.minimum(x * x, 1))
    result *= x
    return result


def _erfc_of_positive(x: Array) -> Array:
    bounded = np.minimum(x, 64)  # exp(-x*x) is 0 beyond
    series: Array = _polynomial(_ERFC, (bounded - _MIDDLE) / (bounded + _MIDDLE))
    series *= np.exp(-bounded * bounded)
    series /= 1 + 2 * bounded
    return series


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Array:
    result: Array = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result *= x
        result += coefficient
    return result
