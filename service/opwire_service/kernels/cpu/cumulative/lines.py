"""Cumulative float sums, line by line or sixteen lines in parallel, rounded once per element.

As long as float64 represents every sum exactly, which holds for elements of similar magnitude, nothing else is needed.
From there on, sums of parallel lines are kept in pairs of float64. What these cannot represent either, or a single
line, continues in limbs, which settle what an error bound leaves undecided.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, int32, int64, load, prefetch, read, size_of, store
from ..numbers.accumulator import LIMBS, add_value, clear_limbs, high_and_low, propagate_carries
from ..numbers.formats import narrow, narrow_vector, number_of, put, values
from ..numbers.rounding import UNIT, interval, to_odd, two_sum
from ..numbers.vectors import (
    WIDTH,
    absolutes,
    any_of,
    bits_doubles,
    elements,
    load_vector,
    longs_bits,
    lowest_of,
    magnitudes,
    mask_of,
    pick,
    put_vector,
    spread,
    store_vector,
    to_longs,
)
from ..run.geometry import Loops, advance, kept_source, kept_target
from ..views.moves import LINE, move_small_square, move_square, small_square_of, take
from ..views.moves import put as put_element


class Lines(Loops):
    """Lines along which sums run; the loops are those over all other dimensions, but for parallel lines."""

    length: int
    source_step: int  # along a line
    target_step: int
    exclusive: bool  # whether a sum excludes its own element
    across: int  # number of parallel lines, 0 if lines are visited one by one
    strips: int  # number of strips that these are cut into
    slices: int  # slices of sixteen lines in a strip
    places: int  # positions by which each slice advances per turn
    beside: int  # steps from line to line
    beside_target: int
    first: int  # elements that a step of a long line begins with and ends before
    last: int


TILES = WIDTH * WIDTH
"""Size of two tiles of sixteen positions of sixteen lines, in 64-bit numbers."""

TOTALS, LOWS, BEGUN, BEGIN, UNDECIDED, STATE = 0, WIDTH, 2 * WIDTH, 3 * WIDTH, 3 * WIDTH + 1, 7 * WIDTH // 2
"""State of a slice, in 64-bit numbers: its sums as pairs of float64, the sums where the first float64 stopped being
exact for certain, the position of that or -1, the mask of undecided lines, and the size of a state, a multiple of a
cache line."""

SUM_STATE, LINE_STATE = 4, 4 + 2 * LIMBS
"""Size of the state of a line, in 64-bit numbers: without and with limbs and their copy; see ``_line``."""

AHEAD = 16
"""Prefetch distance of a strip, in positions, because the hardware prefetcher does not foresee distant rows."""

MAGNITUDE = (1 << 63) - 1
"""Mask of a float64's magnitude."""


@inner
def _exactly(limbs: int) -> float:
    """Returns the value of limbs rounded to odd, without changing them."""
    copy = limbs + 8 * LIMBS
    for i in range(LIMBS):
        store(copy, i, load(limbs, i, 0))
    propagate_carries(copy)
    high, low = high_and_low(copy)
    return to_odd(high, low)


@inner
def _start(state: int, total: float) -> None:
    """Sets the state of a line to an exact sum."""
    store(state, 0, total)
    store(state, 1, 0.0)
    store(state, 2, 0.0)
    store(state, 3, int64(0))


