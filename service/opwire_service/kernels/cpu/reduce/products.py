"""MULTIPLY of floats: products as significand and exponent; see ``scaled_products``.

n multiplications in float64 have a relative error of at most n * UNIT, to first order. Where that does not decide the
rounding, the product is recomputed with compensation for the error of each multiplication. What that does not decide
either is left to the caller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, bits_double, float64, fused, int8, int32, int64, load, size_of, store
from ..jit.prefetch import rows_ahead, rows_at_once
from ..numbers.formats import factors_in_range, infinity_bits, narrow, narrow_vector, put
from ..numbers.rounding import UNIT, to_odd, two_sum
from ..numbers.vectors import (
    WIDTH,
    absolutes,
    bits_doubles,
    fused_vectors,
    load_vector,
    pick,
    product_of,
    spread,
    store_vector,
    sum_of,
)
from ..run import geometry as g
from ..run.column_rows import Rows, column_address, walk
from ..run.geometry import Tile, advance, at, run_from, segment_of, tile_of
from . import parameters as p
from .column_groups import in_vectors
from .column_states import finish_columns, put_states
from .parameters import COMPENSATED
from .plain_rows import are_whole
from .scaled_products import factor, split, split_scaled, times_group, times_rest, times_run

STATE = 4
"""Slots of a state: the significand's high and low part, exponent, relative error."""

BATCH = 64
"""Rows rounded together."""

SLACK = 1.001
"""Safety factor for the higher-order terms of error bounds."""


@inner
def _put_state(state: int, distance: int, high: float, low: float, exponent: int, error: float) -> None:
    """Stores a state whose parts are ``distance`` slots apart."""
    store(state, 0, high)
    store(state, distance, low)
    store(state, 2 * distance, exponent)
    store(state, 3 * distance, error)


@inner
def _plain_error(count: int) -> float:
    """Returns the relative error bound of a plain product: one rounding per factor, plus those of folding vectors."""
    return SLACK * UNIT * (count + 2 * WIDTH)


@inner
def _plain(zero: float, base: int, geometry: int, begin: int, end: int, state: int, distance: int) -> None:
    """Stores the product of factors ``begin`` to ``end``."""
    step = at(geometry, g.STEP)
    row = advance(0, WIDTH * step, zero)
    product = spread(1.0), spread(0)
    high, exponent = 1.0, 0
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        vectors = size // WIDTH
        if step == 1:
            product = times_run(zero, address, vectors, row, None, product)
        else:
            product = times_run(zero, address, vectors, row, step, product)
        for j in range(vectors * WIDTH, size):
            high, _, shift = split(high * factor(zero, address, j * step))
            exponent += shift
        i += size
    high, _, shift = split(high * product_of(product[0]))
    _put_state(state, distance, high, 0.0, exponent + shift + sum_of(product[1]), _plain_error(end - begin))


