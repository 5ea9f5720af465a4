"""Running sums of floats, line by line or sixteen lines side by side, rounded once for each element.

As long as float64 holds every sum exactly, which elements of like magnitude see to, nothing else is needed. From there
on two float64 hold the sums of lines side by side, and what they do not hold either, or a single line, is carried on in
limbs, which decide what a bound on the rests does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import FLOAT32, HALF, address_of, int64, load, prefetch, read, size_of, store
from ..numbers.accumulator import LIMBS, add_value, clear_limbs, high_and_low, propagate_carries
from ..numbers.formats import narrow, narrow_vector, number_of, put, values
from ..numbers.rounding import UNIT, interval, to_odd, two_sum
from ..numbers.vectors import (
    WIDTH,
    any_of,
    elements,
    load_vector,
    longs_bits,
    lowest_of,
    mask_of,
    put_vector,
    spread,
    store_vector,
)
from ..run.geometry import PARAMETERS, advance, at, kept_source, kept_target
from ..views.moves import LINE, move_small_square, move_square, small_square_of, take
from ..views.moves import put as put_element

LENGTH, SOURCE_STEP, TARGET_STEP, EXCLUSIVE, ACROSS = range(PARAMETERS, PARAMETERS + 5)
"""Elements of a line and their steps; whether an element is left out of its own sum; lines side by side, 0 for those
that are walked one by one."""

STRIPS, SLICES, PLACES, BESIDE, BESIDE_TARGET = range(PARAMETERS + 5, PARAMETERS + 10)
"""The strips that lines side by side are cut into; slices of sixteen lines in a strip, and places that each is carried
on before it is the next one's turn; the steps from line to line."""

TILES = WIDTH * WIDTH
"""Numbers of 64 bits that hold two tiles, of as many places of as many lines."""

TOTALS, LOWS, BEGUN, BEGIN, OPEN, STATE = 0, WIDTH, 2 * WIDTH, 3 * WIDTH, 3 * WIDTH + 1, 7 * WIDTH // 2
"""Numbers of a slice: its sums in two float64, those from where one did not hold them any more, where that is or -1,
the lines that are open, and how many numbers there are, a multiple of a line of the cache."""

AHEAD = 16
"""Places from where a strip is to where its elements are asked for meanwhile: rows that lie apart are not foreseen."""

MAGNITUDE = (1 << 63) - 1
"""The bits of a float64 without its sign."""


@inner
def _exactly(limbs: int) -> float:
    """What limbs hold, rounded to odd; they stay as they are."""
    copy = limbs + 8 * LIMBS
    for i in range(LIMBS):
        store(copy, i, load(limbs, i, 0))
    propagate_carries(copy)
    high, low = high_and_low(copy)
    return to_odd(high, low)


@inner
def _rest_of_line(
    zero: float, geometry: int, source: int, target: int, limbs: int, first: int, total: float, exclusive: int
) -> None:
    """From element ``first`` on, before which ``total`` is exact."""
    clear_limbs(limbs)
    add_value(limbs, total)
    low, lost = 0.0, 0.0
    for i in range(first, at(geometry, LENGTH)):
        x = number_of(read(source, i * at(geometry, SOURCE_STEP), zero))
        total, rest = two_sum(total, x)
        place = (i + exclusive) * at(geometry, TARGET_STEP)
        if total - total != 0.0:
            result = narrow(total, zero)
        else:
            add_value(limbs, x)
            low, lost = low + rest, lost + abs(rest)
            least, most = interval(total, low, lost * (4 * (i + 1) * UNIT))
            result = narrow(least, zero)
            if result != narrow(most, zero):
                result = narrow(_exactly(limbs), zero)
        if i + exclusive < at(geometry, LENGTH):
            put(target, place, result, zero)


@inner
def _line(zero: float, geometry: int, source: int, target: int, limbs: int, first: int, total: float) -> None:
    """From element ``first`` on, before which ``total`` is exact."""
    exclusive = at(geometry, EXCLUSIVE)
    step, apart = at(geometry, SOURCE_STEP), at(geometry, TARGET_STEP)
    for i in range(first, at(geometry, LENGTH)):
        if exclusive:
            put(target, i * apart, narrow(total, zero), zero)
        found, rest = two_sum(total, number_of(read(source, i * step, zero)))
        if rest < 0.0 or rest > 0.0:
            _rest_of_line(zero, geometry, source, target, limbs, i, total, exclusive)
            return
        total = found
        if not exclusive:
            put(target, i * apart, narrow(total, zero), zero)


