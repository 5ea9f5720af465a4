"""Weighted sums in float64; those that may be too inaccurate are recomputed one by one with compensation."""

from __future__ import annotations

import math

from ..jit.compiler import inlined, inner
from ..jit.element import bits_double, choose, fused, int32, load, read, store
from ..numbers.formats import infinity_bits, masked, narrow, narrow_vector, number_of, values
from ..numbers.rounding import to_odd, two_sum
from ..numbers.vectors import (
    WIDTH,
    Vector,
    absolutes,
    any_of,
    elements,
    fused_vectors,
    load_neighbors,
    load_vector,
    pick,
    spread,
    store_vector,
)
from ..pooling.geometry import SIGNED
from ..pooling.lines import add_row
from ..run.geometry import advance
from ..run.walk import split
from .geometry import WeightedSums, reads_of, weight

INACCURATE = 2.0**-24
"""Relative size below which a sum of two correctly rounded products may be too inaccurate."""

NEAR_MIDPOINT = 2.0**-20
"""Distance from the midpoint between two integers beyond which a sum is certainly on its correct side."""


@inner
def add_rows(
    zero: float,
    source: int,
    geometry: WeightedSums,
    places: tuple[int, int, int, int],
    begin: int,
    size: int,
    line: int,
    rest: int,
) -> int:
    """Adds the rows that outputs read, times their weights, to a line.

    Returns the greatest magnitude in them, or 0 if sums along the line have share limits of their own.
    """
    greatest = 0
    a, taps_a, weights_a = reads_of(geometry.axes[0], places[0])
    b, taps_b, weights_b = reads_of(geometry.axes[1], places[1])
    c, taps_c, weights_c = reads_of(geometry.axes[2], places[2])
    d, taps_d, weights_d = reads_of(geometry.axes[3], places[3])
    step = geometry.across.source
    for i in range(taps_a):
        for j in range(taps_b):
            for k in range(taps_c):
                outer = weight(weights_a, i) * weight(weights_b, j) * weight(weights_c, k)
                plane = (a + i) * geometry.axes[0].source + (b + j) * geometry.axes[1].source
                plane += (c + k) * geometry.axes[2].source + begin * step
                for last in range(taps_d):
                    offset = plane + (d + last) * geometry.axes[3].source
                    share = outer * weight(weights_d, last)
                    if share != 0.0:
                        row = advance(source, offset, zero)
                        if geometry.local:
                            _weigh(zero, row, step, size, line, share)
                        else:
                            high, _ = add_row(zero, row, step, size, line, share, SIGNED, rest)
                            greatest = max(greatest, high)
    return greatest


@inlined
def _weigh(zero: float, row: int, step: int, size: int, line: int, share: float) -> None:
    """Adds a row, times a weight, to a line."""
    whole = size - size % WIDTH if step == 1 else 0
    for i in range(0, whole, WIDTH):
        x = values(elements(advance(row, i, zero), None, zero))
        store_vector(line, i, fused_vectors(x, share, load_vector(line, i, 0.0)))
    for i in range(whole, size):
        store(line, i, fused(number_of(read(row, i * step, zero)), share, load(line, i, 0.0)))


@inlined
def _pairs(firsts: int, near: int, far: int, begin: int, line: int, count: int, result: int, limits: int) -> None:
    """Computes sums of at most two terms, and the magnitudes below which they are undecided."""
    whole = count - count % WIDTH
    for i in range(0, whole, WIDTH):
        x, next_x = load_neighbors(line, firsts, i, begin)
        first, second = _times_weights(x, near, i), _times_weights(next_x, far, i)
        store_vector(result, i, first + second + 0.0)
        store_vector(limits, i, (absolutes(first) + absolutes(second)) * INACCURATE)
    for i in range(whole, count):
        place, weight, next_weight = load(firsts, i, 0) - begin, load(near, i, 0.0), load(far, i, 0.0)
        first = choose(weight != 0.0, load(line, place, 0.0) * weight, 0.0)
        second = choose(next_weight != 0.0, load(line, place + 1, 0.0) * next_weight, 0.0)
        store(result, i, first + second + 0.0)  # no zero is negative
        store(limits, i, (abs(first) + abs(second)) * INACCURATE)


@inlined
def _times_weights(x: Vector, weights: int, first: int) -> Vector:
    """Returns products; 0 where the weight is 0, whatever x is."""
    weight = load_vector(weights, first, 0.0)
    return pick((weight < 0.0) | (weight > 0.0), x * weight, spread(0.0))


