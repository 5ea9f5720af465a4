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
from .element import (
    bits_double,
    double_bits,
    float64,
    fused,
    int8,
    int32,
    int64,
    larger,
    load,
    read,
    size_of,
    smaller,
    store,
)
from .formats import (
    bits_of,
    extraordinary,
    infinity_bits,
    magnitude_bits,
    masked,
    narrow,
    narrow_vector,
    put,
    values,
)
from .geometry import advance, at
from .number_vectors import (
    WIDTH,
    Vector,
    absolutes,
    any_of,
    bits_doubles,
    elements,
    greatest_of,
    least_of,
    load_vector,
    longs_bits,
    magnitudes,
    pick,
    product_of,
    spread,
    store_vector,
    sum_of,
)
from .rounding import UNIT, to_odd, two_sum
from .sums import COMPENSATED, TIER

STATE = 6
"""Places of a state: significand's high and low part, exponent, relative error, greatest and least magnitude's bits."""

GROUP = 8
"""Vectors that are multiplied before a look at the exponent."""

BATCH = 64
"""Rows that are rounded at once."""

SLACK = 1.001

_SIGN_AND_FRACTION = -0x7FF0000000000001
_ONE = 0x3FF0000000000000

_NO_MAGNITUDE = 0x7FFFFFFF

Product = tuple[Vector, Vector, Vector, Vector]
"""Sixteen products: significands, exponents, the greatest and the least magnitude's bits."""


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
def _normalized(significands: Vector, exponents: Vector) -> tuple[Vector, Vector]:
    bits = longs_bits(significands)
    normal = bits_doubles((bits & _SIGN_AND_FRACTION) | _ONE)
    return normal, exponents + (((bits >> 52) & 0x7FF) - 1023)


@inner
def _times(zero: float, address: int, row: int, rows: int, step: int | None, product: Product) -> Product:
    """Multiplies by ``rows`` vectors, at most ``GROUP``, that lie ``row`` bytes apart."""
    part, most, least = spread(1.0), spread(int32(0)), spread(int32(_NO_MAGNITUDE))
    for i in range(rows):
        bits = elements(address + i * row, step, zero)
        part = part * values(bits)
        most, least = larger(most, magnitudes(bits)), smaller(least, magnitudes(bits))
    significands, exponents = product[0], product[1]
    if any_of(extraordinary(most, least, zero)):
        for i in range(rows):
            significands = significands * values(elements(address + i * row, step, zero))
            significands, exponents = _normalized(significands, exponents)
    else:
        significands, exponents = _normalized(significands * part, exponents)
    return significands, exponents, larger(product[2], most), smaller(product[3], least)


@inner
def _run(zero: float, address: int, vectors: int, row: int, step: int | None, product: Product) -> Product:
    for first in range(0, vectors, GROUP):
        product = _times(zero, address + first * row, row, min(GROUP, vectors - first), step, product)
    return product


@inner
def _put_state(
    state: int, distance: int, high: float, low: float, exponent: int, error: float, most: int, least: int
) -> None:
    """The parts of a state lie ``distance`` places apart."""
    store(state, 0, high)
    store(state, distance, low)
    store(state, 2 * distance, exponent)
    store(state, 3 * distance, error)
    store(state, 4 * distance, most)
    store(state, 5 * distance, least)


@inner
def _plain_error(count: int) -> float:
    """Of as many roundings as factors, one a group and those of folding."""
    return SLACK * UNIT * (2 * count + 2 * WIDTH)


@inner
def _plain(zero: float, base: int, geometry: int, begin: int, end: int, state: int, distance: int) -> None:
    """Leaves the product of factors ``begin`` to ``end``."""
    run_size, step = at(geometry, g.RUN), at(geometry, g.STEP)
    product = spread(1.0), spread(0), spread(int32(0)), spread(int32(_NO_MAGNITUDE))
    high, exponent, most, least = 1.0, 0, int32(0), int32(_NO_MAGNITUDE)
    i = begin
    while i < end:
        run = i // run_size
        size = min(run_size - (i - run * run_size), end - i)
        address = advance(base, g.run_source(geometry, run) + (i - run * run_size) * step, zero)
        vectors = size // WIDTH
        row = advance(0, WIDTH * step, zero)
        if step == 1:
            product = _run(zero, address, vectors, row, None, product)
        else:
            product = _run(zero, address, vectors, row, step, product)
        for j in range(vectors * WIDTH, size):
            magnitude = magnitude_bits(read(address, j * step, zero))
            most, least = larger(most, magnitude), smaller(least, magnitude)
            high *= _factor(zero, address, j * step)
            exponent += _exponent(high)
            high = _normal(high)
        i += size
    high *= product_of(product[0])
    exponent += _exponent(high) + sum_of(product[1])
    most, least = larger(most, greatest_of(product[2])), smaller(least, least_of(product[3]))
    _put_state(state, distance, _normal(high), 0.0, exponent, _plain_error(end - begin), int64(most), int64(least))