@inner
def _line(zero: float, geometry: Lines, source: int, target: int, state: int, first: int, last: int) -> None:
    """Continues a line from element ``first`` up to ``last``: in float64 while that is exact, then also in limbs.

    The state is the sum in float64, its accumulated rounding errors and their magnitudes, whether there are any, and
    the limbs.
    """
    limbs, after, apart = state + 8 * SUM_STATE, 1 if geometry.exclusive else 0, geometry.target_step
    total, low, lost = load(state, 0, 0.0), load(state, 1, 0.0), load(state, 2, 0.0)
    is_inexact = load(state, 3, int64(0)) != 0
    if is_inexact:
        propagate_carries(limbs)
    elif after:
        put(target, first * apart, narrow(total, zero), zero)
    for i in range(first, last):
        before, x = total, number_of(read(source, i * geometry.source_step, zero))
        total, rest = two_sum(before, x)
        if not is_inexact and (rest < 0.0 or rest > 0.0):
            is_inexact = True
            clear_limbs(limbs)
            add_value(limbs, before)
        result = narrow(total, zero)
        if is_inexact and total - total == 0.0:
            add_value(limbs, x)
            low, lost = low + rest, lost + abs(rest)
            least, most = interval(total, low, lost * (4 * (i + 1) * UNIT))
            result = narrow(least, zero)
            if result != narrow(most, zero):
                result = narrow(_exactly(limbs), zero)
        if i + after < geometry.length:
            put(target, (i + after) * apart, result, zero)
    store(state, 0, total)
    store(state, 1, low)
    store(state, 2, lost)
    store(state, 3, int64(is_inexact))


@inner
def _turn(zero: float, line: int, step: int, beside: int, tile: int, count: int, into: bool) -> None:
    """Transposes positions of sixteen lines, ``beside`` elements apart, into the rows of a tile, or back."""
    size, square, row = size_of(zero), small_square_of(zero), WIDTH * size_of(zero)
    pitch, first = beside * size, 0
    # Lines that run backward are transposed with their rows reversed.
    way, back = step * row, WIDTH - 1 if step < 0 else 0
    if count == WIDTH and (step == 1 or step == -1):
        if into:
            move_square(tile + back * row, way, line - back * size, 2 * pitch, pitch, zero)
        else:
            move_square(line - back * size, pitch, tile + back * row, 2 * way, way, zero)
        return
    if step == 1 or step == -1:
        back = square - 1 if step < 0 else 0
        first = count // square * square
        for i in range(0, first, square):
            place, rows = line + (i * step - back) * size, tile + (i + back) * row
            for j in range(0, WIDTH, square):
                if into:
                    move_small_square(rows + j * size, way, place + j * pitch, 2 * pitch, pitch, zero)
                else:
                    move_small_square(place + j * pitch, pitch, rows + j * size, 2 * way, way, zero)
    for i in range(first, count):
        for j in range(WIDTH):
            here, there = line + i * step * size + j * pitch, tile + i * row
            if into:
                put_element(there, j, take(here, 0, zero))
            else:
                put_element(here, 0, take(there, j, zero))


@inlined
def _halfway(high: Any, low: Any, bits: Any, cut: int) -> int:
    """Returns the mask of sums that are 0 or halfway between two results; ``bits`` are those of the rounded sum."""
    halfway, nothing = ((bits & cut) ^ ((cut + 1) >> 1)) < int64(1), (bits & MAGNITUDE) < int64(1)
    if any_of(halfway | nothing):
        beside = longs_bits(two_sum(high, low)[1])
        return mask_of(nothing) | mask_of(halfway) & mask_of((beside & MAGNITUDE) > int64(0))
    return int64(0)


@inlined
def _unit_of(total: Any) -> Any:
    """Returns a power of two, or a lower bound of one, that sums in float64 are multiples of; infinity for zeros."""
    bits = longs_bits(total)
    unit = absolutes(total - bits_doubles(bits & (bits - 1)))
    return pick(unit > 0.0, unit, spread(math.inf))


