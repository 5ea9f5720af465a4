"""MULTIPLY of floats: a product as significand and exponent, so that no partial product leaves float64's range.

n multiplications in float64 err by at most n * UNIT, relatively and to first order. Where that does not decide the
rounding the product is taken again with the error of every multiplication kept. What that does not decide either is
left to the caller. Signs of zeros are those of the significand. NaN, infinities and zeros show in the greatest and the
least magnitude.
"""

from __future__ import annotations

import math

import numpy as np

from . import geometry as g
from .compiler import inner, kernel
from .element import bits_double, double_bits, float64, fused, int8, int64, larger, load, read, size_of, smaller, store
from .formats import bits_of, magnitude_bits, masked, narrow, put
from .geometry import advance, at
from .rounding import UNIT, to_odd, two_sum
from .sums import COMPENSATED, TIER

STATE = 6
"""Places of a state: significand's high and low part, exponent, relative error, greatest and least magnitude's bits."""

LANES = 32

GROUP = 4
"""Factors between two looks at the exponent: four times that of a FLOAT32 stays within float64's."""

SLACK = 1.001

_SIGN_AND_FRACTION = -0x7FF0000000000001
_ONE = 0x3FF0000000000000

_ZERO_EXPONENT, _SPECIAL_EXPONENT = -1023, 1024
"""What ``_exponent`` says of zeros, and of infinities and NaN. Products of ordinary factors lie well between."""


@inner
def _factor(zero: float, address: int, index: int) -> float:
    return masked(read(address, index, zero), -1)


@inner
def _normal(value: float) -> float:
    """A value scaled to a magnitude from 1 to 2; of a zero and an infinity the sign alone remains."""
    return bits_double((double_bits(value) & _SIGN_AND_FRACTION) | _ONE)


@inner
def _exponent(value: float) -> int:
    return ((double_bits(value) >> 52) & 0x7FF) - 1023


@inner
def _multiply_rows(zero: float, address: int, row: int, rows: int, width: int, step: int, scratch: int) -> None:
    """Multiplies the product of each column by ``rows`` (1 or 4) factors that lie ``row`` bytes apart.

    The exponents of the four tell what is special: the least one is that of a zero, the greatest that of inf and NaN.
    """
    exponents, most, least = scratch + 8 * width, scratch + 16 * width, scratch + 24 * width
    for i in range(width):
        product = load(scratch, i, 0.0)
        for j in range(rows):
            product *= _factor(zero, address + j * row, i * step)
        exponent = _exponent(product)
        store(scratch, i, _normal(product))
        store(exponents, i, load(exponents, i, 0) + exponent)
        store(most, i, larger(load(most, i, 0), exponent))
        store(least, i, smaller(load(least, i, 0), exponent))


@inner
def _clear(width: int, scratch: int) -> None:
    for i in range(width):
        store(scratch, i, 1.0)
        store(scratch + 8 * width, i, 0)
        store(scratch + 16 * width, i, 0)
        store(scratch + 24 * width, i, 0)


@inner
def _magnitudes(zero: float, base: int, geometry: int, begin: int, end: int, most: int, least: int) -> tuple[int, int]:
    """The bits of the greatest and the least magnitude of factors ``begin`` to ``end``, where they are special.

    Ordinary ones are told by 1, as are all but zeros where the exponents show nothing greater.
    """
    if most < _SPECIAL_EXPONENT:
        return 1, 0 if least == _ZERO_EXPONENT else 1
    greatest, smallest = int64(0), int64(0x7FFFFFFF)
    run_size, step = at(geometry, g.RUN), at(geometry, g.STEP)
    i = begin
    while i < end:
        run = i // run_size
        size = min(run_size - (i - run * run_size), end - i)
        address = advance(base, g.run_source(geometry, run) + (i - run * run_size) * step, zero)
        for j in range(size):
            magnitude = int64(magnitude_bits(read(address, j * step, zero)))
            greatest, smallest = larger(greatest, magnitude), smaller(smallest, magnitude)
        i += size
    return greatest, smallest


@inner
def _take_rows(zero: float, address: int, row: int, rows: int, width: int, step: int, scratch: int) -> None:
    i = 0
    while i + GROUP <= rows:
        if step == 1:
            _multiply_rows(zero, address + i * row, row, GROUP, width, 1, scratch)
        else:
            _multiply_rows(zero, address + i * row, row, GROUP, width, step, scratch)
        i += GROUP
    while i < rows:
        _multiply_rows(zero, address + i * row, row, 1, width, step, scratch)
        i += 1


