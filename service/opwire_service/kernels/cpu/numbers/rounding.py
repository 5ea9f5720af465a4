"""The last step of float sums: rounds a sum correctly, or reports that its error bound does not decide the result.

A sum is ``high + low``, two float64 whose exact sum counts, with |low| at most half an ULP of ``high``. Its absolute
error is at most ``error``; 0 means that it is exact. ``UNIT`` is the relative error of one operation.
"""

from __future__ import annotations

import math

from ... import error_free
from ..jit.compiler import inner
from ..jit.element import bits_double, double_bits, float64, fused
from .formats import log_tolerance, narrow, value_of

SUM, AVERAGE, L2, LOG_SUM = 0, 1, 2, 3
"""Function applied to the sum before rounding: none, division by the count, square root, or logarithm."""

UNIT = 2.0**-53
"""Unit roundoff of float64."""

LOG_ZERO_TOLERANCE = 4e-16
"""Absolute error of a logarithm close to zero."""


two_sum = inner(error_free.two_sum)


@inner
def to_odd(high: float, low: float) -> float:
    """Truncates ``high + low`` to a float64 whose last bit is set if anything was cut off.

    Rounding the result to at most 51 bits gives the same as rounding ``high + low`` (Boldo and Melquiond).
    """
    bits = double_bits(high)
    if low != 0.0 and not bits & 1:
        bits += 1 if (low > 0.0) == (high > 0.0) else -1
    return bits_double(bits)


@inner
def _apply(value: float, count: int, function: int) -> float:
    if function == AVERAGE:
        return value / count
    return math.sqrt(value) if function == L2 else value


@inner
def _special(value: float, function: int, zero: float) -> int:
    """Returns the result of a sum that is infinite or NaN."""
    if function == LOG_SUM and value < 0.0:
        value = math.nan
    return narrow(value, zero)


@inner
def _logarithm(high: float, low: float, error: float, zero: float) -> tuple[bool, int]:
    magnitude = abs(high)
    if error > 0.0 and not (magnitude - abs(low) > 2.0 * error):
        return False, 0
    if high < 0.0:
        return True, narrow(math.nan, zero)
    if high == 0.0:
        return True, narrow(-math.inf, zero)
    result = math.log(high) + low / high
    if error > max(abs(result) * log_tolerance(zero), LOG_ZERO_TOLERANCE) * magnitude:
        return False, 0
    return True, narrow(result, zero)


@inner
def _exact(high: float, low: float, count: int, function: int, zero: float) -> int:
    """Returns the result of an exact sum."""
    if high == 0.0:
        return narrow(_apply(high, count, function), zero)
    if function == SUM:
        return narrow(to_odd(high, low), zero)
    quotient = _apply(high, count, function)
    # Both roundings and |low| add up to less than four units.
    below = narrow(quotient - abs(quotient) * (4 * UNIT), zero)
    above = narrow(quotient + abs(quotient) * (4 * UNIT), zero)
    if below == above:
        return below
    middle = 0.5 * (value_of(below, zero) + value_of(above, zero))
    factor = middle if function == L2 else float64(count)
    product = middle * factor
    rest = fused(middle, factor, -product)
    # high is within a few units of product, so their difference is exact, and so is the comparison.
    left, left_error = two_sum(low, -rest)
    difference = ((high - product) + left) + left_error
    if difference == 0.0:
        return below if below & 1 == 0 else above
    return above if difference > 0.0 else below


@inner
def interval(high: float, low: float, error: float) -> tuple[float, float]:
    """Returns bounds of the true sum that allow for the roundings done here."""
    margin = error * (1 + 2.0**-20) + abs(high) * (4 * UNIT)
    return high + (low - margin), high + (low + margin)


@inner
def rounded(high: float, low: float, error: float, count: int, function: int, zero: float) -> tuple[bool, int]:
    """Returns whether a sum decides the result, and the result's bits."""
    if high - high != 0.0:
        return True, _special(high, function, zero)
    if function == LOG_SUM:
        return _logarithm(high, low, error, zero)
    if error == 0.0:
        return True, _exact(high, low, count, function, zero)
    least, most = interval(high, low, error)
    if function == L2 and least < 0.0:
        return False, 0
    least, most = _apply(least, count, function), _apply(most, count, function)
    below = narrow(least - abs(least) * (2 * UNIT), zero)
    above = narrow(most + abs(most) * (2 * UNIT), zero)
    return below == above, below