@inner
def _rows(
    zero: float, source: int, pitch: int, target: int, distance: int, count: int, exclusive: int, total: Any, low: Any
) -> tuple[Any, int, bool]:
    """Adds rows of sixteen lines to sums in two float64, leaving the second unchanged; None if there is none.

    Returns the first float64 of the sums, the mask of undecided lines, and whether the first float64 is proven to be
    exact; if not, all results are invalid. It is exact if all sums are below 2**53 units, the unit being the last bit
    of any element or previous sum. Undecided are sums halfway between two results, and zeros, whose sign may be wrong,
    unless a sum is exact, that is, its second float64 is -0.
    """
    cut = (int64(1) << (29 if size_of(zero) == 4 else 42)) - 1
    undecided, rounded, before = int64(0), int64(0), total
    if low is not None:
        rounded = mask_of(longs_bits(low) > -MAGNITUDE - 1)
    least, most = spread(int32(0x7FFFFFFF)), spread(int32(0))  # of the elements and of the results, as bits
    for i in range(count):
        x = elements(source + i * pitch, None, zero)
        found = total + values(x)
        result = total if exclusive else found
        if low is not None:
            summed = result
            result = summed + low
            undecided |= _halfway(summed, low, longs_bits(result), cut) & rounded
        bits = narrow_vector(result, zero)
        put_vector(target + i * distance, 0, bits, zero)
        if size_of(zero) == 4:
            size = (magnitudes(x) - int32(1)) & int32(0x7FFFFFFF)  # the greatest integer for a zero
            least = pick(size < least, size, least)
            size = magnitudes(bits)
            most = pick(size > most, size, most)
        total = found
    unit = _unit_of(before)
    if size_of(zero) == 4:
        unit_of_elements = bits_doubles((to_longs(least >> 23) + (1023 - 127 - 23)) << 52)
        bound = values(most) * (1 + 2.0**-23)
    else:
        unit_of_elements = spread(2.0**-24)
        bound = absolutes(before) + 2.0**16 * count
    limit = pick(unit < unit_of_elements, unit, unit_of_elements) * 2.0**53
    # The last sum need not be a result; and a sum that was infinite or NaN is not finite at the end either.
    proven = mask_of((bound < limit) & (absolutes(total) < limit))
    return total, undecided, proven == (1 << WIDTH) - 1


@inner
def _rows_in_two(
    zero: float, source: int, pitch: int, target: int, distance: int, count: int, exclusive: int, total: Any, low: Any
) -> tuple[Any, Any, int]:
    """Like ``_rows``, with sums in two float64; undecided are lines that need more, or are halfway between two results.

    The rounded sum determines the result unless it is halfway between two; zeros may have the wrong sign.
    """
    cut = (int64(1) << (29 if size_of(zero) == 4 else 42)) - 1
    lost, undecided = spread(int64(0)), int64(0)
    for i in range(count):
        found, rest = two_sum(total, values(elements(source + i * pitch, None, zero)))
        found_low, missing = two_sum(low, rest)
        lost = lost | longs_bits(missing)
        summed, left = total if exclusive else found, low if exclusive else found_low
        result = summed + left
        undecided |= _halfway(summed, left, longs_bits(result), cut)
        put_vector(target + i * distance, 0, narrow_vector(result, zero), zero)
        total, low = found, found_low
    return total, low, undecided | mask_of((lost & MAGNITUDE) > int64(0))


@inlined
def _nothing(exclusive: int) -> float:
    """Returns the sum of no elements; a sum that starts at 0 is never -0."""
    return 0.0 if exclusive else -0.0


@inlined
def _block(zero: float, geometry: Lines, source: int, target: int, first: int, state: int, tiles: int) -> None:
    """Advances sixteen lines from position ``first`` by up to ``places`` positions."""
    exclusive, count = geometry.exclusive, min(geometry.places, geometry.length - first)
    step, apart = geometry.source_step, geometry.target_step
    beside, beside_target = geometry.beside, geometry.beside_target
    here, pitch = advance(source, first * step, zero), step * size_of(zero)
    line, distance = advance(target, first * apart, zero), apart * size_of(zero)
    if geometry.slices > 1:
        for i in range(AHEAD, AHEAD + count):
            if beside == 1:
                prefetch(here + i * pitch)
            if beside_target == 1:
                prefetch(line + i * distance)
    if beside != 1:
        _turn(zero, here, step, beside, tiles, count, True)
        here, pitch = tiles, WIDTH * size_of(zero)
    there = line
    if beside_target != 1:
        there, distance = tiles + WIDTH * WIDTH * size_of(zero), WIDTH * size_of(zero)
    total, low = load_vector(state, TOTALS, 0.0), load_vector(state, LOWS, 0.0)
    if load(state, BEGIN, int64(0)) < 0:
        found, undecided, proven = _rows(zero, here, pitch, there, distance, count, exclusive, total, None)
    else:
        found, undecided, proven = _rows(zero, here, pitch, there, distance, count, exclusive, total, low)
    if not proven:
        if load(state, BEGIN, int64(0)) < 0:
            store(state, BEGIN, first)
            store_vector(state, BEGUN, total)
        found, low, undecided = _rows_in_two(zero, here, pitch, there, distance, count, exclusive, total, low)
        store_vector(state, LOWS, low)
    store_vector(state, TOTALS, found)
    store(state, UNDECIDED, load(state, UNDECIDED, int64(0)) | undecided)
    if beside_target != 1:
        _turn(zero, line, apart, beside_target, there, count, False)


