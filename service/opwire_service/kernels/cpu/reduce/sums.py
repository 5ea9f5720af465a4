"""SUM, AVERAGE, L1, L2, SUM_SQUARE and LOG_SUM of floats: plain sums, whose error bounds decide most roundings.

What they leave open goes to the kernels of ``open_sums``, whose addresses are in the geometry.
"""

from __future__ import annotations

import numpy as np

from ..jit.atomics import call
from ..jit.compiler import inner, kernel
from ..jit.element import address_of, float32, float64, int32, int64, load, store
from ..numbers.accumulator import LIMBS, high_and_low, propagate_carries
from ..numbers.formats import put
from ..numbers.rounding import UNIT, rounded, two_sum
from ..numbers.vector_rounding import round_all, rounding_places
from ..numbers.vectors import WIDTH, absolutes, load_vector, pick, spread, store_vector, widened
from ..run import geometry as g
from ..run.geometry import Tile, advance, at, segment_of, tile_of
from . import parameters as p
from .column_states import finish_columns, put_states
from .fixed_point import fits_fixed_point, fixed_point_columns
from .parameters import BATCH, COMPENSATED, EXACT, PLAIN, SINGLES
from .plain_columns import add_columns
from .plain_rows import MEMORY, add_rows, are_whole
from .plain_sums import error_bounds, merged, plain_sum
from .single_sums import ERROR, single_sum_columns
from .sum_terms import terms_of

STATE = {PLAIN: 3, COMPENSATED: 3, EXACT: LIMBS}
"""Slots of a segment's state, by tier: high part, low part and error bound, or limbs."""

SCRATCH = max(LIMBS, MEMORY + WIDTH)
"""Scratch space for adding up rows and for exact sums, in int64."""


