"""LOG_SUM_EXP of floats, at most 1 ULP from the exact value (next to a zero result: 1e-15 absolute).

Most sums are great enough for exponentials in FLOAT32; see ``single_exponentials``. The others are taken in float64.
Where every magnitude is at most ``NARROW`` the exponentials are added up as they are: float64 holds them, and 2**32 of
them. Otherwise the sum is shifted by the greatest element. Its relative error, some 1e-13 at most, is the absolute one
of the logarithm. That is invisible unless the logarithm is near zero (``NEAR_ZERO``); there the sum is taken again with
the rest of every addition, so that only the errors of the exponentials remain: at most 2.3e-16 of a sum near 1.
"""

from __future__ import annotations

import math

import numpy as np

from . import geometry as g
from .compiler import inner, kernel
from .element import bits_double, double_bits, fused, int32, load, read, size_of, store
from .formats import bits_of, magnitude_bits, masked, narrow, put
from .geometry import advance, at
from .rounding import two_sum
from .single_exponentials import LEAST_TERMS, single_columns, single_sum, suffices
from .sums import COMPENSATED, PLAIN, TIER

NARROW = 600.0

NEAR_ZERO = 1e-5

STATE = 3
"""Places of a state: shift, high and low part of the sum of the shifted exponentials."""

LANES, RUN_TERMS = 32, 1 << 14

MOST_ROWS = 2048
"""Terms that are added up one after the other."""

_LOG2_E = 1.4426950408889634
_LN2, _LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
_MAGIC = 6755399441055744.0
"""1.5 * 2**52: adding it rounds to an integer, which then stands in the low bits."""

_LEAST = -700.0


@inner
def exponential(x: float) -> float:
    """e**x for |x| <= 700, within one unit in the last place: 2**k times the Taylor polynomial of what is left."""
    shifted = fused(x, _LOG2_E, _MAGIC)
    k = shifted - _MAGIC
    r = fused(-k, _LN2_LOW, fused(-k, _LN2, x))
    p = fused(1 / 6227020800.0, r, 1 / 479001600.0)
    p = fused(p, r, 1 / 39916800.0)
    p = fused(p, r, 1 / 3628800.0)
    p = fused(p, r, 1 / 362880.0)
    p = fused(p, r, 1 / 40320.0)
    p = fused(p, r, 1 / 5040.0)
    p = fused(p, r, 1 / 720.0)
    p = fused(p, r, 1 / 120.0)
    p = fused(p, r, 1 / 24.0)
    p = fused(p, r, 1 / 6.0)
    p = fused(p, r, 0.5)
    p = fused(p * r, r, r) + 1.0
    return bits_double(double_bits(p) + (double_bits(shifted) << 52))


@inner
def _element(zero: float, address: int, index: int) -> float:
    return masked(read(address, index, zero), -1)


@inner
def _row(zero: float, address: int, width: int, step: int, shift: float, sums: int, peaks: int) -> None:
    for i in range(width):
        x = min(max(_element(zero, address, i * step) - shift, _LEAST), -_LEAST)
        store(sums, i, load(sums, i, 0.0) + exponential(x))
        peak = max(load(peaks, i, int32(0)), magnitude_bits(read(address, i * step, zero)))
        store(peaks, i, int32(peak))


@inner
def _rows(
    zero: float, address: int, row: int, rows: int, width: int, step: int, shift: float, sums: int, peaks: int
) -> None:
    for i in range(rows):
        if step == 1:
            _row(zero, address + i * row, width, 1, shift, sums, peaks)
        else:
            _row(zero, address + i * row, width, step, shift, sums, peaks)


@inner
def _clear(sums: int, peaks: int, width: int) -> None:
    for i in range(width):
        store(sums, i, 0.0)
        store(peaks, i, int32(0))


@inner
def _run(zero: float, address: int, count: int, step: int, shift: float, sums: int, peaks: int) -> float:
    _clear(sums, peaks, LANES)
    rows = count // LANES
    row = advance(0, LANES * step, zero)
    _rows(zero, address, row, rows, LANES, step, shift, sums, peaks)
    rest = count - rows * LANES
    if rest:
        _rows(zero, address + rows * row, row, 1, rest, step, shift, sums, peaks)
    half = LANES // 2
    while half:
        for i in range(half):
            store(sums, i, load(sums, i, 0.0) + load(sums, half + i, 0.0))
        half //= 2
    return load(sums, 0, 0.0)


