"""SUM, AVERAGE, L1, L2, SUM_SQUARE and LOG_SUM of floats: a plain sum where its error bound decides the rounding, a
compensated one where it does not, and an exact one where that does not either.
"""

from __future__ import annotations

import numpy as np

from ..jit.compiler import inner, kernel
from ..jit.element import float32, float64, int32, int64, load, store
from ..numbers.batch import round_all
from ..numbers.formats import put
from ..numbers.rounding import UNIT, rounded, two_sum
from ..numbers.vectors import WIDTH, absolutes, load_vector, pick, spread, store_vector, widened
from ..run import geometry as g
from ..run.geometry import advance, at, segment_of, tile_of
from .accumulator import LIMBS, add_terms, parts, settle
from .column_states import group_of, put_states, rows_of
from .compensated import compensated_columns, compensated_sum
from .fixed import are_fixed, fixed_columns
from .plain import error_bounds, merged, plain_sum
from .plain_columns import add_columns
from .plain_rows import MEMORY, add_rows, are_whole
from .rough import ERROR, rough_columns
from .terms import IS_EXACT, KIND, ROUGH

TIER = KIND + 1
"""Place in the geometry: which sum the segments hold; it goes up for elements that the tier before left open."""

PLAIN, COMPENSATED, EXACT = 0, 1, 2

STATE = {PLAIN: 3, COMPENSATED: 3, EXACT: LIMBS}
"""Places of a segment's state by tier: high part, low part and error bound, or limbs."""


BATCH = 64
"""Rows that are rounded at once."""

SCRATCH = max(LIMBS, MEMORY + WIDTH)
"""Places that adding up rows needs, and exact sums."""

FEW_OPEN, OF_MANY = 4, 64
"""So many open columns, or one of so many, are added up again one by one; if there are more, all are, side by side."""


@inner
def _decide(zero: float, base: int, geometry: int, sums: int, distance: int, scratch: int) -> int:
    """The bits of an element of the output that is not ordinary, or that its plain sum leaves open."""
    count, function = at(geometry, g.COUNT), at(geometry, g.FUNCTION)
    high, low, error = load(sums, 0, 0.0), load(sums, distance, 0.0), load(sums, 2 * distance, 0.0)
    decided, bits = rounded(high, low, error, count, function, zero)
    if decided:
        return bits
    high, low, error = compensated_sum(zero, base, geometry, 0, count)
    decided, bits = rounded(high, low, error, count, function, zero)
    return bits if decided else _exact(zero, base, geometry, scratch)


@inner
def _exact(zero: float, base: int, geometry: int, scratch: int) -> int:
    count, function = at(geometry, g.COUNT), at(geometry, g.FUNCTION)
    add_terms(zero, base, geometry, 0, count, scratch)
    high, low = parts(scratch)
    _, bits = rounded(high, low, 0.0, count, function, zero)
    return bits


@inner
def _segment(zero: float, base: int, geometry: int, first: int, end: int, state: int, distance: int) -> None:
    """Leaves the state of one segment: limbs, or three numbers that lie ``distance`` apart."""
    tier = at(geometry, TIER)
    if tier == EXACT:
        add_terms(zero, base, geometry, first, end, state)
        return
    if tier == PLAIN:
        high, low, error = plain_sum(zero, base, geometry, first, end)
    else:
        high, low, error = compensated_sum(zero, base, geometry, first, end)
    store(state, 0, high)
    store(state, distance, low)
    store(state, 2 * distance, error)