@inner
def _add_units(
    zero: float, source: int, geometry: int, begin: int, end: int, sums: int, states: int, scratch: int
) -> None:
    """Computes the states of units: ``BATCH`` apart in ``sums`` if units are whole elements, else in ``states``."""
    if are_whole(geometry):
        add_rows(zero, source, geometry, begin, end, sums, BATCH, scratch)
        return
    for unit in range(begin, end):
        output, _, first, last = segment_of(geometry, unit)
        base = advance(source, g.kept_source(geometry, output), zero)
        state, distance = sums + 8 * (unit - begin), BATCH
        if at(geometry, g.SEGMENTS) > 1:
            state, distance = states + 24 * unit, 1
        high, low, error = plain_sum(zero, base, geometry, first, last)
        store(state, 0, high)
        store(state, distance, low)
        store(state, 2 * distance, error)


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Row kernel: a unit is one output element or one segment of it. With several segments, stores states."""
    memory = np.empty(4 * BATCH + SCRATCH, np.int64)
    sums = address_of(memory)
    results, opens, scratch = rounding_places(sums, BATCH)
    for start in range(begin, end, BATCH):
        last = min(start + BATCH, end)
        _add_units(zero, source, geometry, start, last, sums, states, scratch)
        if at(geometry, g.SEGMENTS) > 1:
            continue
        count, function = at(geometry, g.COUNT), at(geometry, p.RESULT)
        open_vectors = round_all(zero, sums, BATCH, last - start, count, function, results, opens)
        for i in range(last - start):
            put(target, g.kept_target(geometry, start + i), int64(load(results, i, int32(0))), zero)
        if open_vectors:
            call(at(geometry, p.OPEN), zero, source, target, sums, geometry, start, last)
    memory[0] = 0  # keeps the buffer alive until here


@inner
def _plain_columns(zero: float, geometry: int, tile: Tile, sums: int, squares: int, distance: int) -> None:
    """Computes the sums of columns and their error bounds; the parts of a state are ``distance`` apart."""
    width, terms, exact = tile.width, terms_of(geometry), at(geometry, p.IS_EXACT) != 0
    depth, done = 0, False
    if terms.kind == SINGLES and single_sum_columns(zero, geometry, tile, sums):
        for i in range(0, width, WIDTH):
            store_vector(sums, distance + i, spread(0.0))
            store_vector(sums, 2 * distance + i, load_vector(sums, i, 0.0) * ERROR)
        return
    if fits_fixed_point(zero, terms) and at(geometry, g.COLUMN_STEP) == 1:
        done = fixed_point_columns(zero, geometry, tile, sums, sums + 8 * distance, squares)
    if not done:
        depth = add_columns(zero, geometry, tile, sums, squares)
    count = float64(tile.last - tile.first)
    for i in range(0, width, WIDTH):
        of_squares = widened(load_vector(squares, i, float32(0.0)))
        bounds = error_bounds(load_vector(sums, i, 0.0), of_squares, count, depth, exact, terms.kind)
        store_vector(sums, distance + i, spread(0.0))
        store_vector(sums, 2 * distance + i, bounds)


@kernel
def columns(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Column kernel: a unit is a segment of a tile. Several segments store states; see ``column_states``."""
    padded = -(-at(geometry, g.TILE) // WIDTH) * WIDTH
    memory = np.empty(4 * padded + LIMBS, np.int64)
    sums = address_of(memory)
    results, opens, _ = rounding_places(sums, padded)
    for unit in range(begin, end):
        tile = tile_of(source, geometry, unit, zero)
        _plain_columns(zero, geometry, tile, sums, results, padded)
        if at(geometry, g.SEGMENTS) > 1:
            put_states(sums, padded, 3, states, geometry, tile)
            continue
        count, function, step = at(geometry, g.COUNT), at(geometry, p.RESULT), at(geometry, g.COLUMN_TARGET)
        open_vectors = round_all(zero, sums, padded, tile.width, count, function, results, opens)
        for i in range(tile.width):
            put(target, tile.offset + i * step, int64(load(results, i, int32(0))), zero)
        if open_vectors:
            call(at(geometry, p.OPEN), zero, source, target, sums, geometry, unit, unit + 1)
    memory[0] = 0  # keeps the buffer alive until here


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
    propagate_carries(states)
    return high_and_low(states)


@inner
def _merge_columns(geometry: int, rows: int, sums: int) -> None:
    """Like ``_merge``, for a vector of columns; stores high parts, low parts and errors in ``sums``."""
    columns, segments = at(geometry, g.COLUMNS), at(geometry, g.SEGMENTS)
    high, low, error, cut_off = spread(-0.0), spread(0.0), spread(0.0), spread(0.0)
    for i in range(segments):
        here = 3 * columns * i
        high, rest = two_sum(high, load_vector(rows, here, 0.0))
        part_low = load_vector(rows, here + columns, 0.0)
        low = low + rest + part_low
        cut_off = cut_off + absolutes(rest) + absolutes(part_low)
        error = error + load_vector(rows, here + 2 * columns, 0.0)
    if at(geometry, p.IS_EXACT) == 0:
        error = error * (1.0 + segments * 4 * UNIT) + cut_off * (4 * segments * UNIT)
    # For infinities the low part is NaN.
    ordinary = (low < 0.0) | (low > 0.0)
    total, rest = two_sum(high, low)
    store_vector(sums, 0, pick(ordinary, total, high))
    store_vector(sums, WIDTH, pick(ordinary, rest, low))
    store_vector(sums, 2 * WIDTH, error)


@inner
def _round_vector(zero: float, geometry: int, sums: int, results: int, opens: int) -> None:
    round_all(zero, sums, WIDTH, WIDTH, at(geometry, g.COUNT), at(geometry, p.RESULT), results, opens)


@inner
def _round_one(zero: float, geometry: int, sums: int) -> tuple[bool, int]:
    high, low, error = load(sums, 0, 0.0), load(sums, WIDTH, 0.0), load(sums, 2 * WIDTH, 0.0)
    return rounded(high, low, error, at(geometry, g.COUNT), at(geometry, p.RESULT), zero)


@kernel
def finish(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Merges the segments of output elements.

    Overwrites the first slot of an element's states with whether it is open, and sets the slot before all states to 1
    if any is.
    """
    if at(geometry, g.COLUMNS):
        finish_columns(zero, target, states, geometry, begin, end, 3, _merge_columns, _round_vector, _round_one)
        return
    segments, tier = at(geometry, g.SEGMENTS), at(geometry, p.TIER)
    places = LIMBS if tier == EXACT else 3
    for output in range(begin, end):
        here = states + 8 * places * segments * output
        if tier == EXACT:
            high, low = _merge_limbs(here, segments)
            error = 0.0
        else:
            high, low, error = _merge(here, segments, at(geometry, p.IS_EXACT) != 0)
        count, function = at(geometry, g.COUNT), at(geometry, p.RESULT)
        decided, bits = rounded(high, low, error, count, function, zero)
        store(here, 0, 0 if decided else 1)
        if decided:
            put(target, g.kept_target(geometry, output), bits, zero)
        else:
            store(states, -1, 1)
