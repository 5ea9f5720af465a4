"""64-bit ScaleBias, for which float64 is too narrow: floats in two exact parts, integers in Python's arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np

from opwire.tensor import Array, DataType

from ...execution import Stop, Stopped
from ..error_free import two_product, two_sum
from .resolve import integer_range

_NEAR = 2.0**-50
"""Relative error of the lower part."""

PIECE = 1 << 12
"""Number of integers between polls of ``stop``."""


def scaled_floats(x: Array, scale: float, bias: float) -> tuple[Array, Array]:
    """Returns float64 ``x * scale + bias`` rounded once, and a mask of the elements left undecided."""
    product, rest = two_product(x, scale)
    total, lower = two_sum(product, bias)
    lower += rest
    low, high = total + lower * (1 - _NEAR), total + lower * (1 + _NEAR)
    is_undecided = (low != high) | ((np.abs(product) < 1e-250) & (x != 0))
    is_special = ~np.isfinite(x) if isfinite(scale) and isfinite(bias) else np.ones(x.shape, bool)
    return np.where((lower == 0) | is_special, total, low), is_undecided & ~is_special


def scaled_integers(x: Array, scale: float, bias: float, data_type: DataType, stop: Stop) -> Array | None:
    """Returns integer ``x * scale + bias``, truncated and saturated, or None if scale or bias is not finite.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    if not (isfinite(scale) and isfinite(bias)):
        return None
    factor, summand = Fraction(scale), Fraction(bias)
    whole = factor.denominator * summand.denominator
    times, plus = factor.numerator * summand.denominator, summand.numerator * factor.denominator
    least, greatest = integer_range(data_type)
    results = np.empty(x.size, data_type.dtype)
    for start in range(0, x.size, PIECE):
        if stop():
            raise Stopped
        sums = [value * times + plus for value in x[start : start + PIECE].tolist()]
        quotients: list[Any] = [total // whole if total >= 0 else -(-total // whole) for total in sums]
        results[start : start + PIECE] = [min(max(quotient, least), greatest) for quotient in quotients]
    return results
