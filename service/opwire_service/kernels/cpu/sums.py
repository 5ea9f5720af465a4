"""SUM, AVERAGE, L1, L2, SUM_SQUARE and LOG_SUM of floats: a plain sum where its error bound decides the rounding, a
compensated one where it does not, and an exact one where that does not either.
"""

from __future__ import annotations

import numpy as np

from . import geometry as g
from .accumulator import LIMBS, add_terms, parts, settle
from .compensated import compensated_sum
from .compiler import inner, kernel
from .element import differing, float32, float64, float_bits, int32, larger, load, size_of, store, without_sign
from .formats import is_single, put
from .geometry import advance, at
from .plain import SCRATCH, add_rows, clear, error_bound, merged, plain_sum
from .rounding import AVERAGE, SUM, UNIT, interval, rounded, two_sum
from .terms import IS_EXACT, SQUARE

TIER = SQUARE + 1
"""Place in the geometry: which sum the segments hold; it goes up for elements that the tier before left open."""

PLAIN, COMPENSATED, EXACT = 0, 1, 2

STATE = {PLAIN: 3, COMPENSATED: 3, EXACT: LIMBS}
"""Places of a segment's state by tier: high part, low part and error bound, or limbs."""


@inner
def _decide(zero: float, base: int, geometry: int, high: float, low: float, error: float, scratch: int) -> int:
    """The bits of an element of the output, from its plain sum or by what costs more."""
    count, function = at(geometry, g.COUNT), at(geometry, g.FUNCTION)
    decided, bits = rounded(high, low, error, count, function, zero)
    if not decided:
        high, low, error = compensated_sum(zero, base, geometry, 0, count, scratch)
        decided, bits = rounded(high, low, error, count, function, zero)
    if not decided:
        add_terms(zero, base, geometry, 0, count, scratch)
        high, low = parts(scratch)
        decided, bits = rounded(high, low, 0.0, count, function, zero)
    return bits


@inner
def _segment(zero: float, base: int, geometry: int, first: int, end: int, state: int, scratch: int) -> None:
    """Leaves the state of one segment."""
    tier = at(geometry, TIER)
    if tier == EXACT:
        add_terms(zero, base, geometry, first, end, state)
        return
    if tier == PLAIN:
        high, low, error = plain_sum(zero, base, geometry, first, end, scratch)
    else:
        high, low, error = compensated_sum(zero, base, geometry, first, end, scratch)
    _store(state, 0, high, low, error)


@inner
def _store(states: int, place: int, high: float, low: float, error: float) -> None:
    store(states, 3 * place, high)
    store(states, 3 * place + 1, low)
    store(states, 3 * place + 2, error)


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One output element and one segment a unit; several segments leave their states."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    memory = np.empty(SCRATCH, np.int64)
    scratch = memory.ctypes.data
    places = LIMBS if at(geometry, TIER) == EXACT else 3
    for unit in range(begin, end):
        output = unit // segments
        base = advance(source, g.kept_source(geometry, output), zero)
        if segments > 1:
            first = (unit - output * segments) * segment
            state = states + 8 * places * unit
            _segment(zero, base, geometry, first, min(first + segment, count), state, scratch)
        else:
            high, low, error = plain_sum(zero, base, geometry, 0, count, scratch)
            bits = _decide(zero, base, geometry, high, low, error, scratch)
            put(target, g.kept_target(geometry, output), bits, zero)
    memory[0] = 0  # keeps the memory alive until here


@inner
def _add_columns(zero: float, base: int, geometry: int, begin: int, end: int, width: int, sums: int, peaks: int) -> int:
    run_size, row = at(geometry, g.RUN), at(geometry, g.STEP) * size_of(zero)
    step, mask, square = at(geometry, g.COLUMN_STEP), at(geometry, g.MASK), at(geometry, SQUARE) != 0
    clear(sums, peaks, width)
    depth = 0
    i = begin
    while i < end:
        run = i // run_size
        rows = min(run_size - (i - run * run_size), end - i)
        address = advance(base, g.run_source(geometry, run), zero) + (i - run * run_size) * row
        depth += add_rows(zero, address, row, rows, width, step, sums, peaks, mask, square)
        i += rows
    return depth