@inner
def _compensated(zero: float, base: int, geometry: int, begin: int, end: int, state: int, distance: int) -> None:
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
    _put_state(state, distance, high, low, exponent, error, most, least)


@inner
def _special(high: float, most: int, least: int, zero: float) -> int:
    """The result if a factor is zero, infinite or NaN."""
    infinity = int64(bits_of(math.inf, zero))
    if most > infinity or (most == infinity and least == 0):
        return narrow(math.nan, zero)
    return narrow(math.copysign(math.inf if most == infinity else 0.0, high), zero)


@inner
def _rounded(state: int, distance: int, zero: float) -> tuple[bool, int]:
    """Whether a state decides the result, and its bits."""
    high, low, exponent = load(state, 0, 0.0), load(state, distance, 0.0), load(state, 2 * distance, 0)
    error, most, least = load(state, 3 * distance, 0.0), load(state, 4 * distance, 0), load(state, 5 * distance, 0)
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
def _round_all(zero: float, states: int, width: int, results: int, opens: int) -> None:
    """Rounds products whose parts lie ``width`` apart; leaves the bits, and whether they are open as not 0."""
    infinity = infinity_bits(zero)
    for i in range(0, width, WIDTH):
        high, exponent = load_vector(states, i, 0.0), load_vector(states, 2 * width + i, 0)
        most, least = load_vector(states, 4 * width + i, 0), load_vector(states, 5 * width + i, 0)
        far = (exponent > 400) | (exponent < -400)
        result = high * bits_doubles((pick(far, spread(0), exponent) + 1023) << 52)
        margin = absolutes(result) * (load_vector(states, 3 * width + i, 0.0) + 4 * UNIT)
        below, above = narrow_vector(result - margin, zero), narrow_vector(result + margin, zero)
        special = far | (most > infinity - 1) | (least < 1) | ((below & infinity) > infinity - 1)
        store_vector(results, i, below)
        store_vector(opens, i, (below ^ above) | pick(special, spread(int32(1)), spread(int32(0))))


@inner
def _decide(zero: float, base: int, geometry: int, state: int, distance: int, flag: int) -> int:
    """The bits of a result that is not ordinary; ``flag`` tells whether they are still open."""
    decided, bits = _rounded(state, distance, zero)
    if not decided:
        _compensated(zero, base, geometry, 0, at(geometry, g.COUNT), state, distance)
        decided, bits = _rounded(state, distance, zero)
    if not decided:
        store(flag, 0, int8(1))
    return bits


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One output element and one segment a unit; several segments leave states, one alone flags what is open."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    memory = np.empty((STATE + 1) * BATCH, np.int64)
    own = memory.ctypes.data
    results = own + 8 * STATE * BATCH
    opens = results + 4 * BATCH
    for start in range(begin, end, BATCH):
        until = min(start + BATCH, end)
        for unit in range(start, until):
            output = unit // segments
            base = advance(source, g.kept_source(geometry, output), zero)
            first = (unit - output * segments) * segment
            last = min(first + segment, count)
            state, distance = own + 8 * (unit - start), BATCH
            if segments > 1:
                state, distance = states + 8 * STATE * unit, 1
            if at(geometry, TIER) == COMPENSATED:
                _compensated(zero, base, geometry, first, last, state, distance)
            else:
                _plain(zero, base, geometry, first, last, state, distance)
        if segments > 1:
            continue
        _round_all(zero, own, BATCH, results, opens)
        for i in range(until - start):
            bits, output = int64(load(results, i, int32(0))), start + i
            if load(opens, i, int32(0)):
                base = advance(source, g.kept_source(geometry, output), zero)
                bits = _decide(zero, base, geometry, own + 8 * i, BATCH, states + output)
            put(target, g.kept_target(geometry, output), bits, zero)
    memory[0] = 0  # keeps the memory alive until here


@inner
def _clear(width: int, states: int, peaks: int) -> None:
    for i in range(0, width, WIDTH):
        store_vector(states, i, spread(1.0))
        store_vector(states, 2 * width + i, spread(0))
        store_vector(peaks, i, spread(int32(0)))
        store_vector(peaks, width + i, spread(int32(_NO_MAGNITUDE)))