@inner
def _add_units(
    zero: float, source: int, geometry: int, begin: int, end: int, sums: int, states: int, scratch: int
) -> None:
    """Leaves the states of some units: ``BATCH`` apart in ``sums`` if they are whole elements, else in ``states``."""
    if at(geometry, TIER) == PLAIN and are_whole(geometry):
        add_rows(zero, source, geometry, begin, end, sums, BATCH, scratch)
        return
    places = LIMBS if at(geometry, TIER) == EXACT else 3
    for unit in range(begin, end):
        output, _, first, last = segment_of(geometry, unit)
        base = advance(source, g.kept_source(geometry, output), zero)
        state, distance = sums + 8 * (unit - begin), BATCH
        if at(geometry, g.SEGMENTS) > 1:
            state, distance = states + 8 * places * unit, 1
        _segment(zero, base, geometry, first, last, state, distance)


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One output element and one segment a unit; several segments leave their states."""
    segments, count = at(geometry, g.SEGMENTS), at(geometry, g.COUNT)
    memory = np.empty(4 * BATCH + SCRATCH, np.int64)
    sums = memory.ctypes.data
    results = sums + 24 * BATCH
    opens, scratch = results + 4 * BATCH, results + 8 * BATCH
    for start in range(begin, end, BATCH):
        last = min(start + BATCH, end)
        _add_units(zero, source, geometry, start, last, sums, states, scratch)
        if segments > 1:
            continue
        round_all(zero, sums, BATCH, last - start, count, at(geometry, g.FUNCTION), results, opens)
        for i in range(last - start):
            bits = int64(load(results, i, int32(0)))
            if load(opens, i, int32(0)):
                base = advance(source, g.kept_source(geometry, start + i), zero)
                bits = _decide(zero, base, geometry, sums + 8 * i, BATCH, scratch)
            put(target, g.kept_target(geometry, start + i), bits, zero)
    memory[0] = 0  # keeps the memory alive until here


@inner
def _plain_columns(
    zero: float, base: int, geometry: int, first: int, last: int, width: int, sums: int, squares: int, tile: int
) -> None:
    count, exact, kind = float64(last - first), at(geometry, IS_EXACT) != 0, at(geometry, KIND)
    depth, done = 0, False
    if kind == ROUGH and rough_columns(zero, base, geometry, first, last, width, sums):
        for i in range(0, width, WIDTH):
            store_vector(sums, tile + i, spread(0.0))
            store_vector(sums, 2 * tile + i, load_vector(sums, i, 0.0) * ERROR)
        return
    if are_fixed(zero, kind) and at(geometry, g.COLUMN_STEP) == 1:
        done = fixed_columns(zero, base, geometry, first, last, width, kind, sums, sums + 8 * tile, squares)
    if not done:
        depth = add_columns(zero, base, geometry, first, last, width, sums, squares)
    for i in range(0, width, WIDTH):
        of_squares = widened(load_vector(squares, i, float32(0.0)))
        store_vector(sums, tile + i, spread(0.0))
        store_vector(sums, 2 * tile + i, error_bounds(load_vector(sums, i, 0.0), of_squares, count, depth, exact, kind))


@inner
def _count_open(opens: int, width: int) -> int:
    count = 0
    for i in range(width):
        count += load(opens, i, int32(0)) != 0
    return count


@inner
def _put_columns(
    zero: float, base: int, geometry: int, width: int, sums: int, tile: int, target: int, offset: int
) -> None:
    """Rounds the sums of a tile; many that are open are added up again side by side, few one by one."""
    count, function = at(geometry, g.COUNT), at(geometry, g.FUNCTION)
    results = sums + 24 * tile
    opens, scratch = results + 4 * tile, results + 8 * tile
    step = at(geometry, g.COLUMN_TARGET)
    if round_all(zero, sums, tile, width, count, function, results, opens) == 0:
        for i in range(width):
            put(target, offset + i * step, int64(load(results, i, int32(0))), zero)
        return
    # Of an exact sum nothing is open but which result is nearer.
    many = not at(geometry, IS_EXACT) and _count_open(opens, width) > max(FEW_OPEN, width // OF_MANY)
    if many:
        compensated_columns(zero, base, geometry, 0, count, width, sums, tile)
    for i in range(width):
        bits = int64(load(results, i, int32(0)))
        if load(opens, i, int32(0)):
            here = advance(base, i * at(geometry, g.COLUMN_STEP), zero)
            if many:
                high, low, error = load(sums, i, 0.0), load(sums, tile + i, 0.0), load(sums, 2 * tile + i, 0.0)
                decided, bits = rounded(high, low, error, count, function, zero)
                bits = bits if decided else _exact(zero, here, geometry, scratch)
            else:
                bits = _decide(zero, here, geometry, sums + 8 * i, tile, scratch)
        put(target, offset + i * step, bits, zero)


@kernel
def columns(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One tile of columns and one segment a unit; several segments leave states; see ``column_states``."""
    segments, tile, step = at(geometry, g.SEGMENTS), at(geometry, g.TILE), at(geometry, g.COLUMN_STEP)
    all_columns = at(geometry, g.COLUMNS)
    padded = -(-tile // WIDTH) * WIDTH
    memory = np.empty(4 * padded + LIMBS, np.int64)
    sums = memory.ctypes.data
    squares = sums + 24 * padded
    for unit in range(begin, end):
        number, segment, first, last = segment_of(geometry, unit)
        outer, start, width = tile_of(geometry, number)
        base = advance(source, g.kept_source(geometry, outer) + start * step, zero)
        if at(geometry, TIER) == PLAIN:
            _plain_columns(zero, base, geometry, first, last, width, sums, squares, padded)
        else:
            compensated_columns(zero, base, geometry, first, last, width, sums, padded)
        if segments == 1:
            offset = g.kept_target(geometry, outer) + start * at(geometry, g.COLUMN_TARGET)
            _put_columns(zero, base, geometry, width, sums, padded, target, offset)
            continue
        rows = rows_of(states, geometry, 3, outer, segment)
        put_states(sums, padded, 3, rows, all_columns, start, width)
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


@inner
def _merge_columns(rows: int, columns: int, segments: int, exact: bool, sums: int) -> None:
    """Like ``_merge``, of a vector of columns; leaves high part, low part and error in ``sums``."""
    high, low, error, cut_off = spread(-0.0), spread(0.0), spread(0.0), spread(0.0)
    for i in range(segments):
        here = 3 * columns * i
        high, rest = two_sum(high, load_vector(rows, here, 0.0))
        part_low = load_vector(rows, here + columns, 0.0)
        low = low + rest + part_low
        cut_off = cut_off + absolutes(rest) + absolutes(part_low)
        error = error + load_vector(rows, here + 2 * columns, 0.0)
    if not exact:
        error = error * (1.0 + segments * 4 * UNIT) + cut_off * (4 * segments * UNIT)
    # Of infinities the low part is NaN.
    ordinary = (low < 0.0) | (low > 0.0)
    total, rest = two_sum(high, low)
    store_vector(sums, 0, pick(ordinary, total, high))
    store_vector(sums, WIDTH, pick(ordinary, rest, low))
    store_vector(sums, 2 * WIDTH, error)


@inner
def _finish_columns(zero: float, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    segments, columns, apart = at(geometry, g.SEGMENTS), at(geometry, g.COLUMNS), at(geometry, g.COLUMN_TARGET)
    count, function, exact = at(geometry, g.COUNT), at(geometry, g.FUNCTION), at(geometry, IS_EXACT) != 0
    memory = np.empty(4 * WIDTH, np.int64)
    sums = memory.ctypes.data
    results, opens = sums + 24 * WIDTH, sums + 28 * WIDTH
    output = begin
    while output < end:
        outer, column, width = group_of(geometry, output, end)
        here = rows_of(states, geometry, 3, outer, 0) + 8 * column
        _merge_columns(here, columns, segments, exact, sums)
        round_all(zero, sums, WIDTH, WIDTH, count, function, results, opens)
        offset = g.kept_target(geometry, output)
        for i in range(width):
            decided, bits = True, int64(load(results, i, int32(0)))
            if load(opens, i, int32(0)):
                high, low, error = load(sums, i, 0.0), load(sums, WIDTH + i, 0.0), load(sums, 2 * WIDTH + i, 0.0)
                decided, bits = rounded(high, low, error, count, function, zero)
            store(here, i, 0 if decided else 1)
            if decided:
                put(target, offset + i * apart, bits, zero)
            else:
                store(states, -1, 1)
        output += width
    memory[0] = 0  # keeps the memory alive until here


@kernel
def finish(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Merges the segments of output elements.

    The first place of an element's states becomes whether it is open, and the place before all states 1 if any is.
    """
    if at(geometry, g.COLUMNS):
        _finish_columns(zero, target, states, geometry, begin, end)
        return
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
        else:
            store(states, -1, 1)
