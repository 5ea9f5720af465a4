"""Running sums of floats, line by line or sixteen lines side by side, rounded once for each element.

As long as float64 holds every sum exactly, which elements of like magnitude see to, nothing else is needed. From the
first one on that it does not hold, limbs are carried beside it, which decide what a bound on the rests does not.
"""

from __future__ import annotations

import numpy as np

from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import FLOAT32, HALF, address_of, load, read, store
from ..numbers.accumulator import LIMBS, add_value, clear_limbs, high_and_low, propagate_carries
from ..numbers.formats import narrow, narrow_vector, number_of, put, values
from ..numbers.rounding import UNIT, interval, to_odd, two_sum
from ..numbers.vectors import WIDTH, any_of, elements, put_vector
from ..run.geometry import PARAMETERS, advance, at, kept_source, kept_target

LENGTH, SOURCE_STEP, TARGET_STEP, EXCLUSIVE, ACROSS, SLICES = range(PARAMETERS, PARAMETERS + 6)
"""Elements of a line and their steps; whether an element is left out of its own sum; lines side by side, 0 for those
that are walked one by one, and the slices that they are cut into."""


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
def _line(zero: float, geometry: int, source: int, target: int, limbs: int) -> None:
    length, exclusive = at(geometry, LENGTH), at(geometry, EXCLUSIVE)
    step, apart = at(geometry, SOURCE_STEP), at(geometry, TARGET_STEP)
    total = number_of(read(source, 0, zero))
    # A sum that starts at 0 is never -0.
    if exclusive:
        put(target, 0, narrow(0.0, zero), zero)
        total += 0.0
    if exclusive < length:
        put(target, exclusive * apart, narrow(total, zero), zero)
    for i in range(1, length - exclusive):
        found, rest = two_sum(total, number_of(read(source, i * step, zero)))
        if rest < 0.0 or rest > 0.0:
            _rest_of_line(zero, geometry, source, target, limbs, i, total, exclusive)
            return
        total = found
        put(target, (i + exclusive) * apart, narrow(total, zero), zero)


@inner
def _side_by_side(zero: float, geometry: int, source: int, target: int) -> bool:
    """Sixteen lines that are neighbours, unless float64 does not hold a sum."""
    length, exclusive = at(geometry, LENGTH), at(geometry, EXCLUSIVE)
    step, apart = at(geometry, SOURCE_STEP), at(geometry, TARGET_STEP)
    total = values(elements(source, None, zero))
    if exclusive:
        for j in range(WIDTH):
            put(target, j, narrow(0.0, zero), zero)
        total = total + 0.0
    if exclusive < length:
        put_vector(advance(target, exclusive * apart, zero), 0, narrow_vector(total, zero), zero)
    for i in range(1, length - exclusive):
        x = values(elements(advance(source, i * step, zero), None, zero))
        found = total + x
        part = found - total
        rest = (total - (found - part)) + (x - part)
        if any_of((rest < 0.0) | (rest > 0.0)):
            return False
        total = found
        put_vector(advance(target, (i + exclusive) * apart, zero), 0, narrow_vector(total, zero), zero)
    return True


@kernel
def sums(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Units are lines, or slices of neighbouring ones."""
    memory = np.empty(2 * LIMBS)
    limbs, across = address_of(memory), at(geometry, ACROSS)
    for unit in range(begin, end):
        outer, first, count = unit, 0, 1
        if across:
            outer, piece = divmod(unit, at(geometry, SLICES))
            first = piece * WIDTH
            count = min(WIDTH, across - first)
        here = advance(source, kept_source(geometry, outer) + first, zero)
        there = advance(target, kept_target(geometry, outer) + first, zero)
        if count < WIDTH or not _side_by_side(zero, geometry, here, there):
            for j in range(count):
                _line(zero, geometry, advance(here, j, zero), advance(there, j, zero), limbs)


SUMS = Kernel(sums, FLOAT32), Kernel(sums, HALF)