@inner
def _turn(zero: float, line: int, step: int, beside: int, tile: int, count: int, into: bool) -> None:
    """Moves places of sixteen lines, which lie ``beside`` elements apart, into the rows of a tile, or from there."""
    size, square, row = size_of(zero), small_square_of(zero), WIDTH * size_of(zero)
    pitch, first = beside * size, 0
    # Lines that go backwards are turned with the rows in the other order.
    way, back = step * row, WIDTH - 1 if step < 0 else 0
    if count == WIDTH and (step == 1 or step == -1):
        if into:
            move_square(tile + back * row, way, line - back * size, pitch, zero)
        else:
            move_square(line - back * size, pitch, tile + back * row, way, zero)
        return
    if step == 1 or step == -1:
        back = square - 1 if step < 0 else 0
        first = count // square * square
        for i in range(0, first, square):
            place, rows = line + (i * step - back) * size, tile + (i + back) * row
            for j in range(0, WIDTH, square):
                if into:
                    move_small_square(rows + j * size, way, place + j * pitch, pitch, zero)
                else:
                    move_small_square(place + j * pitch, pitch, rows + j * size, way, zero)
    for i in range(first, count):
        for j in range(WIDTH):
            here, there = line + i * step * size + j * pitch, tile + i * row
            if into:
                put_element(there, j, take(here, 0, zero))
            else:
                put_element(here, 0, take(there, j, zero))


@inlined
def _undecided(high: Any, low: Any, bits: Any, cut: int) -> int:
    """Which of some sums in two float64, that have these bits rounded to one, are 0 or between two results."""
    halfway, nothing = ((bits & cut) ^ ((cut + 1) >> 1)) < int64(1), (bits & MAGNITUDE) < int64(1)
    if any_of(halfway | nothing):
        beside = longs_bits(two_sum(high, low)[1])
        return mask_of(nothing) | mask_of(halfway) & mask_of((beside & MAGNITUDE) > int64(0))
    return int64(0)


@inner
def _rows(
    zero: float, source: int, pitch: int, target: int, distance: int, count: int, exclusive: int, total: Any, low: Any
) -> tuple[Any, int, int]:
    """Adds rows of sixteen lines to sums in two float64, the second of which stays as it is.

    Returns the first ones, which lines are open, and of which lines the first one does not hold some sum, so that all
    that was found is worth nothing. Open are lines that lie between two results, and zeros, which may have the wrong
    sign, unless a sum is exact: its second float64 is -0.
    """
    cut = (int64(1) << (29 if size_of(zero) == 4 else 42)) - 1
    lost, found_open, rounded = spread(int64(0)), int64(0), mask_of(longs_bits(low) > -MAGNITUDE - 1)
    for i in range(count):
        x = values(elements(source + i * pitch, None, zero))
        found = total + x
        part = found - total
        lost = lost | (longs_bits(part) ^ longs_bits(x)) | (longs_bits(found - part) ^ longs_bits(total))
        summed = total if exclusive else found
        result = summed + low
        if rounded:
            found_open |= _undecided(summed, low, longs_bits(result), cut) & rounded
        put_vector(target + i * distance, 0, narrow_vector(result, zero), zero)
        total = found
    return total, found_open, mask_of((lost & MAGNITUDE) > int64(0))


@inner
def _rows_in_two(
    zero: float, source: int, pitch: int, target: int, distance: int, count: int, exclusive: int, total: Any, low: Any
) -> tuple[Any, Any, int]:
    """Likewise in two float64, and which lines are open: those that need more, or lie between two results.

    A rounded sum tells its result unless it is halfway between two of them; zeros may have the wrong sign.
    """
    cut = (int64(1) << (29 if size_of(zero) == 4 else 42)) - 1
    lost, found_open = spread(int64(0)), int64(0)
    for i in range(count):
        found, rest = two_sum(total, values(elements(source + i * pitch, None, zero)))
        found_low, missing = two_sum(low, rest)
        lost = lost | longs_bits(missing)
        summed, left = total if exclusive else found, low if exclusive else found_low
        result = summed + left
        found_open |= _undecided(summed, left, longs_bits(result), cut)
        put_vector(target + i * distance, 0, narrow_vector(result, zero), zero)
        total, low = found, found_low
    return total, low, found_open | mask_of((lost & MAGNITUDE) > int64(0))