@inner
def _sum(
    zero: float, base: int, geometry: int, begin: int, end: int, shift: float, scratch: int
) -> tuple[float, float, int]:
    """High and low part of the sum of shifted exponentials, and the bits of the greatest magnitude."""
    run_size, step = at(geometry, g.RUN), at(geometry, g.STEP)
    peaks = scratch + 8 * LANES
    high, low, peak = 0.0, 0.0, int32(0)
    i = begin
    while i < end:
        run = i // run_size
        size = min(min(run_size - (i - run * run_size), end - i), RUN_TERMS)
        address = advance(base, g.run_source(geometry, run) + (i - run * run_size) * step, zero)
        high, rest = two_sum(high, _run(zero, address, size, step, shift, scratch, peaks))
        low += rest
        for j in range(LANES):
            peak = int32(max(peak, load(peaks, j, int32(0))))
        i += size
    return high, low, peak


@inner
def _greatest(zero: float, base: int, geometry: int, begin: int, end: int) -> float:
    """The greatest element, or NaN if there is one."""
    run_size, step = at(geometry, g.RUN), at(geometry, g.STEP)
    greatest = -math.inf
    i = begin
    while i < end:
        run = i // run_size
        size = min(run_size - (i - run * run_size), end - i)
        address = advance(base, g.run_source(geometry, run) + (i - run * run_size) * step, zero)
        for j in range(size):
            x = _element(zero, address, j * step)
            if x != x:
                return x
            greatest = max(greatest, x)
        i += size
    return greatest


@inner
def _put_state(state: int, shift: float, high: float, low: float) -> None:
    store(state, 0, shift)
    store(state, 1, high)
    store(state, 2, low)


@inner
def _plain(zero: float, base: int, geometry: int, begin: int, end: int, scratch: int, state: int) -> None:
    if end - begin >= LEAST_TERMS:
        total, most = single_sum(zero, base, geometry, begin, end)
        if suffices(zero, total, most):
            _put_state(state, 0.0, total, 0.0)
            return
    high, low, peak = _sum(zero, base, geometry, begin, end, 0.0, scratch)
    if peak <= bits_of(NARROW, zero):
        _put_state(state, 0.0, high, low)
    else:
        _shifted(zero, base, geometry, begin, end, scratch, state)


@inner
def _shifted(zero: float, base: int, geometry: int, begin: int, end: int, scratch: int, state: int) -> None:
    greatest = _greatest(zero, base, geometry, begin, end)
    if greatest - greatest != 0.0:
        _put_state(state, greatest, 1.0, 0.0)
        return
    high, low, _ = _sum(zero, base, geometry, begin, end, greatest, scratch)
    _put_state(state, greatest, high, low)


@inner
def _compensated(zero: float, base: int, geometry: int, begin: int, end: int, state: int) -> None:
    """Without a shift: the result is near zero, so every element is at most about zero."""
    run_size, step = at(geometry, g.RUN), at(geometry, g.STEP)
    high, low = 0.0, 0.0
    i = begin
    while i < end:
        run = i // run_size
        size = min(run_size - (i - run * run_size), end - i)
        address = advance(base, g.run_source(geometry, run) + (i - run * run_size) * step, zero)
        for j in range(size):
            high, rest = two_sum(high, math.exp(_element(zero, address, j * step)))
            low += rest
        i += size
    _put_state(state, 0.0, high, low)


@inner
def _result(state: int) -> float:
    shift, high, low = load(state, 0, 0.0), load(state, 1, 0.0), load(state, 2, 0.0)
    if shift - shift != 0.0:
        return shift
    return shift + (math.log(high) + low / high)