@inner
def _strip(zero: float, geometry: Lines, source: int, target: int, slices: int, line_state: int) -> None:
    """Processes adjacent slices of sixteen lines, and recomputes lines that two float64 cannot represent.

    These restart where one float64 stopped being exact. The slices take turns, so that whole rows are read and written
    in order.
    """
    tiles = (line_state + 8 * LINE_STATE + LINE - 1) // LINE * LINE
    states, exclusive = tiles + 8 * TILES, geometry.exclusive
    beside, beside_target = geometry.beside * WIDTH, geometry.beside_target * WIDTH
    for i in range(slices):
        state = states + 8 * STATE * i
        store_vector(state, TOTALS, spread(_nothing(exclusive)))
        store_vector(state, LOWS, spread(-0.0))
        store(state, BEGIN, int64(-1))
        store(state, UNDECIDED, int64(0))
    for first in range(0, geometry.length, geometry.places):
        for i in range(slices):
            here, there = advance(source, i * beside, zero), advance(target, i * beside_target, zero)
            _block(zero, geometry, here, there, first, states + 8 * STATE * i, tiles)
    for i in range(slices):
        state = states + 8 * STATE * i
        undecided = load(state, UNDECIDED, int64(0))
        while undecided:
            j = lowest_of(undecided)
            undecided &= undecided - 1
            here = advance(source, i * beside + j * geometry.beside, zero)
            there = advance(target, i * beside_target + j * geometry.beside_target, zero)
            _start(line_state, load(state, BEGUN + j, 0.0))
            _line(zero, geometry, here, there, line_state, load(state, BEGIN, int64(0)), geometry.length)


@kernel
def sums(zero: float, source: int, target: int, states: int, geometry: Lines, begin: int, end: int) -> None:
    """A unit is a line, or a strip of adjacent lines."""
    memory = np.empty(LINE_STATE + LINE // 8 + TILES + STATE * geometry.slices)
    state, across, lines = address_of(memory), geometry.across, geometry.slices * WIDTH
    for unit in range(begin, end):
        outer, first, count, beside, apart = unit, 0, 1, geometry.beside, geometry.beside_target
        if across:
            outer, piece = divmod(unit, geometry.strips)
            first = piece * lines
            count = min(lines, across - first)
        here = advance(source, kept_source(geometry, outer) + first * beside, zero)
        there = advance(target, kept_target(geometry, outer) + first * apart, zero)
        whole = count // WIDTH
        if whole:
            _strip(zero, geometry, here, there, whole, state)
        for j in range(whole * WIDTH, count):
            line, results = advance(here, j * beside, zero), advance(there, j * apart, zero)
            _start(state, _nothing(geometry.exclusive))
            _line(zero, geometry, line, results, state, 0, geometry.length)
    memory[0] = 0.0  # keeps the buffer alive until here


@kernel
def parts(zero: float, source: int, target: int, states: int, geometry: Lines, begin: int, end: int) -> None:
    """A unit is a part of a long line, whose state stays in ``states`` for the next part."""
    for unit in range(begin, end):
        state = states + 8 * LINE_STATE * unit
        here = advance(source, kept_source(geometry, unit), zero)
        there = advance(target, kept_target(geometry, unit), zero)
        if geometry.first == 0:
            _start(state, _nothing(geometry.exclusive))
        _line(zero, geometry, here, there, state, geometry.first, geometry.last)