@inlined
def _nothing(exclusive: int) -> float:
    """The sum of no elements; one that starts at 0 is never -0."""
    return 0.0 if exclusive else -0.0


@inlined
def _block(zero: float, geometry: int, source: int, target: int, first: int, state: int, tiles: int) -> None:
    """Carries sixteen lines on from a place, so many places further as there are lines."""
    exclusive, count = at(geometry, EXCLUSIVE), min(at(geometry, PLACES), at(geometry, LENGTH) - first)
    step, apart = at(geometry, SOURCE_STEP), at(geometry, TARGET_STEP)
    beside, beside_target = at(geometry, BESIDE), at(geometry, BESIDE_TARGET)
    here, pitch = advance(source, first * step, zero), step * size_of(zero)
    line, distance = advance(target, first * apart, zero), apart * size_of(zero)
    if at(geometry, SLICES) > 1:
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
    found, found_open, lost = _rows(zero, here, pitch, there, distance, count, exclusive, total, low)
    if lost:
        if load(state, BEGIN, int64(0)) < 0:
            store(state, BEGIN, first)
            store_vector(state, BEGUN, total)
        found, low, found_open = _rows_in_two(zero, here, pitch, there, distance, count, exclusive, total, low)
        store_vector(state, LOWS, low)
    store_vector(state, TOTALS, found)
    store(state, OPEN, load(state, OPEN, int64(0)) | found_open)
    if beside_target != 1:
        _turn(zero, line, apart, beside_target, there, count, False)


@inner
def _strip(zero: float, geometry: int, source: int, target: int, slices: int, limbs: int) -> None:
    """Neighbouring slices of sixteen lines; lines that two float64 do not hold are walked once more from where one did.

    The slices take turns, so that whole rows of them are read and written one after the other.
    """
    tiles = (limbs + 8 * 2 * LIMBS + LINE - 1) // LINE * LINE
    states, exclusive = tiles + 8 * TILES, at(geometry, EXCLUSIVE)
    beside, beside_target = at(geometry, BESIDE) * WIDTH, at(geometry, BESIDE_TARGET) * WIDTH
    for i in range(slices):
        state = states + 8 * STATE * i
        store_vector(state, TOTALS, spread(_nothing(exclusive)))
        store_vector(state, LOWS, spread(-0.0))
        store(state, BEGIN, int64(-1))
        store(state, OPEN, int64(0))
    for first in range(0, at(geometry, LENGTH), at(geometry, PLACES)):
        for i in range(slices):
            here, there = advance(source, i * beside, zero), advance(target, i * beside_target, zero)
            _block(zero, geometry, here, there, first, states + 8 * STATE * i, tiles)
    for i in range(slices):
        state = states + 8 * STATE * i
        found_open = load(state, OPEN, int64(0))
        while found_open:
            j = lowest_of(found_open)
            found_open &= found_open - 1
            here = advance(source, i * beside + j * at(geometry, BESIDE), zero)
            there = advance(target, i * beside_target + j * at(geometry, BESIDE_TARGET), zero)
            _line(zero, geometry, here, there, limbs, load(state, BEGIN, int64(0)), load(state, BEGUN + j, 0.0))


@kernel
def sums(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Units are lines, or strips of neighbouring ones."""
    memory = np.empty(2 * LIMBS + LINE // 8 + TILES + STATE * at(geometry, SLICES))
    limbs, across, lines = address_of(memory), at(geometry, ACROSS), at(geometry, SLICES) * WIDTH
    for unit in range(begin, end):
        outer, first, count, beside, apart = unit, 0, 1, at(geometry, BESIDE), at(geometry, BESIDE_TARGET)
        if across:
            outer, piece = divmod(unit, at(geometry, STRIPS))
            first = piece * lines
            count = min(lines, across - first)
        here = advance(source, kept_source(geometry, outer) + first * beside, zero)
        there = advance(target, kept_target(geometry, outer) + first * apart, zero)
        whole = count // WIDTH
        if whole:
            _strip(zero, geometry, here, there, whole, limbs)
        for j in range(whole * WIDTH, count):
            line, results = advance(here, j * beside, zero), advance(there, j * apart, zero)
            _line(zero, geometry, line, results, limbs, 0, _nothing(at(geometry, EXCLUSIVE)))
    memory[0] = 0.0  # keeps the memory alive until here


SUMS = Kernel(sums, FLOAT32), Kernel(sums, HALF)