@inner
def _column(
    zero: float, address: int, row: int, rows: int, i: int, step: int | None, states: int, width: int, peaks: int
) -> None:
    """Multiplies the products of a vector of columns by at most ``GROUP`` rows."""
    product = (
        load_vector(states, i, 0.0),
        load_vector(states, 2 * width + i, 0),
        load_vector(peaks, i, int32(0)),
        load_vector(peaks, width + i, int32(0)),
    )
    product = _times(zero, address, row, rows, step, product)
    store_vector(states, i, product[0])
    store_vector(states, 2 * width + i, product[1])
    store_vector(peaks, i, product[2])
    store_vector(peaks, width + i, product[3])


@inner
def _rest(
    zero: float, address: int, row: int, rows: int, i: int, stride: int, states: int, width: int, peaks: int
) -> None:
    """A column that is in no whole vector."""
    high, exponent = load(states, i, 0.0), load(states, 2 * width + i, 0)
    most, least = load(peaks, i, int32(0)), load(peaks, width + i, int32(0))
    for j in range(rows):
        here = address + j * row
        magnitude = magnitude_bits(read(here, i * stride, zero))
        most, least = larger(most, magnitude), smaller(least, magnitude)
        high *= _factor(zero, here, i * stride)
        exponent += _exponent(high)
        high = _normal(high)
    store(states, i, high)
    store(states, 2 * width + i, exponent)
    store(peaks, i, most)
    store(peaks, width + i, least)


@inner
def _rows(
    zero: float,
    address: int,
    row: int,
    rows: int,
    columns: int,
    stride: int,
    step: int | None,
    states: int,
    width: int,
    peaks: int,
) -> None:
    whole = columns // WIDTH * WIDTH
    across = advance(0, stride, zero)
    for first in range(0, rows, GROUP):
        here, size = address + first * row, min(GROUP, rows - first)
        for i in range(0, whole, WIDTH):
            _column(zero, here + i * across, row, size, i, step, states, width, peaks)
        for i in range(whole, columns):
            _rest(zero, here, row, size, i, stride, states, width, peaks)


@inner
def _take_columns(
    zero: float, base: int, geometry: int, begin: int, end: int, columns: int, states: int, width: int, peaks: int
) -> None:
    run_size, row = at(geometry, g.RUN), at(geometry, g.STEP) * size_of(zero)
    stride = at(geometry, g.COLUMN_STEP)
    _clear(width, states, peaks)
    i = begin
    while i < end:
        run = i // run_size
        rows = min(run_size - (i - run * run_size), end - i)
        address = advance(base, g.run_source(geometry, run), zero) + (i - run * run_size) * row
        if stride == 1:
            _rows(zero, address, row, rows, columns, 1, None, states, width, peaks)
        else:
            _rows(zero, address, row, rows, columns, stride, stride, states, width, peaks)
        i += rows
    error = _plain_error(end - begin)
    for i in range(columns):
        store(states, width + i, 0.0)
        store(states, 3 * width + i, error)
        store(states, 4 * width + i, int64(load(peaks, i, int32(0))))
        store(states, 5 * width + i, int64(load(peaks, width + i, int32(0))))


@kernel
def columns(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One tile of columns and one segment a unit; several segments leave states, one alone flags what is open."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    tiles, tile, step = at(geometry, g.TILES), at(geometry, g.TILE), at(geometry, g.COLUMN_STEP)
    all_columns = at(geometry, g.COLUMNS)
    padded = -(-tile // WIDTH) * WIDTH
    memory = np.empty((STATE + 1) * padded, np.int64)
    own = memory.ctypes.data
    results = own + 8 * STATE * padded
    opens = results + 4 * padded
    for unit in range(begin, end):
        part = unit // segments
        outer = part // tiles
        start = (part - outer * tiles) * tile
        width = min(tile, all_columns - start)
        base = advance(source, g.kept_source(geometry, outer) + start * step, zero)
        first = (unit - part * segments) * segment
        last = min(first + segment, count)
        _take_columns(zero, base, geometry, first, last, width, own, padded, results)
        outputs = outer * all_columns + start
        if segments > 1:
            for i in range(width):
                state = states + 8 * STATE * ((outputs + i) * segments + unit - part * segments)
                for j in range(STATE):
                    store(state, j, load(own, j * padded + i, 0))
            continue
        _round_all(zero, own, padded, results, opens)
        offset = g.kept_target(geometry, outer) + start * at(geometry, g.COLUMN_TARGET)
        for i in range(width):
            bits = int64(load(results, i, int32(0)))
            if load(opens, i, int32(0)):
                here = advance(base, i * step, zero)
                bits = _decide(zero, here, geometry, own + 8 * i, padded, states + outputs + i)
            put(target, offset + i * at(geometry, g.COLUMN_TARGET), bits, zero)
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
        _put_state(here, 1, high, low, exponent, error * SLACK, most, least)
        decided, bits = _rounded(here, 1, zero)
        put(target, g.kept_target(geometry, output), bits, zero)
        store(here, 0, 0 if decided else 1)
