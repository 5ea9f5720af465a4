"""Logarithms of exact sums, computed with so many digits that rounding them gives the nearest float.

Like ``exact``, the functions take their elements as chunks: 1-dimensional arrays, iterated as often as needed.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from math import inf, isinf, nan

import numpy as np

from .exact import Chunks, Float, FloatFormat, round_ratio, sum_of

_DIGITS = 120
"""The least result that is not zero is near 1e-45 and comes from a sum near 1: some 75 digits of it remain."""


def _context() -> Context:
    return Context(prec=_DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def log_sum(chunks: Chunks, of: FloatFormat) -> Float:
    """ln of the sum: of zero negative infinity, of a negative sum NaN."""
    total = sum_of(chunks, of)
    if total.special:
        return of.of(inf if total.special > 0 else nan)
    if total.units <= 0:
        return of.of(nan if total.units else -inf)
    # Written out in decimal the sum is exact: 2**-n is 5**n / 10**n.
    exact = Decimal(f"{total.units * 5**-of.unit}E{of.unit}")
    return _rounded(_context().ln(exact), of)


def log_sum_exp(chunks: Chunks, of: FloatFormat) -> Float:
    """ln of the sum of exponentials, shifted by the greatest element so that none of them overflows."""
    greatest = -inf
    for values in chunks:
        if np.isnan(values).any():
            return of.of(nan)
        greatest = max(greatest, float(values.max()))
    if isinf(greatest):
        return of.of(greatest)
    context = _context()
    total = Decimal(0)
    for values in chunks:
        for value, count in zip(*np.unique(values, return_counts=True), strict=True):
            exponential = context.exp(context.subtract(Decimal(float(value)), Decimal(greatest)))
            total = context.fma(exponential, int(count), total)
    return _rounded(context.add(context.ln(total), Decimal(greatest)), of)


def _rounded(value: Decimal, to: FloatFormat) -> Float:
    return round_ratio(*value.as_integer_ratio(), to)
