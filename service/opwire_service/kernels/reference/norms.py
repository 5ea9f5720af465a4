"""Roots of sums of powers: exact for low powers, otherwise with enough digits to round to the nearest float."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from math import inf, nan

import numpy as np

from ..exact import Chunks, Float, FloatFormat, round_ratio

_DIGITS = 60
"""More than twice the digits of a root that lies next to the midpoint of two FLOAT32."""


_LOW = 16
"""Highest power whose sums are kept as integers, of some thousand bits."""

_ROOT_BITS = 64
"""Bits of a root; one sticky bit below them records whether anything was cut off."""


def root_of_powers(chunks: Chunks, power: int, to: FloatFormat) -> Float:
    """Returns ``(sum |x|**power) ** (1 / power)``; infinite or NaN if an element is."""
    greatest = 0.0
    for values in chunks:
        if np.isnan(values).any():
            return to.of(nan)
        greatest = max(greatest, float(np.abs(values).max()))
    if not greatest or greatest == inf:
        return to.of(greatest)
    if power <= _LOW:
        return _exact_root(chunks, power, to)
    # Relative to the greatest element, no power overflows.
    context = Context(prec=_DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
    total = Decimal(0)
    for values in chunks:
        for value, count in zip(*np.unique(np.abs(values), return_counts=True), strict=True):
            ratio = context.divide(Decimal(float(value)), Decimal(greatest))
            total = context.fma(context.power(ratio, power), int(count), total)
    root = context.exp(context.divide(context.ln(total), power))
    return round_ratio(*context.multiply(root, Decimal(greatest)).as_integer_ratio(), to)


def _exact_root(chunks: Chunks, power: int, to: FloatFormat) -> Float:
    """Like ``root_of_powers`` for finite elements, rounded once."""
    total = 0
    for values in chunks:
        integers, shifts = to.parts(np.abs(values))
        total += sum((i << shift) ** power for i, shift in zip(integers.tolist(), shifts.tolist(), strict=True))
    extra = max(0, _ROOT_BITS - total.bit_length() // power)
    scaled = total << power * extra
    root = _integer_root(scaled, power)
    return round_ratio(2 * root + (root**power != scaled), 2 << (extra - to.unit), to)


def _integer_root(number: int, power: int) -> int:
    """Returns the root of a positive integer, rounded down (Newton's method)."""
    root = 1 << -(-number.bit_length() // power)
    while True:
        better = ((power - 1) * root + number // root ** (power - 1)) // power
        if better >= root:
            return root
        root = better
