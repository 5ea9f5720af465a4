"""LOG_SUM_EXP of floats, at most 1 ULP from the exact value (1e-15 absolute for results close to zero).

Most sums are large enough for exponentials in FLOAT32; see ``single_exponentials``. The others are computed in float64
with compensated additions, so that only the errors of the exponentials remain: at most 2.3e-16 of the sum, which is the
absolute error of its logarithm. If all magnitudes are at most ``NARROW``, the exponentials are added up unshifted,
since even 2**32 of them are in float64's range; otherwise elements are shifted by the largest one. Several sums run
side by side: those of adjacent columns, or partial sums of a row.
"""

from __future__ import annotations

import math

import numpy as np

from ..jit.compiler import inner, kernel
from ..jit.element import address_of, bits_double, choose, double_bits, fused, int32, int64, load, read, size_of, store
from ..numbers.formats import element_bits, magnitude_bits, masked, narrow, narrow_vector, put
from ..numbers.rounding import two_sum
from ..numbers.vector_rounding import logarithms
from ..numbers.vectors import WIDTH, load_vector, store_vector
from ..run import geometry as g
from ..run.geometry import advance, at, run_from, tile_of
from .single_exponentials import LEAST_TERMS, single_exponential_columns, single_exponential_sum, suffices

NARROW = 600.0
"""Largest magnitude at which exponentials are not shifted."""

STATE = 3
"""Slots of a state: shift, and the high and low part of the sum of shifted exponentials."""

LANES = 32
"""Partial sums of a row."""

PLACES = 4
"""Slots of a running sum: high part, low part, shift, and the bits of the largest magnitude."""

MOST_ROWS = 1024
"""Maximum number of rows in a tile of columns; a tile takes several times as long if its sums must be shifted."""

_LOG2_E = 1.4426950408889634
_LN2, _LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
"""ln 2, split into a high and a low part."""

_MAGIC = 6755399441055744.0
"""1.5 * 2**52: adding it rounds to an integer, which is then in the low bits."""

_LEAST = -700.0
"""Lower bound of exponents: smaller ones are clamped, and their exponentials are negligible."""


@inner
def exponential(x: float) -> float:
    """Returns e**x for |x| <= 700, within 1 ULP: 2**k times the Taylor polynomial of the remainder."""
    shifted = fused(x, _LOG2_E, _MAGIC)
    k = shifted - _MAGIC
    r = fused(-k, _LN2_LOW, fused(-k, _LN2, x))
    square = r * r
    fourth = square * square
    lower = fused(square, fused(r, 1 / 120.0, 1 / 24.0), fused(r, 1 / 6.0, 0.5))
    middle = fused(square, fused(r, 1 / 362880.0, 1 / 40320.0), fused(r, 1 / 5040.0, 1 / 720.0))
    upper = fused(square, fused(r, 1 / 6227020800.0, 1 / 479001600.0), fused(r, 1 / 39916800.0, 1 / 3628800.0))
    p = fused(fused(fourth, fused(fourth, upper, middle), lower), square, r) + 1.0
    return bits_double(double_bits(p) + (double_bits(shifted) << 52))


@inner
def _add(zero: float, address: int, width: int, step: int, sums: int, distance: int) -> None:
    """Adds the shifted exponentials of elements to as many running sums, whose slots are ``distance`` apart."""
    for i in range(width):
        element = read(address, i * step, zero)
        x = min(max(masked(element, -1) - load(sums, 2 * distance + i, 0.0), _LEAST), -_LEAST)
        total, rest = two_sum(load(sums, i, 0.0), exponential(x))
        store(sums, i, total)
        store(sums, distance + i, load(sums, distance + i, 0.0) + rest)
        peak = max(load(sums, 3 * distance + i, 0), int64(magnitude_bits(element)))
        store(sums, 3 * distance + i, peak)


