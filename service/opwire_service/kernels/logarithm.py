"""Logarithms of exact sums, with enough digits that rounding them yields the nearest float.

As in ``exact``, the elements come as chunks: 1-dimensional arrays that may be iterated repeatedly.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from math import inf, isinf, nan

import numpy as np

from .exact import Chunks, Float, FloatFormat, round_ratio, sum_of

_DIGITS = 120
"""The least nonzero result is about 1e-45, from a sum close to 1; some 75 digits of it remain significant."""


def _context() -> Context:
    return Context(prec=_DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def log_sum(chunks: Chunks, of: FloatFormat) -> Float:
    """Returns ln of the sum: -inf for a zero sum, NaN for a negative one."""
    total = sum_of(chunks, of)
    if total.special:
        return of.of(inf if total.special > 0 else nan)
    if total.units <= 0:
        return of.of(nan if total.units else -inf)
    # In decimal the sum is exact: 2**-n is 5**n / 10**n.
    exact = Decimal(f"{total.units * 5**-of.unit}E{of.unit}")
    return _rounded(_context().ln(exact), of)


def log_sum_exp(chunks: Chunks, of: FloatFormat) -> Float:
    """Returns ln of the sum of exponentials, shifted by the maximum so that none of them overflows."""
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
