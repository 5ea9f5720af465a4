"""Rounds sums of windows: vectors by an error bound, and what it leaves undecided one by one with exact arithmetic."""

from __future__ import annotations

import math

from ..jit.compiler import inner
from ..jit.element import bits_double, float64, int32, read
from ..numbers.accumulator import add_value, clear_limbs, high_and_low, propagate_carries
from ..numbers.formats import infinity_bits, masked, narrow, narrow_vector
from ..numbers.rounding import L2, UNIT, rounded
from ..numbers.vectors import (
    WIDTH,
    absolutes,
    any_of,
    fused_vectors,
    load_vector,
    pick,
    roots,
    spread,
    store_vector,
)
from ..run.geometry import advance
from .geometry import MAGNITUDE, SIGNED, SQUARES, Sums, weight_of, windows_of

DEPTH = 4
"""Rounding errors of a sum besides its additions."""


@inner
def error_bound(geometry: Sums, greatest: int, least: int, terms: int, zero: float) -> float:
    """Returns an error bound of float64 sums of elements with magnitudes in a range; 0 if the sums are exact.

    All elements are multiples of the last bit of the least one, and so are the sums. They are exact if the greatest
    possible sum has at most 53 bits above that.
    """
    if greatest == 0:
        return 0.0
    mantissa = 23 if infinity_bits(zero) > 0x7C00 else 10
    top, bottom = max(greatest >> mantissa, 1), max(least >> mantissa, 1)
    weight = geometry.weight
    spread_bits, significant, power = top - bottom, mantissa + 1, 1
    if geometry.kind == SQUARES:
        spread_bits, significant, power = 2 * spread_bits, 2 * significant, 2
    bits = 0
    while (1 << bits) < weight:
        bits += 1
    if spread_bits + significant + bits <= 53:
        return 0.0
    largest = bits_double((top + 1 - (127 if mantissa == 23 else 15) + 1023) << 52)
    if power == 2:
        largest *= largest
    return float64(terms + DEPTH) * UNIT * float64(weight) * largest


@inner
def round_vectors(
    zero: float, sums: int, divisors: int, factor: float, count: int, error: float, function: int, results: int
) -> int:
    """Stores the results' bits, then a nonzero integer for undecided ones; returns how many vectors have any."""
    infinity, some_undecided = infinity_bits(zero), 0
    undecided = results + 4 * (count + WIDTH)
    for i in range(0, count, WIDTH):
        total = load_vector(sums, i, 0.0)
        if function == L2:
            value = roots(total)
            least, most = roots(total - error), roots(total + error)
            rest = fused_vectors(value, value, spread(-0.0) - total)
        else:
            divisor = load_vector(divisors, i, 0.0) * factor
            value = total / divisor
            least, most = (total - error) / divisor, (total + error) / divisor
            rest = fused_vectors(value, divisor, spread(-0.0) - total)
        least, most = least - absolutes(least) * (2 * UNIT), most + absolutes(most) * (2 * UNIT)
        below, above = narrow_vector(least, zero), narrow_vector(most, zero)
        middle = narrow_vector(value, zero)
        differing = below ^ above
        if error == 0.0 or function == L2:
            # An exact quotient or root is rounded only once.
            exact = (absolutes(rest) < 5e-324) if error == 0.0 else (absolutes(total) < 5e-324)
            differing = pick(exact, spread(int32(0)), differing)
        special = (middle & infinity) > infinity - 1
        differing = pick(special, spread(int32(1)), differing)
        store_vector(results, i, middle)
        store_vector(undecided, i, differing)
        some_undecided += any_of((differing < 0) | (differing > 0))
    return some_undecided


@inner
def settle(zero: float, channel: int, geometry: Sums, place: tuple[int, int, int], function: int, limbs: int) -> int:
    """Returns the bits of one result, computed with exact arithmetic."""
    depth, height, across = place
    kind = geometry.kind
    plain = -0.0 if kind == SIGNED else 0.0
    clear_limbs(limbs)
    count = 0
    d, depths, apart_d = windows_of(geometry, geometry.depth, depth)
    for _ in range(depths):
        h, heights, apart_h = windows_of(geometry, geometry.height, height)
        for _ in range(heights):
            outer = weight_of(geometry.depth, d) * weight_of(geometry.height, h)
            row = d * geometry.source.depth + h * geometry.source.height
            here = advance(channel, row, zero)
            w, widths, apart_w = windows_of(geometry, geometry.across, across)
            count += widths
            for _ in range(widths):
                value = masked(read(here, w * geometry.source.across, zero), -1)
                if kind == MAGNITUDE:
                    value = abs(value)
                elif kind == SQUARES:
                    value = value * value
                value = value * outer * weight_of(geometry.across, w)
                plain += value
                if value - value == 0.0:
                    add_value(limbs, value)
                w += apart_w
            h += apart_h
        d += apart_d
    divisor = 1 if function == L2 else geometry.divisor
    if count < geometry.whole:
        plain += 0.0  # padding that counts
    if divisor == 0:
        divisor = count
        if count == 0:
            return narrow(math.nan, zero)
    if plain - plain != 0.0:
        return narrow(plain, zero)
    propagate_carries(limbs)
    high, low = high_and_low(limbs)
    if high == 0.0:
        return narrow(plain if plain == 0.0 else 0.0, zero)
    _, bits = rounded(high, low, 0.0, divisor, function, zero)
    return bits