@inner
def _raise(zero: float, address: int, width: int, step: int, sums: int, distance: int) -> None:
    """Raises shifts to larger elements; NaN counts as larger than everything."""
    for i in range(width):
        shift, x = load(sums, 2 * distance + i, 0.0), masked(read(address, i * step, zero), -1)
        store(sums, 2 * distance + i, choose((x > shift) | (x != x), x, shift))


@inner
def _rows(
    zero: float, address: int, row: int, rows: int, width: int, step: int, sums: int, distance: int, shifts: bool
) -> None:
    for i in range(rows):
        here = address + i * row
        if shifts:
            if step == 1:
                _raise(zero, here, width, 1, sums, distance)
            else:
                _raise(zero, here, width, step, sums, distance)
        elif step == 1:
            _add(zero, here, width, 1, sums, distance)
        else:
            _add(zero, here, width, step, sums, distance)


@inner
def _take(
    zero: float, base: int, geometry: int, begin: int, end: int, columns: int, sums: int, distance: int, shifts: bool
) -> None:
    """Processes elements ``begin`` to ``end`` of adjacent columns, or of one row if ``columns`` is 0."""
    step, item = at(geometry, g.STEP), size_of(zero)
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        if columns:
            _rows(zero, address, step * item, size, columns, at(geometry, g.COLUMN_STEP), sums, distance, shifts)
        else:
            rows, row = size // LANES, LANES * step * item
            _rows(zero, address, row, rows, LANES, step, sums, distance, shifts)
            _rows(zero, address + rows * row, row, 1, size - rows * LANES, step, sums, distance, shifts)
        i += size


@inner
def _clear(sums: int, width: int, distance: int) -> None:
    for i in range(width):
        store(sums, i, 0.0)
        store(sums, distance + i, 0.0)


@inner
def _one_shift(sums: int) -> None:
    """Sets the shifts of all partial sums of a row to the largest one."""
    shift = load(sums, 2 * LANES, 0.0)
    for i in range(1, LANES):
        other = load(sums, 2 * LANES + i, 0.0)
        shift = choose((other > shift) | (other != other), other, shift)
    for i in range(LANES):
        store(sums, 2 * LANES + i, shift)


@inner
def _sum(zero: float, base: int, geometry: int, begin: int, end: int, columns: int, sums: int, distance: int) -> None:
    """Computes running sums and their shifts: of columns, or partial sums of a row, which share one shift."""
    width = columns if columns else LANES
    _clear(sums, width, distance)
    for i in range(width):
        store(sums, 2 * distance + i, 0.0)
        store(sums, 3 * distance + i, 0)
    _take(zero, base, geometry, begin, end, columns, sums, distance, False)
    peak = int64(0)
    for i in range(width):
        peak = max(peak, load(sums, 3 * distance + i, 0))
    if peak <= int64(element_bits(NARROW, zero)):
        return
    _clear(sums, width, distance)
    for i in range(width):
        store(sums, 2 * distance + i, -math.inf)
    _take(zero, base, geometry, begin, end, columns, sums, distance, True)
    if not columns:
        _one_shift(sums)
    _take(zero, base, geometry, begin, end, columns, sums, distance, False)


@inner
def _put_state(state: int, shift: float, high: float, low: float) -> None:
    """Stores a state. If the shift is infinite or NaN the sum is meaningless and replaced by a harmless one."""
    is_finite = shift - shift == 0.0
    store(state, 0, shift)
    store(state, 1, high if is_finite else 1.0)
    store(state, 2, low if is_finite else 0.0)


@inner
def _plain(zero: float, base: int, geometry: int, begin: int, end: int, sums: int, state: int) -> None:
    """Computes and stores the state of a segment of a row."""
    if end - begin >= LEAST_TERMS:
        total, most = single_exponential_sum(zero, base, geometry, begin, end)
        if suffices(zero, total, most):
            _put_state(state, 0.0, total, 0.0)
            return
    _sum(zero, base, geometry, begin, end, 0, sums, LANES)
    high, low = 0.0, 0.0
    for i in range(LANES):
        high, rest = two_sum(high, load(sums, i, 0.0))
        low += rest + load(sums, LANES + i, 0.0)
    _put_state(state, load(sums, 2 * LANES, 0.0), high, low)


