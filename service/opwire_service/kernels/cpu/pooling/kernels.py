"""The kernels of sums over windows. A unit is a tile: adjacent outputs along the innermost dimension."""

from __future__ import annotations

import numpy as np

from ..jit.compiler import inner, kernel
from ..jit.element import address_of, choose, float64, int32, load, store
from ..numbers.accumulator import LIMBS
from ..numbers.formats import put
from ..numbers.vectors import WIDTH
from ..run.geometry import advance
from ..run.windows import place_of, tile_of, width_of
from .geometry import SIGNED, Sums, weight_of, windows_of
from .lines import MOST_BITS, MOST_PHASES, add_row, fill, sum_having, sum_windows
from .rounded_sums import error_bound, round_vectors, settle

SLACK = 4 * WIDTH
"""Padding of each line, in float64, because vectors may reach past its end."""


@inner
def _lay_out(geometry: Sums, first: int, count: int) -> tuple[int, int, int, int]:
    """Returns a tile's line: its padded length, where the input starts, how much it is, and its first position."""
    stride, start = geometry.across.stride, geometry.across.start
    size, window = geometry.across.size, geometry.across.window
    if geometry.backward:
        begin = (first + start) // stride - (window - 1) // stride
        length = (first + count - 1 + start) // stride - begin + 1
    else:
        begin = first * stride - start
        length = (count - 1) * stride + (window - 1) * geometry.across.dilation + 1
    before, place = min(max(-begin, 0), length), max(begin, 0)
    return length, before, max(min(size - place, length - before), 0), place


@inner
def _fill_tile(geometry: Sums, first: int, count: int, elements: int, divisors: int, weights: int, room: int) -> None:
    """Computes what depends only on a tile's position in its row: window sizes, parts of divisors, and weights."""
    counted = geometry.divisor == 0
    for i in range(count + WIDTH):
        store(divisors, i, 1.0)
    if counted or geometry.whole:
        for i in range(count):
            _, taps, _ = windows_of(geometry, geometry.across, first + i)
            store(elements, i, float64(taps))
            if counted:
                store(divisors, i, float64(taps))
    if geometry.across.common:
        _, _, covered, place = _lay_out(geometry, first, count)
        for i in range(min(covered, room)):
            store(weights, i, weight_of(geometry.across, place + i))


@inner
def _weigh(line: int, weights: int, count: int) -> None:
    for i in range(count):
        store(line, i, load(line, i, 0.0) * load(weights, i, 0.0))


@inner
def _add_zeros(sums: int, elements: int, count: int, outer: float, whole: float) -> None:
    """Adds +0 for padding that counts: it makes sums of negative zeros positive."""
    for i in range(count):
        padded = load(elements, i, 0.0) * outer < whole
        store(sums, i, load(sums, i, 0.0) + choose(padded, 0.0, -0.0))


@inner
def _add_rows(
    zero: float, source: int, geometry: Sums, depth: int, height: int, count: int, line: int, rest: int
) -> tuple[int, int, int]:
    """Adds what a row of outputs gathers to a line; returns the number of rows, and the extreme magnitudes."""
    step, kind = geometry.source.across, geometry.kind
    d, of_depth, apart_d = windows_of(geometry, geometry.depth, depth)
    h_first, of_height, apart_h = windows_of(geometry, geometry.height, height)
    greatest, least = 0, MOST_BITS
    for _ in range(of_depth):
        h = h_first
        for _ in range(of_height):
            weight = weight_of(geometry.depth, d) * weight_of(geometry.height, h)
            offset = d * geometry.source.depth + h * geometry.source.height
            high, low = add_row(zero, advance(source, offset, zero), step, count, line, weight, kind, rest)
            greatest, least = max(greatest, high), min(least, low)
            h += apart_h
        d += apart_d
    return of_depth * of_height, greatest, least


@kernel
def windows(zero: float, source: int, target: int, states: int, geometry: Sums, begin: int, end: int) -> None:
    """Computes outputs one by one, for windows that skip most of the input."""
    memory = np.empty(LIMBS, np.float64)
    limbs = address_of(memory)
    for unit in range(begin, end):
        plane, depth, height, first = tile_of(geometry, unit)
        channel = advance(source, place_of(geometry, geometry.source, plane, 0, 0), zero)
        offset = place_of(geometry, geometry.value, plane, depth, height)
        for across in range(first, first + width_of(geometry, first)):
            bits = settle(zero, channel, geometry, (depth, height, across), geometry.function, limbs)
            put(target, offset + across * geometry.value.across, bits, zero)
    memory[0] = 0.0  # keeps the buffer alive until here


@inner
def room(geometry: Sums) -> int:
    """Returns the memory of a thread for a tile of ``rows``, in float64."""
    line, tile = geometry.line + SLACK, geometry.tile + SLACK
    return 3 * line + 6 * tile + MOST_PHASES * (WIDTH + 1) + LIMBS + WIDTH


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: Sums, begin: int, end: int) -> None:
    """Sums the windows of tiles along a line; a unit is a tile of outputs."""
    length_of_line, most = geometry.line + SLACK, geometry.tile + SLACK
    memory = np.empty(room(geometry), np.float64)
    line = address_of(memory)
    weights = line + 8 * length_of_line
    phases = weights + 8 * length_of_line
    sums = phases + 8 * (length_of_line + MOST_PHASES * (WIDTH + 1) + most)
    divisors = sums + 8 * most
    taps = divisors + 8 * most
    results = taps + 8 * most
    limbs = results + 16 * most
    rest = limbs + 8 * LIMBS
    function, backward = geometry.function, geometry.backward
    nothing = -0.0 if geometry.kind == SIGNED else 0.0
    filled = -1
    for unit in range(begin, end):
        plane, depth, height, first = tile_of(geometry, unit)
        count = width_of(geometry, first)
        channel = advance(source, place_of(geometry, geometry.source, plane, 0, 0), zero)
        offset = place_of(geometry, geometry.value, plane, depth, height)
        step = geometry.value.across
        here = advance(target, offset + first * step, zero)
        length, before, covered, place = _lay_out(geometry, first, count)
        if first != filled:
            _fill_tile(geometry, first, count, taps, divisors, weights, length_of_line)
            filled = first
        fill(nothing, line, length + SLACK)
        begin_of_rows = advance(channel, place * geometry.source.across, zero)
        outer, greatest, least = _add_rows(
            zero, begin_of_rows, geometry, depth, height, covered, line + 8 * before, rest
        )
        if geometry.across.common:
            _weigh(line + 8 * before, weights, covered)
        if backward:
            last = (geometry.across.window - 1) // geometry.across.stride
            sum_having(line, last, geometry, first, count, phases, sums)
        else:
            sum_windows(line, length, geometry, count, phases, sums)
        if geometry.whole:
            _add_zeros(sums, taps, count, float64(outer), float64(geometry.whole))
        error = error_bound(geometry, greatest, least, outer + geometry.across.window, zero)
        divisor = geometry.divisor
        factor = float64(divisor if divisor else outer)
        some_undecided = round_vectors(zero, sums, divisors, factor, count, error, function, results)
        if some_undecided:
            undecided = results + 4 * (count + WIDTH)
            for i in range(count):
                if load(undecided, i, int32(0)):
                    settled = settle(zero, channel, geometry, (depth, height, first + i), function, limbs)
                    store(results, i, int32(settled))
        for i in range(count):
            put(here, i * step, load(results, i, int32(0)), zero)
    memory[0] = 0.0  # keeps the buffer alive until here
