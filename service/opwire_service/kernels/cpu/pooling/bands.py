"""The kernel of averages of windows that are dense in a plane. A unit is a band of output rows.

Each input row is summed along its windows once, for all outputs that need it. The second pass treats the rows of a band
as one long row, in whole vectors: sums of input rows with the same position in their windows are contiguous.
"""

from __future__ import annotations

import numpy as np

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, int32, load, prefetch
from ..jit.prefetch import AHEAD
from ..numbers.accumulator import LIMBS
from ..numbers.formats import infinity_bits, narrow_vector, put, values
from ..numbers.partial import first_elements, first_elements_apart
from ..numbers.rounding import AVERAGE, UNIT
from ..numbers.strided import load_even
from ..numbers.vectors import (
    WIDTH,
    Vector,
    absolutes,
    any_of,
    elements,
    fused_vectors,
    load_vector,
    pick,
    put_vector,
    spread,
    store_vector,
)
from ..run.geometry import advance
from ..run.walk import split
from ..run.windows import place_of
from .geometry import Sums
from .lines import extent, extremes_of, fill, no_extent
from .rounded_sums import error_bound, settle

SLACK = 4 * WIDTH
"""Padding after lines and sums, in float64, because vectors may reach past them."""


@inner
def room(geometry: Sums) -> int:
    """Returns the memory of a thread, in float64."""
    height = geometry.height
    rows = geometry.tile + (height.window + height.stride - 1) // height.stride
    apart = rows * geometry.across.out + WIDTH  # as in ``_apart``
    return height.stride * apart + geometry.line + 2 * SLACK + LIMBS + WIDTH


@kernel
def bands(zero: float, source: int, target: int, states: int, geometry: Sums, begin: int, end: int) -> None:
    """Averages bands of output rows; a unit is a band of a plane."""
    most = geometry.tile
    stride, tiles = geometry.height.stride, geometry.tiles
    memory = np.empty(room(geometry), np.float64)
    sums = address_of(memory)
    line = sums + 8 * (stride * _apart(geometry) + SLACK)
    limbs = line + 8 * (geometry.line + SLACK)
    fill(0.0, line, geometry.line + SLACK)
    for unit in range(begin, end):
        plane, band = split(unit, tiles)
        first = band * most
        count = min(most, geometry.height.out - first)
        channel = advance(source, place_of(geometry, geometry.source, plane, 0, 0), zero)
        here = place_of(geometry, geometry.value, plane, 0, first)
        error = _sum_rows(zero, channel, geometry, first, count, line, sums)
        _round(zero, channel, geometry, first, count, advance(target, here, zero), sums, error, limbs)
    memory[0] = 0.0  # keeps the buffer alive until here


@inner
def _apart(geometry: Sums) -> int:
    """Returns the distance between the sums of consecutive row phases, for vertical strides greater than 1."""
    window, stride = geometry.height.window, geometry.height.stride
    rows = geometry.tile + (window + stride - 1) // stride
    return rows * geometry.across.out + WIDTH  # for the vector at the end of the last row


@inner
def _sum_rows(zero: float, channel: int, geometry: Sums, first: int, count: int, line: int, sums: int) -> float:
    """Stores the sums along the windows of ``count`` output rows; returns an error bound of the totals."""
    stride, apart = geometry.height.stride, _apart(geometry)
    width, size = geometry.across.out, geometry.across.size
    window, infinity = geometry.across.window, infinity_bits(zero)
    step, within = geometry.source.across, line + 8 * geometry.across.start
    greatest, least = no_extent()
    whole = size - size % WIDTH
    phase, here = 0, sums
    for row in range((count - 1) * stride + geometry.height.window):
        height = first * stride + row - geometry.height.start
        if height < 0 or height >= geometry.height.size:
            fill(0.0, here, width)
        else:
            given = advance(channel, height * geometry.source.height, zero)
            for i in range(0, size, WIDTH):
                if step != 1:
                    bits = first_elements_apart(advance(given, i * step, zero), step, size - i, zero)
                elif i < whole:
                    prefetch(advance(given, i, zero) + AHEAD)
                    bits = elements(advance(given, i, zero), None, zero)
                else:
                    bits = first_elements(advance(given, i, zero), size - whole, zero)
                greatest, least = extent(bits, greatest, least, infinity)
                store_vector(within, i, values(bits))
            for i in range(0, width, WIDTH):
                if geometry.across.stride == 1:
                    store_vector(here, i, _total(line, i, 1, window))
                else:
                    store_vector(here, i, _total_of_seconds(line, 2 * i, window))
        phase += 1
        here += 8 * apart
        if phase == stride:
            phase, here = 0, here + 8 * (width - stride * apart)
    terms = window * geometry.height.window
    high, low = extremes_of(greatest, least, infinity)
    return error_bound(geometry, high, low, terms, zero)