@inner
def _put_plain(
    zero: float, sums: int, peaks: int, width: int, depth: int, geometry: int, target: int, offset: int
) -> bool:
    """Puts the results of plain FLOAT32 sums into the output, and returns whether they decide all of them.

    Without branches, so in vectors: a tile that has an infinity, NaN or an open element is done again, one by one.
    """
    count, function, step = at(geometry, g.COUNT), at(geometry, g.FUNCTION), at(geometry, g.COLUMN_TARGET)
    if not is_single(zero) or step != 1 or function not in (SUM, AVERAGE):
        return False
    square = at(geometry, SQUARE) != 0
    divisor = float64(count if function == AVERAGE else 1)
    apart, top = int32(0), int32(0)
    for i in range(width):
        total, peak = load(sums, i, 0.0), load(peaks, i, int32(0))
        error = error_bound(total, count, peak, depth, False, square)
        # -0 changes no sum; +0 would change that of negative zeros.
        least, most = interval(total, -0.0, error)
        least, most = least / divisor, most / divisor
        below = float_bits(float32(least - abs(least) * (2 * UNIT)))
        above = float_bits(float32(most + abs(most) * (2 * UNIT)))
        apart = differing(apart, below, above)
        top = larger(top, without_sign(below))
        store(target, offset + i, below)
    return apart == 0 and top < _INFINITY


_INFINITY = 0x7F800000


@kernel
def columns(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One tile of columns and one segment a unit; several segments leave the state of each column."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    tiles, tile, step = at(geometry, g.TILES), at(geometry, g.TILE), at(geometry, g.COLUMN_STEP)
    all_columns = at(geometry, g.COLUMNS)
    exact, square = at(geometry, IS_EXACT) != 0, at(geometry, SQUARE) != 0
    memory = np.empty(2 * tile + SCRATCH, np.int64)
    scratch = memory.ctypes.data
    sums, peaks = scratch + 8 * SCRATCH, scratch + 8 * (SCRATCH + tile)
    for unit in range(begin, end):
        part = unit // segments
        outer = part // tiles
        start = (part - outer * tiles) * tile
        width = min(tile, all_columns - start)
        base = advance(source, g.kept_source(geometry, outer) + start * step, zero)
        first = (unit - part * segments) * segment
        last = min(first + segment, count)
        depth = _add_columns(zero, base, geometry, first, last, width, sums, peaks)
        offset = g.kept_target(geometry, outer) + start * at(geometry, g.COLUMN_TARGET)
        if segments == 1 and _put_plain(zero, sums, peaks, width, depth, geometry, target, offset):
            continue
        for i in range(width):
            total = load(sums, i, 0.0)
            error = error_bound(total, last - first, load(peaks, i, int32(0)), depth, exact, square)
            if segments > 1:
                place = (outer * all_columns + start + i) * segments + unit - part * segments
                _store(states, place, total, 0.0, error)
            else:
                bits = _decide(zero, advance(base, i * step, zero), geometry, total, 0.0, error, scratch)
                put(target, offset + i * at(geometry, g.COLUMN_TARGET), bits, zero)
    memory[0] = 0  # keeps the memory alive until here


@inner
def _merge(states: int, segments: int, exact: bool) -> tuple[float, float, float]:
    high, low, error, cut_off = -0.0, 0.0, 0.0, 0.0
    for i in range(segments):
        high, rest = two_sum(high, load(states, 3 * i, 0.0))
        low += rest
        low += load(states, 3 * i + 1, 0.0)
        cut_off += abs(rest) + abs(load(states, 3 * i + 1, 0.0))
        error += load(states, 3 * i + 2, 0.0)
    return merged(high, low, error, cut_off, 2 * segments, exact)


@inner
def _merge_limbs(states: int, segments: int) -> tuple[float, float]:
    for i in range(1, segments):
        for j in range(LIMBS):
            store(states, j, load(states, j, 0) + load(states, i * LIMBS + j, 0))
    settle(states)
    return parts(states)


@kernel
def finish(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Merges the segments of output elements; the first place of an element's states becomes whether it is open."""
    segments, tier = at(geometry, g.SEGMENTS), at(geometry, TIER)
    places = LIMBS if tier == EXACT else 3
    for output in range(begin, end):
        here = states + 8 * places * segments * output
        if tier == EXACT:
            high, low = _merge_limbs(here, segments)
            error = 0.0
        else:
            high, low, error = _merge(here, segments, at(geometry, IS_EXACT) != 0)
        count, function = at(geometry, g.COUNT), at(geometry, g.FUNCTION)
        decided, bits = rounded(high, low, error, count, function, zero)
        store(here, 0, 0 if decided else 1)
        if decided:
            put(target, g.kept_target(geometry, output), bits, zero)