@inner
def _result(shift: float, high: float, low: float) -> float:
    """Returns the logarithm; an infinite or NaN shift is itself the result."""
    return shift + (math.log(high) + low / high) if shift - shift == 0.0 else shift


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Row kernel: a unit is one output element or one segment of it. With several segments, stores states."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    memory = np.empty(PLACES * LANES + STATE, np.int64)
    sums = address_of(memory)
    own = sums + 8 * PLACES * LANES
    for unit in range(begin, end):
        output = unit // segments
        base = advance(source, g.kept_source(geometry, output), zero)
        first = (unit - output * segments) * segment
        state = states + 8 * STATE * unit if segments > 1 else own
        _plain(zero, base, geometry, first, min(first + segment, count), sums, state)
        if segments == 1:
            result = _result(load(own, 0, 0.0), load(own, 1, 0.0), load(own, 2, 0.0))
            put(target, g.kept_target(geometry, output), narrow(result, zero), zero)
    memory[0] = 0  # keeps the buffer alive until here


@inner
def _put_singles(zero: float, sums: int, width: int, target: int, offset: int, step: int) -> None:
    """Stores the logarithms of sums large enough for FLOAT32 exponentials."""
    for i in range(0, width, WIDTH):
        store_vector(sums, i, narrow_vector(logarithms(load_vector(sums, i, 0.0)), zero))
        for j in range(min(WIDTH, width - i)):
            put(target, offset + (i + j) * step, int64(load(sums, i + j, int32(0))), zero)


@kernel
def columns(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Column kernel: a unit is one segment of a tile of columns. With several segments, stores states."""
    segments, apart = at(geometry, g.SEGMENTS), at(geometry, g.COLUMN_TARGET)
    padded = -(-at(geometry, g.TILE) // WIDTH) * WIDTH
    memory = np.empty(PLACES * padded, np.int64)
    sums = address_of(memory)
    for unit in range(begin, end):
        tile = tile_of(source, geometry, unit, zero)
        base, first, last, width = tile.base, tile.first, tile.last, tile.width
        singles = last - first >= LEAST_TERMS and single_exponential_columns(zero, geometry, tile, sums, padded)
        if singles and segments == 1:
            _put_singles(zero, sums, width, target, tile.offset, apart)
            continue
        if not singles:
            _sum(zero, base, geometry, first, last, width, sums, padded)
        for i in range(width):
            shift, high, low = load(sums, 2 * padded + i, 0.0), load(sums, i, 0.0), load(sums, padded + i, 0.0)
            if segments > 1:
                state = (tile.outer * at(geometry, g.COLUMNS) + tile.start + i) * segments + tile.segment
                _put_state(states + 8 * STATE * state, shift, high, low)
            else:
                result = _result(shift, high, low)
                put(target, tile.offset + i * apart, narrow(result, zero), zero)
    memory[0] = 0  # keeps the buffer alive until here


@inner
def _merged(states: int, segments: int) -> float:
    """Returns the result of all segments."""
    shift = load(states, 0, 0.0)
    for i in range(1, segments):
        other = load(states, STATE * i, 0.0)
        # NaN wins; of two infinities, the positive one.
        shift = shift if shift != shift or shift > other else other
    high, low = 0.0, 0.0
    if shift - shift == 0.0:
        for i in range(segments):
            other = load(states, STATE * i, 0.0)
            scale = 1.0 if other == shift else math.exp(other - shift)
            high, rest = two_sum(high, load(states, STATE * i + 1, 0.0) * scale)
            low += rest + load(states, STATE * i + 2, 0.0) * scale
    return _result(shift, high, low)


@kernel
def finish(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Merges the segments of output elements."""
    segments = at(geometry, g.SEGMENTS)
    for output in range(begin, end):
        result = _merged(states + 8 * STATE * segments * output, segments)
        put(target, g.kept_target(geometry, output), narrow(result, zero), zero)
