"""Running sums of floats, line by line or sixteen lines side by side, rounded once for each element.

As long as float64 holds every sum exactly, which elements of like magnitude see to, nothing else is needed. From there
on two float64 hold the sums of lines side by side, and what they do not hold either, or a single line, is carried on in
limbs, which decide what a bound on the rests does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import FLOAT32, HALF, address_of, int64, load, read, size_of, store
from ..numbers.accumulator import LIMBS, add_value, clear_limbs, high_and_low, propagate_carries
from ..numbers.formats import narrow, narrow_vector, number_of, put, values
from ..numbers.rounding import UNIT, interval, to_odd, two_sum
from ..numbers.vectors import WIDTH, elements, longs_bits, mask_of, put_vector, spread, store_vector
from ..run.geometry import PARAMETERS, advance, at, kept_source, kept_target
from ..views.moves import move_small_square, move_square, small_square_of, take
from ..views.moves import put as put_element

LENGTH, SOURCE_STEP, TARGET_STEP, EXCLUSIVE, ACROSS, SLICES, BESIDE, BESIDE_TARGET = range(PARAMETERS, PARAMETERS + 8)
"""Elements of a line and their steps; whether an element is left out of its own sum; lines side by side, 0 for those
that are walked one by one, the slices that they are cut into, and the steps from line to line."""

TILES = WIDTH * WIDTH
"""Numbers of 64 bits that hold two tiles, of as many places of as many lines."""

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


@inner
def _exact_rows(
    zero: float, source: int, pitch: int, target: int, distance: int, count: int, exclusive: int, total: Any
) -> tuple[Any, int]:
    """Adds rows of sixteen lines in float64: their sums, and of which lines it does not hold one."""
    lost = spread(int64(0))
    for i in range(count):
        found, rest = two_sum(total, values(elements(source + i * pitch, None, zero)))
        lost = lost | longs_bits(rest)
        put_vector(target + i * distance, 0, narrow_vector(total if exclusive else found, zero), zero)
        total = found
    return total, mask_of((lost & MAGNITUDE) > int64(0))


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
        result, beside = two_sum(total if exclusive else found, low if exclusive else found_low)
        bits = longs_bits(result)
        halfway = mask_of(((bits & cut) ^ ((cut + 1) >> 1)) < int64(1))
        found_open |= mask_of((bits & MAGNITUDE) < int64(1))
        if halfway:
            found_open |= halfway & mask_of((longs_bits(beside) & MAGNITUDE) > int64(0))
        put_vector(target + i * distance, 0, narrow_vector(result, zero), zero)
        total, low = found, found_low
    return total, low, found_open | mask_of((lost & MAGNITUDE) > int64(0))


@inner
def _side_by_side(zero: float, geometry: int, source: int, target: int, tiles: int, limbs: int) -> None:
    """Sixteen lines at once; those that two float64 do not hold are walked once more from where one did."""
    length, exclusive = at(geometry, LENGTH), at(geometry, EXCLUSIVE)
    step, apart = at(geometry, SOURCE_STEP), at(geometry, TARGET_STEP)
    beside, beside_target = at(geometry, BESIDE), at(geometry, BESIDE_TARGET)
    row, results = WIDTH * size_of(zero), tiles + WIDTH * WIDTH * size_of(zero)
    totals = tiles + 8 * TILES
    begin, open_lines = int64(-1), int64(0)
    total, low = spread(_nothing(exclusive)), spread(0.0)
    for first in range(0, length, WIDTH):
        count = min(WIDTH, length - first)
        here, pitch = advance(source, first * step, zero), step * size_of(zero)
        line, distance = advance(target, first * apart, zero), apart * size_of(zero)
        if beside != 1:
            _turn(zero, here, step, beside, tiles, count, True)
            here, pitch = tiles, row
        there = line
        if beside_target != 1:
            there, distance = results, row
        if begin < 0:
            found, lost = _exact_rows(zero, here, pitch, there, distance, count, exclusive, total)
            if lost:
                begin = first
                store_vector(totals, 0, total)
            else:
                total = found
        if begin >= 0:
            total, low, found_open = _rows_in_two(zero, here, pitch, there, distance, count, exclusive, total, low)
            open_lines |= found_open
        if beside_target != 1:
            _turn(zero, line, apart, beside_target, results, count, False)
    for j in range(WIDTH):
        if (open_lines >> j) & 1:
            here, there = advance(source, j * beside, zero), advance(target, j * beside_target, zero)
            _line(zero, geometry, here, there, limbs, begin, load(totals, j, 0.0))


@inlined
def _nothing(exclusive: int) -> float:
    """The sum of no elements; one that starts at 0 is never -0."""
    return 0.0 if exclusive else -0.0


@kernel
def sums(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Units are lines, or slices of neighbouring ones."""
    memory = np.empty(TILES + WIDTH + 2 * LIMBS)
    tiles, across = address_of(memory), at(geometry, ACROSS)
    limbs = tiles + 8 * (TILES + WIDTH)
    for unit in range(begin, end):
        outer, first, count, beside, apart = unit, 0, 1, at(geometry, BESIDE), at(geometry, BESIDE_TARGET)
        if across:
            outer, piece = divmod(unit, at(geometry, SLICES))
            first = piece * WIDTH
            count = min(WIDTH, across - first)
        here = advance(source, kept_source(geometry, outer) + first * beside, zero)
        there = advance(target, kept_target(geometry, outer) + first * apart, zero)
        if count == WIDTH:
            _side_by_side(zero, geometry, here, there, tiles, limbs)
            continue
        for j in range(count):
            line, results = advance(here, j * beside, zero), advance(there, j * apart, zero)
            _line(zero, geometry, line, results, limbs, 0, _nothing(at(geometry, EXCLUSIVE)))


SUMS = Kernel(sums, FLOAT32), Kernel(sums, HALF)