@inner
def _plain_rows(zero: float, source: int, geometry: int, begin: int, end: int, states: int, memory: int) -> None:
    """Like ``_plain``, for whole rows, with the parts of states ``BATCH`` apart; see ``plain_rows``.

    Args:
        zero: its type is the element type.
        source: address of the input.
        geometry: address of the geometry.
        begin, end: range of rows.
        states: address for the states.
        memory: scratch buffer of ``2 * WIDTH * WIDTH`` slots.
    """
    count, row, exponents = at(geometry, g.COUNT), advance(0, WIDTH, zero), memory + 8 * WIDTH * WIDTH
    for first in range(begin, end, WIDTH):
        last = min(first + WIDTH, end)
        for unit in range(first, last):
            address, place = advance(source, g.kept_source(geometry, unit), zero), (unit - first) * WIDTH
            product = times_run(zero, address, count // WIDTH, row, None, (spread(1.0), spread(0)))
            store_vector(memory, place, product[0])
            store_vector(exponents, place, product[1])
        for unit in range(first, last):
            place, high, exponent = (unit - first) * WIDTH, 1.0, 0
            for j in range(count // WIDTH * WIDTH, count):
                address = advance(source, g.kept_source(geometry, unit), zero)
                high, _, shift = split(high * factor(zero, address, j))
                exponent += shift
            high, _, shift = split(high * product_of(load_vector(memory, place, 0.0)))
            exponent += shift + sum_of(load_vector(exponents, place, 0))
            _put_state(states + 8 * (unit - begin), BATCH, high, 0.0, exponent, _plain_error(count))


@inner
def _compensated(zero: float, base: int, geometry: int, begin: int, end: int, state: int, distance: int) -> None:
    """Stores the product of factors ``begin`` to ``end``, none of them special, in two parts.

    The low part grows by at most UNIT per factor, relative to the product; its own roundings add at most twice UNIT of
    it.
    """
    step = at(geometry, g.STEP)
    high, low, exponent = 1.0, 0.0, 0
    exact = True
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        for j in range(size):
            next_factor = factor(zero, address, j * step)
            product = high * next_factor
            rest = fused(high, next_factor, -product)
            exact = exact and rest == 0.0
            high, scale, shift = split(product)
            low, exponent = (low * next_factor + rest) * scale, exponent + shift
        i += size
    count = float64(end - begin)
    error = 0.0 if exact else (2.0 * count + 4.0) * (count + 1.0) * UNIT * UNIT
    _put_state(state, distance, high, low, exponent, error)


@inner
def _rounded(state: int, distance: int, zero: float) -> tuple[bool, int]:
    """Returns whether a state decides the result, and the result's bits."""
    high, low = load(state, 0, 0.0), load(state, distance, 0.0)
    exponent, error = load(state, 2 * distance, 0), load(state, 3 * distance, 0.0)
    if high == 0.0 or high - high != 0.0:
        return True, narrow(high, zero)
    # Beyond these exponents any significand overflows, or rounds to zero.
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
    """Rounds products whose parts are ``width`` apart; stores the bits, and a nonzero flag for each open result."""
    infinity = infinity_bits(zero)
    for i in range(0, width, WIDTH):
        high, exponent = load_vector(states, i, 0.0), load_vector(states, 2 * width + i, 0)
        far = (exponent > 400) | (exponent < -400)
        result = high * bits_doubles((pick(far, spread(0), exponent) + 1023) << 52)
        margin = absolutes(result) * (load_vector(states, 3 * width + i, 0.0) + 4 * UNIT)
        below, above = narrow_vector(result - margin, zero), narrow_vector(result + margin, zero)
        special = far | ((below & infinity) > infinity - 1)
        store_vector(results, i, below)
        store_vector(opens, i, (below ^ above) | pick(special, spread(int32(1)), spread(int32(0))))


@inner
def _decide(zero: float, base: int, geometry: int, state: int, distance: int, flag: int) -> int:
    """Returns the bits of a result that is special or open; sets ``flag`` if it is still open."""
    decided, bits = _rounded(state, distance, zero)
    if not decided:
        _compensated(zero, base, geometry, 0, at(geometry, g.COUNT), state, distance)
        decided, bits = _rounded(state, distance, zero)
    if not decided:
        store(flag, 0, int8(1))
    return bits


@inner
def _take_units(
    zero: float, source: int, geometry: int, begin: int, end: int, own: int, states: int, memory: int
) -> None:
    """Computes the states of units: ``BATCH`` apart in ``own`` if units are whole elements, else in ``states``."""
    segments, tier = at(geometry, g.SEGMENTS), at(geometry, p.TIER)
    if tier != COMPENSATED and are_whole(geometry):
        _plain_rows(zero, source, geometry, begin, end, own, memory)
        return
    for unit in range(begin, end):
        output, _, first, last = segment_of(geometry, unit)
        base = advance(source, g.kept_source(geometry, output), zero)
        state, distance = own + 8 * (unit - begin), BATCH
        if segments > 1:
            state, distance = states + 8 * STATE * unit, 1
        if tier == COMPENSATED:
            _compensated(zero, base, geometry, first, last, state, distance)
        else:
            _plain(zero, base, geometry, first, last, state, distance)


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Row kernel: a unit is an output or a segment of one. Several segments store states; one flags an open output."""
    segments = at(geometry, g.SEGMENTS)
    memory = np.empty((STATE + 1) * BATCH + 2 * WIDTH * WIDTH, np.int64)
    own = address_of(memory)
    results = own + 8 * STATE * BATCH
    opens = results + 4 * BATCH
    for start in range(begin, end, BATCH):
        until = min(start + BATCH, end)
        _take_units(zero, source, geometry, start, until, own, states, opens + 4 * BATCH)
        if segments > 1:
            continue
        _round_all(zero, own, BATCH, results, opens)
        for i in range(until - start):
            bits, output = int64(load(results, i, int32(0))), start + i
            if load(opens, i, int32(0)):
                base = advance(source, g.kept_source(geometry, output), zero)
                bits = _decide(zero, base, geometry, own + 8 * i, BATCH, states + output)
            put(target, g.kept_target(geometry, output), bits, zero)
    memory[0] = 0  # keeps the buffer alive until here


@inlined
def _column(
    zero: float, address: int, row: int, rows: int, ahead: int, step: int | None, state: int, width: int
) -> None:
    """Multiplies the products of a vector of columns by rows."""
    group = factors_in_range(zero)
    product = load_vector(state, 0, 0.0), load_vector(state, 2 * width, 0)
    for _ in range(rows // group):
        product = times_group(zero, address, row, ahead, step, product)
        address += group * row
    if rows % group:
        product = times_rest(zero, address, row, rows % group, step, product)
    store_vector(state, 0, product[0])
    store_vector(state, 2 * width, product[1])


@inner
def _rest(zero: float, address: int, row: int, rows: int, state: int, width: int) -> None:
    """Multiplies the product of a column outside of whole vectors by rows."""
    high, exponent = load(state, 0, 0.0), load(state, 2 * width, 0)
    for j in range(rows):
        high, _, shift = split(high * factor(zero, address + j * row, 0))
        exponent += shift
    store(state, 0, high)
    store(state, 2 * width, exponent)


class _ProductState(NamedTuple):
    """The address of the columns' states, the distance of their parts, and the prefetch distance in bytes."""

    states: int
    distance: int
    ahead: int


@inner
def _take(zero: float, rows: Rows, memory: _ProductState, state: int) -> int:
    """Multiplies the columns' products by a group of rows."""
    states, distance, ahead = memory
    for i in range(0, in_vectors(rows), WIDTH):
        here = column_address(zero, rows, i)
        _column(zero, here, rows.pitch, rows.height, ahead, rows.step, states + 8 * i, distance)
    for i in range(in_vectors(rows), rows.width):
        _rest(zero, column_address(zero, rows, i), rows.pitch, rows.height, states + 8 * i, distance)
    return state


@inner
def _take_columns(zero: float, geometry: int, tile: Tile, states: int, distance: int) -> None:
    """Computes the states of columns, whose parts are ``distance`` apart."""
    pitch = at(geometry, g.STEP) * size_of(zero)
    for i in range(0, distance, WIDTH):
        store_vector(states, i, spread(1.0))
        store_vector(states, distance + i, spread(0.0))
        store_vector(states, 2 * distance + i, spread(0))
        store_vector(states, 3 * distance + i, spread(_plain_error(tile.last - tile.first)))
    group = rows_at_once(pitch, factors_in_range(zero))
    memory = _ProductState(states, distance, rows_ahead(pitch, group))
    walk(zero, geometry, tile, group, _take, memory, 0)


@kernel
def columns(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Column kernel: a unit is a segment of a tile. Several segments store states; one flags open outputs."""
    step, apart = at(geometry, g.COLUMN_STEP), at(geometry, g.COLUMN_TARGET)
    padded = -(-at(geometry, g.TILE) // WIDTH) * WIDTH
    memory = np.empty((STATE + 1) * padded, np.int64)
    own = address_of(memory)
    results = own + 8 * STATE * padded
    opens = results + 4 * padded
    for unit in range(begin, end):
        tile = tile_of(source, geometry, unit, zero)
        _take_columns(zero, geometry, tile, own, padded)
        if at(geometry, g.SEGMENTS) > 1:
            put_states(own, padded, STATE, states, geometry, tile)
            continue
        flags = states + tile.outer * at(geometry, g.COLUMNS) + tile.start
        _round_all(zero, own, padded, results, opens)
        for i in range(tile.width):
            bits = int64(load(results, i, int32(0)))
            if load(opens, i, int32(0)):
                here = advance(tile.base, i * step, zero)
                bits = _decide(zero, here, geometry, own + 8 * i, padded, flags + i)
            put(target, tile.offset + i * apart, bits, zero)
    memory[0] = 0  # keeps the buffer alive until here


@inner
def _merge_columns(geometry: int, rows: int, states: int) -> None:
    """Merges the segments of a vector of columns; the parts of ``states`` are ``WIDTH`` apart."""
    columns, segments = at(geometry, g.COLUMNS), at(geometry, g.SEGMENTS)
    high, low = load_vector(rows, 0, 0.0), load_vector(rows, columns, 0.0)
    exponent, error = load_vector(rows, 2 * columns, 0), load_vector(rows, 3 * columns, 0.0)
    inexact = error
    for i in range(1, segments):
        here = STATE * columns * i
        by, by_low = load_vector(rows, here, 0.0), load_vector(rows, here + columns, 0.0)
        by_error = load_vector(rows, here + 3 * columns, 0.0)
        product = high * by
        rest = fused_vectors(high, by, spread(0.0) - product)
        inexact = inexact + absolutes(rest) + by_error
        error = error + by_error
        error = error + absolutes(low * by_low) + (absolutes(low) + absolutes(by_low) + UNIT) * (4 * UNIT)
        low = low * by + (high * by_low + rest)
        high, scale, exponent = split_scaled(product, exponent + load_vector(rows, here + 2 * columns, 0))
        low = low * scale
    if at(geometry, p.TIER) != COMPENSATED:
        error = error + SLACK * UNIT * segments
    store_vector(states, 0, high)
    store_vector(states, WIDTH, low)
    store_vector(states, 2 * WIDTH, exponent)
    store_vector(states, 3 * WIDTH, pick((inexact > 0.0) | (inexact < 0.0), error * SLACK, spread(0.0)))


@inner
def _round_vector(zero: float, geometry: int, states: int, results: int, opens: int) -> None:
    _round_all(zero, states, WIDTH, results, opens)


@inner
def _round_one(zero: float, geometry: int, state: int) -> tuple[bool, int]:
    return _rounded(state, WIDTH, zero)


@kernel
def finish(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Multiplies the segments of output elements; sets the flags of open elements as ``sums.finish`` does."""
    if at(geometry, g.COLUMNS):
        finish_columns(zero, target, states, geometry, begin, end, STATE, _merge_columns, _round_vector, _round_one)
        return
    segments = at(geometry, g.SEGMENTS)
    for output in range(begin, end):
        here = states + 8 * STATE * segments * output
        high, low, exponent, error = load(here, 0, 0.0), load(here, 1, 0.0), load(here, 2, 0), load(here, 3, 0.0)
        exact = error == 0.0
        for i in range(1, segments):
            other = here + 8 * STATE * i
            by, by_low = load(other, 0, 0.0), load(other, 1, 0.0)
            product = high * by
            rest = fused(high, by, -product)
            exact = exact and rest == 0.0 and load(other, 3, 0.0) == 0.0
            error += load(other, 3, 0.0)
            # Both low parts are below 2**-20 of their high parts, so their product is covered by the bound.
            error += abs(low * by_low) + 4 * UNIT * (abs(low) + abs(by_low) + UNIT)
            low = low * by + (high * by_low + rest)
            high, scale, shift = split(product)
            low, exponent = low * scale, exponent + shift + load(other, 2, 0)
        if exact:
            error = 0.0
        elif at(geometry, p.TIER) != COMPENSATED:
            error += SLACK * UNIT * segments
        _put_state(here, 1, high, low, exponent, error * SLACK)
        decided, bits = _rounded(here, 1, zero)
        put(target, g.kept_target(geometry, output), bits, zero)
        store(here, 0, 0 if decided else 1)
        if not decided:
            store(states, -1, 1)