@inlined
def _total(numbers: int, i: int, step: int, count: int) -> Vector:
    total = load_vector(numbers, i, 0.0)
    for k in range(1, count):
        total = total + load_vector(numbers, i + k * step, 0.0)
    return total


@inlined
def _total_of_seconds(numbers: int, i: int, count: int) -> Vector:
    """Like ``_total`` of contiguous numbers, for windows with a stride of 2."""
    total = load_even(numbers, i)
    for k in range(1, count):
        total = total + load_even(numbers, i + k)
    return total


@inner
def _divided(zero: float, total: Vector, divisor: float, differing: Vector, error: float) -> tuple[Vector, Vector]:
    """Returns the bits of averages, and a nonzero integer for each that is undecided.

    Args:
        differing: nonzero for the averages that the error bound leaves undecided.
    """
    value, infinity = total / divisor, infinity_bits(zero)
    bits = narrow_vector(value, zero)
    if error == 0.0:
        # An exact quotient is rounded only once.
        left = fused_vectors(value, divisor, spread(-0.0) - total)
        differing = pick(absolutes(left) < 5e-324, spread(int32(0)), differing)
    return bits, pick((bits & infinity) > infinity - 1, spread(int32(1)), differing)


@inner
def _round(
    zero: float,
    channel: int,
    geometry: Sums,
    first: int,
    rows: int,
    target: int,
    sums: int,
    error: float,
    limbs: int,
) -> None:
    """Adds up the row sums of windows and writes their averages."""
    width, window = geometry.across.out, geometry.height.window
    divisor, infinity = float(geometry.divisor), infinity_bits(zero)
    lower, upper, slack = (1 - 4 * UNIT) / divisor, (1 + 4 * UNIT) / divisor, error / divisor * (1 + 2.0**-50)
    rest = limbs + 8 * LIMBS
    stride, apart = geometry.height.stride, _apart(geometry)
    first_count = (window + stride - 1) // stride
    for i in range(0, rows * width, WIDTH):
        total = _total(sums, i, width, first_count)
        for k in range(1, stride):
            total = total + _total(sums, k * apart + i, width, (window - k + stride - 1) // stride)
        least, most = total * lower, total * upper
        if slack > 0.0:
            wider = pick(total < 0.0, spread(-slack), spread(slack))
            least, most = least - wider, most + wider
        bits = narrow_vector(least, zero)
        differing = bits ^ narrow_vector(most, zero)
        count = min(WIDTH, rows * width - i)
        if any_of((differing != 0) | ((bits & infinity) > infinity - 1)):
            bits, differing = _divided(zero, total, divisor, differing, error)
        if count == WIDTH:
            put_vector(target, i, bits, zero)
        else:
            store_vector(rest, 0, bits)
            for k in range(count):
                put(target, i + k, load(rest, k, int32(0)), zero)
        if any_of(differing != 0):
            store_vector(rest, 0, differing)
            for k in range(count):
                if load(rest, k, int32(0)):
                    row, across = split(i + k, width)
                    place = 0, first + row, across
                    put(target, i + k, settle(zero, channel, geometry, place, AVERAGE, limbs), zero)