@inner
def sum_across(geometry: WeightedSums, first: int, count: int, begin: int, line: int, result: int, limits: int) -> None:
    """Computes the sums along a line that begins at index ``begin`` of the innermost dimension; see ``_pairs``."""
    if geometry.pairs:
        firsts = geometry.across.first + 8 * first
        near, far = geometry.near + 8 * first, geometry.far + 8 * first
        _pairs(firsts, near, far, begin, line, count, result, limits)
        return
    for i in range(count):
        index, taps, weights = reads_of(geometry.across, first + i)
        total = -0.0
        for tap in range(taps):
            share = weight(weights, tap)
            if share != 0.0:
                total += load(line, index - begin + tap, 0.0) * share
        store(result, i, total + 0.0)


@inner
def round_floats(zero: float, sums: int, limits: int, count: int, results: int, undecided: int) -> int:
    """Stores the bits of results, and whether each is undecided; returns how many vectors have such."""
    some_undecided = 0
    for i in range(0, count, WIDTH):
        total = load_vector(sums, i, 0.0)
        store_vector(results, i, narrow_vector(total, zero))
        small = absolutes(total) < load_vector(limits, i, 0.0)
        store_vector(undecided, i, pick(small, spread(int32(1)), spread(int32(0))))
        some_undecided += any_of(small)
    return some_undecided


@inner
def round_integers(geometry: WeightedSums, sums: int, count: int, results: int, undecided: int) -> int:
    """Like ``round_floats``, for integers."""
    some_undecided = 0
    for i in range(count):
        total = load(sums, i, 0.0)
        below = math.floor(total)
        near = abs(total - below - 0.5) < NEAR_MIDPOINT
        store(undecided, i, int32(near))
        some_undecided += near
        store(results, i, _saturated(geometry, below + (1.0 if total - below > 0.5 else 0.0)))
    return some_undecided


@inner
def _saturated(geometry: WeightedSums, value: float) -> int:
    return int32(min(max(value, geometry.lowest), geometry.highest))


@inner
def settle(
    zero: float, source: int, geometry: WeightedSums, places: tuple[int, int, int, int], across: int
) -> tuple[bool, int]:
    """Recomputes one sum with compensation; returns whether it is settled, and its bits."""
    a, taps_a, weights_a = reads_of(geometry.axes[0], places[0])
    b, taps_b, weights_b = reads_of(geometry.axes[1], places[1])
    c, taps_c, weights_c = reads_of(geometry.axes[2], places[2])
    d, taps_d, weights_d = reads_of(geometry.axes[3], places[3])
    e, taps_e, weights_e = reads_of(geometry.across, across)
    high, low, all_terms, lost = 0.0, 0.0, 0.0, 0.0 if geometry.exact else 1.0
    rows = taps_a * taps_b * taps_c * taps_d
    for number in range(rows):
        rest, last = split(number, taps_d)
        rest, k = split(rest, taps_c)
        i, j = split(rest, taps_b)
        offset = (a + i) * geometry.axes[0].source + (b + j) * geometry.axes[1].source
        offset += (c + k) * geometry.axes[2].source + (d + last) * geometry.axes[3].source
        outer, lost = _times(weight(weights_a, i), weight(weights_b, j), lost)
        outer, lost = _times(outer, weight(weights_c, k), lost)
        outer, lost = _times(outer, weight(weights_d, last), lost)
        for tap in range(taps_e):
            share, lost = _times(outer, weight(weights_e, tap), lost)
            if share != 0.0:
                x = masked(read(source, offset + (e + tap) * geometry.across.source, zero), -1)
                product = x * share
                high, first_rest = two_sum(high, product)
                part, second_rest = two_sum(fused(x, share, -product), first_rest)
                low, third_rest = two_sum(low, part)
                lost += abs(second_rest) + abs(third_rest)
                all_terms += abs(product)
    if all_terms - all_terms != 0.0:
        return True, narrow(high, zero)
    settled = lost == 0.0
    high, low = two_sum(high, low)
    if geometry.integer:
        below = math.floor(high)
        above = (high - below - 0.5) + low
        even = below * 0.5 == math.floor(below * 0.5)
        up = above > 0.0 or (above == 0.0 and not even)
        return settled or abs(above) > 2.0**-40, int(_saturated(geometry, below + (1.0 if up else 0.0)))
    if high == 0.0 and low == 0.0:
        return settled or all_terms == 0.0, narrow(0.0, zero)
    return settled or abs(high) >= geometry.least * all_terms, narrow(to_odd(high, low), zero)


@inner
def _times(a: float, b: float, lost: float) -> tuple[float, float]:
    """Returns a product, and ``lost`` plus its rounding error."""
    product = a * b
    return product, lost + abs(fused(a, b, -product))


@inner
def limit_of(greatest: int, geometry: WeightedSums, zero: float) -> float:
    """Returns the magnitude below which a tile's sums are undecided, given the greatest magnitude in it."""
    single = infinity_bits(zero) > 0x7C00
    exponent = max(greatest >> (23 if single else 10), 1) + 1 - (127 if single else 15)
    return bits_double((exponent + 1023) << 52) * geometry.limit if greatest else 0.0