@inner
def _put_state(state: int, high: float, low: float, exponent: int, error: float, most: int, least: int) -> None:
    store(state, 0, high)
    store(state, 1, low)
    store(state, 2, exponent)
    store(state, 3, error)
    store(state, 4, most)
    store(state, 5, least)


@inner
def _plain(zero: float, base: int, geometry: int, begin: int, end: int, scratch: int, state: int) -> None:
    """Leaves the product of factors ``begin`` to ``end``."""
    run_size, step = at(geometry, g.RUN), at(geometry, g.STEP)
    _clear(LANES, scratch)
    high, exponent, most, least = 1.0, 0, 0, 0
    i = begin
    while i < end:
        run = i // run_size
        size = min(run_size - (i - run * run_size), end - i)
        address = advance(base, g.run_source(geometry, run) + (i - run * run_size) * step, zero)
        rows = size // LANES
        row = advance(0, LANES * step, zero)
        _take_rows(zero, address, row, rows, LANES, step, scratch)
        address += rows * row
        for j in range(size - rows * LANES):
            high *= _factor(zero, address, j * step)
            part = _exponent(high)
            exponent, most, least = exponent + part, larger(most, part), smaller(least, part)
            high = _normal(high)
        i += size
    for j in range(LANES):
        high *= load(scratch, j, 0.0)
        exponent += _exponent(high) + load(scratch, LANES + j, 0)
        high = _normal(high)
        most, least = larger(most, load(scratch, 2 * LANES + j, 0)), smaller(least, load(scratch, 3 * LANES + j, 0))
    most, least = _magnitudes(zero, base, geometry, begin, end, most, least)
    _put_state(state, high, 0.0, exponent, SLACK * UNIT * (end - begin + LANES), most, least)


@inner
def _compensated(zero: float, base: int, geometry: int, begin: int, end: int, state: int) -> None:
    """Leaves the product of factors ``begin`` to ``end`` in two parts.

    The low part grows by at most UNIT a factor, relative to the product, and its own roundings err by twice UNIT of it.
    """
    run_size, step = at(geometry, g.RUN), at(geometry, g.STEP)
    high, low, exponent, most, least = 1.0, 0.0, 0, 0, int64(0x7FFFFFFF)
    exact = True
    i = begin
    while i < end:
        run = i // run_size
        size = min(run_size - (i - run * run_size), end - i)
        address = advance(base, g.run_source(geometry, run) + (i - run * run_size) * step, zero)
        for j in range(size):
            factor = _factor(zero, address, j * step)
            magnitude = int64(magnitude_bits(read(address, j * step, zero)))
            most, least = max(most, magnitude), min(least, magnitude)
            product = high * factor
            rest = fused(high, factor, -product)
            low = low * factor + rest
            exact = exact and rest == 0.0
            shift = _exponent(product)
            high, low, exponent = _normal(product), low * bits_double((1023 - shift) << 52), exponent + shift
        i += size
    count = float64(end - begin)
    error = 0.0 if exact else (2.0 * count + 4.0) * (count + 1.0) * UNIT * UNIT
    _put_state(state, high, low, exponent, error, most, least)


@inner
def _special(high: float, most: int, least: int, zero: float) -> int:
    """The result if a factor is zero, infinite or NaN."""
    infinity = int64(bits_of(math.inf, zero))
    if most > infinity or (most == infinity and least == 0):
        return narrow(math.nan, zero)
    return narrow(math.copysign(math.inf if most == infinity else 0.0, high), zero)


@inner
def _rounded(state: int, zero: float) -> tuple[bool, int]:
    """Whether a state decides the result, and its bits."""
    high, low, exponent = load(state, 0, 0.0), load(state, 1, 0.0), load(state, 2, 0)
    error, most, least = load(state, 3, 0.0), load(state, 4, 0), load(state, 5, 0)
    if least == 0 or most >= int64(bits_of(math.inf, zero)):
        return True, _special(high, most, least, zero)
    # So far out any significand overflows, or rounds to zero.
    scale = bits_double((min(max(exponent, -400), 400) + 1023) << 52)
    high, low = high * scale, low * scale
    margin = abs(high) * error
    below_high, below_low = two_sum(high, low - margin)
    above_high, above_low = two_sum(high, low + margin)
    below = narrow(to_odd(below_high, below_low), zero)
    above = narrow(to_odd(above_high, above_low), zero)
    return below == above, below