@inner
def _decide(zero: float, base: int, geometry: int, state: int, address: int, offset: int) -> None:
    result = _result(state)
    if abs(result) < NEAR_ZERO:
        _compensated(zero, base, geometry, 0, at(geometry, g.COUNT), state)
        result = _result(state)
    put(address, offset, narrow(result, zero), zero)


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One output element and one segment a unit; several segments leave states."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    memory = np.empty(2 * LANES + STATE, np.int64)
    scratch = memory.ctypes.data
    own = scratch + 16 * LANES
    for unit in range(begin, end):
        output = unit // segments
        base = advance(source, g.kept_source(geometry, output), zero)
        first = (unit - output * segments) * segment
        last = min(first + segment, count)
        if at(geometry, TIER) == COMPENSATED:
            _compensated(zero, base, geometry, first, last, states + 8 * STATE * unit)
        elif segments > 1:
            _plain(zero, base, geometry, first, last, scratch, states + 8 * STATE * unit)
        else:
            _plain(zero, base, geometry, 0, count, scratch, own)
            _decide(zero, base, geometry, own, target, g.kept_target(geometry, output))
    memory[0] = 0  # keeps the memory alive until here


@inner
def _add_columns(
    zero: float, base: int, geometry: int, begin: int, end: int, width: int, sums: int, peaks: int
) -> None:
    run_size, row = at(geometry, g.RUN), at(geometry, g.STEP) * size_of(zero)
    _clear(sums, peaks, width)
    i = begin
    while i < end:
        run = i // run_size
        rows = min(run_size - (i - run * run_size), end - i)
        address = advance(base, g.run_source(geometry, run), zero) + (i - run * run_size) * row
        _rows(zero, address, row, rows, width, at(geometry, g.COLUMN_STEP), 0.0, sums, peaks)
        i += rows


@kernel
def columns(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One tile of columns and one segment a unit; several segments leave states."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    tiles, tile, step = at(geometry, g.TILES), at(geometry, g.TILE), at(geometry, g.COLUMN_STEP)
    all_columns = at(geometry, g.COLUMNS)
    memory = np.empty(2 * tile + 2 * LANES + STATE, np.int64)
    sums = memory.ctypes.data
    peaks, scratch = sums + 8 * tile, sums + 16 * tile
    own = scratch + 16 * LANES
    for unit in range(begin, end):
        part = unit // segments
        outer = part // tiles
        start = (part - outer * tiles) * tile
        width = min(tile, all_columns - start)
        base = advance(source, g.kept_source(geometry, outer) + start * step, zero)
        first = (unit - part * segments) * segment
        last = min(first + segment, count)
        if last - first < LEAST_TERMS or not single_columns(zero, base, geometry, first, last, width, sums, peaks):
            _add_columns(zero, base, geometry, first, last, width, sums, peaks)
        offset = g.kept_target(geometry, outer) + start * at(geometry, g.COLUMN_TARGET)
        for i in range(width):
            output = outer * all_columns + start + i
            state = states + 8 * STATE * (output * segments + unit - part * segments) if segments > 1 else own
            here = advance(base, i * step, zero)
            if load(peaks, i, int32(0)) <= bits_of(NARROW, zero):
                _put_state(state, 0.0, load(sums, i, 0.0), 0.0)
            else:
                _shifted(zero, here, geometry, first, last, scratch, state)
            if segments == 1:
                _decide(zero, here, geometry, own, target, offset + i * at(geometry, g.COLUMN_TARGET))
    memory[0] = 0  # keeps the memory alive until here


@inner
def _merge(states: int, segments: int) -> None:
    """Merges states into the first one."""
    shift = load(states, 0, 0.0)
    for i in range(1, segments):
        other = load(states, STATE * i, 0.0)
        # NaN stays; of infinities the positive one does.
        shift = shift if shift != shift or shift > other else other
    if shift - shift != 0.0:
        _put_state(states, shift, 1.0, 0.0)
        return
    high, low = 0.0, 0.0
    for i in range(segments):
        other = load(states, STATE * i, 0.0)
        scale = 1.0 if other == shift else math.exp(other - shift)
        high, rest = two_sum(high, load(states, STATE * i + 1, 0.0) * scale)
        low += rest + load(states, STATE * i + 2, 0.0) * scale
    _put_state(states, shift, high, low)


@kernel
def finish(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Merges the segments of output elements; the first place of their states becomes whether they are open."""
    segments, tier = at(geometry, g.SEGMENTS), at(geometry, TIER)
    for output in range(begin, end):
        here = states + 8 * STATE * segments * output
        _merge(here, segments)
        result = _result(here)
        put(target, g.kept_target(geometry, output), narrow(result, zero), zero)
        store(here, 0, 1 if tier == PLAIN and abs(result) < NEAR_ZERO else 0)
