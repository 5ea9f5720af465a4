"""Roots of sums of powers, computed with so many digits that rounding them gives the nearest float."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from math import inf, nan

import numpy as np

from ..exact import Chunks, Float, FloatFormat, round_ratio

_DIGITS = 60
"""Twice the digits of a root that lies next to the middle of two FLOAT32, and some."""


def root_of_powers(chunks: Chunks, power: int, to: FloatFormat) -> Float:
    """``(sum |x|**power) ** (1 / power)``, of elements over the greatest of them so that no power overflows."""
    greatest = 0.0
    for values in chunks:
        if np.isnan(values).any():
            return to.of(nan)
        greatest = max(greatest, float(np.abs(values).max()))
    if not greatest or greatest == inf:
        return to.of(greatest)
    context = Context(prec=_DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
    total = Decimal(0)
    for values in chunks:
        for value, count in zip(*np.unique(np.abs(values), return_counts=True), strict=True):
            ratio = context.divide(Decimal(float(value)), Decimal(greatest))
            total = context.fma(context.power(ratio, power), int(count), total)
    root = context.exp(context.divide(context.ln(total), power))
    return round_ratio(*context.multiply(root, Decimal(greatest)).as_integer_ratio(), to)