@inner
def _decide(zero: float, base: int, geometry: int, state: int, address: int, offset: int, flag: int) -> None:
    """Puts the result into the output and into ``flag`` whether it is still open."""
    decided, bits = _rounded(state, zero)
    if not decided:
        _compensated(zero, base, geometry, 0, at(geometry, g.COUNT), state)
        decided, bits = _rounded(state, zero)
    put(address, offset, bits, zero)
    if not decided:
        store(flag, 0, int8(1))


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One output element and one segment a unit; several segments leave states, one alone flags what is open."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    memory = np.empty(4 * LANES + STATE, np.int64)
    scratch = memory.ctypes.data
    own = scratch + 32 * LANES
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
            _decide(zero, base, geometry, own, target, g.kept_target(geometry, output), states + output)
    memory[0] = 0  # keeps the memory alive until here


@inner
def _take_columns(zero: float, base: int, geometry: int, begin: int, end: int, width: int, scratch: int) -> None:
    run_size, row = at(geometry, g.RUN), at(geometry, g.STEP) * size_of(zero)
    _clear(width, scratch)
    i = begin
    while i < end:
        run = i // run_size
        rows = min(run_size - (i - run * run_size), end - i)
        address = advance(base, g.run_source(geometry, run), zero) + (i - run * run_size) * row
        _take_rows(zero, address, row, rows, width, at(geometry, g.COLUMN_STEP), scratch)
        i += rows


@kernel
def columns(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One tile of columns and one segment a unit; several segments leave states, one alone flags what is open."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    tiles, tile, step = at(geometry, g.TILES), at(geometry, g.TILE), at(geometry, g.COLUMN_STEP)
    all_columns = at(geometry, g.COLUMNS)
    memory = np.empty(4 * tile + STATE, np.int64)
    scratch = memory.ctypes.data
    own = scratch + 32 * tile
    for unit in range(begin, end):
        part = unit // segments
        outer = part // tiles
        start = (part - outer * tiles) * tile
        width = min(tile, all_columns - start)
        base = advance(source, g.kept_source(geometry, outer) + start * step, zero)
        first = (unit - part * segments) * segment
        last = min(first + segment, count)
        _take_columns(zero, base, geometry, first, last, width, scratch)
        offset = g.kept_target(geometry, outer) + start * at(geometry, g.COLUMN_TARGET)
        for i in range(width):
            output = outer * all_columns + start + i
            state = states + 8 * STATE * (output * segments + unit - part * segments) if segments > 1 else own
            high, exponent = load(scratch, i, 0.0), load(scratch, width + i, 0)
            here = advance(base, i * step, zero)
            most, least = load(scratch, 2 * width + i, 0), load(scratch, 3 * width + i, 0)
            most, least = _magnitudes(zero, here, geometry, first, last, most, least)
            _put_state(state, high, 0.0, exponent, SLACK * UNIT * (last - first), most, least)
            if segments == 1:
                place = offset + i * at(geometry, g.COLUMN_TARGET)
                _decide(zero, here, geometry, own, target, place, states + output)
    memory[0] = 0  # keeps the memory alive until here


@kernel
def finish(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Multiplies the segments of output elements; the first place of their states becomes whether they are open."""
    segments = at(geometry, g.SEGMENTS)
    for output in range(begin, end):
        here = states + 8 * STATE * segments * output
        high, low, exponent, error = load(here, 0, 0.0), load(here, 1, 0.0), load(here, 2, 0), load(here, 3, 0.0)
        most, least = load(here, 4, 0), load(here, 5, 0)
        exact = error == 0.0
        for i in range(1, segments):
            other = here + 8 * STATE * i
            factor, factor_low = load(other, 0, 0.0), load(other, 1, 0.0)
            product = high * factor
            rest = fused(high, factor, -product)
            exact = exact and rest == 0.0 and load(other, 3, 0.0) == 0.0
            error += load(other, 3, 0.0)
            # Both low parts are below 2**-20 of their high ones, so what their product adds is below the bound.
            error += abs(low * factor_low) + 4 * UNIT * (abs(low) + abs(factor_low) + UNIT)
            low = low * factor + (high * factor_low + rest)
            shift = _exponent(product)
            high, low, exponent = _normal(product), low * bits_double((1023 - shift) << 52), exponent + shift
            exponent += load(other, 2, 0)
            most, least = max(most, load(other, 4, 0)), min(least, load(other, 5, 0))
        if exact:
            error = 0.0
        elif at(geometry, TIER) != COMPENSATED:
            error += SLACK * UNIT * segments
        _put_state(here, high, low, exponent, error * SLACK, most, least)
        decided, bits = _rounded(here, zero)
        put(target, g.kept_target(geometry, output), bits, zero)
        store(here, 0, 0 if decided else 1)
