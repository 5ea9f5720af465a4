"""Convolutions with few filters in each group: each output line is summed by itself.

The products' magnitudes are summed as well, which gives the error bound.
"""

from __future__ import annotations

import numpy as np

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import FLOAT32, HALF, address_of, int64, load, read, store
from ..numbers.accumulator import LIMBS, add_value, clear_limbs
from ..numbers.formats import infinity_bits, narrow, narrow_vector, number_of, put
from ..numbers.vectors import (
    WIDTH,
    absolutes,
    any_of,
    fused_vectors,
    load_vector,
    number,
    put_vector,
    spread,
    store_vector,
)
from ..run.geometry import advance, at
from .rounding import SLACK
from .settling import exactly
from .tiles import (
    ADDEND,
    ADDEND_MATRIX,
    ADDEND_ROW,
    DEPTH,
    ERROR,
    LEFT,
    LEFT_MATRIX,
    LEFT_ROW,
    RIGHT,
    ROWS,
    TARGET,
    TARGET_MATRIX,
    TARGET_ROW,
    TILE,
    double_at,
)
from .window import (
    BASE,
    CHANNEL,
    GROUP,
    IMAGE,
    IMAGES,
    MOVE,
    PLACES,
    SIZE,
    SPACE,
    TAPS,
    TURN,
    element_at,
    spot,
    taps_of,
)

OUT_IMAGE, OUT_SPACE = TILE, TILE + 1
"""Output strides of images and positions, in elements."""

LINE = 256
"""Maximum number of positions in a unit."""

STAGE_ELEMENTS = 5 * LINE + LIMBS + 2 * WIDTH
"""Scratch space of a thread, in float64: sums, magnitudes, limbs, an input line, and the positions of open elements."""


@inlined
def _multiply(source: int, step: int, weight: float, sums: int, begin: int, end: int, zero: float) -> None:
    for j in range(begin, end):
        product = number_of(read(source, j * step, zero)) * weight
        store(sums, j, load(sums, j, 0.0) + product)
        store(sums, LINE + j, load(sums, LINE + j, 0.0) + abs(product))


@inner
def _add_tap(
    zero: float, geometry: int, source: int, tap: int, first: int, length: int, weight: float, sums: int
) -> None:
    """Adds the products of a weight and part of an input line."""
    move = at(geometry, MOVE + 2)
    base = at(geometry, BASE + 2) + tap * at(geometry, TURN + 2) + first * move
    begin = min(max(0, -(base // move)), length)
    end = max(begin, min(length, -((base - at(geometry, SIZE + 2)) // move)))
    step = move * at(geometry, SPACE + 2)
    here = advance(source, base * at(geometry, SPACE + 2), zero)
    if step == 1:
        _multiply(here, 1, weight, sums, begin, end, zero)
    else:
        _multiply(here, step, weight, sums, begin, end, zero)


@inner
def _copy(geometry: int, source: int, first: int, count: int, copy: int, zero: float) -> None:
    """Copies part of an input line from an element on, with zeros for padding and one vector of zeros at the end."""
    step = at(geometry, SPACE + 2)
    begin, end = min(max(0, -first), count), min(max(0, at(geometry, SIZE + 2) - first), count)
    for i in range(begin):
        store(copy, i, 0.0)
    for i in range(begin, end):
        store(copy, i, number_of(read(source, (first + i) * step, zero)))
    for i in range(max(begin, end), count + WIDTH):
        store(copy, i, 0.0)


@inner
def _add_line(
    zero: float, geometry: int, copy: int, turn: int, weights: int, taps: int, length: int, sums: int
) -> None:
    """Adds the products of some weights and a copied line that starts at the input of position 0 and the lowest tap."""
    for j in range(0, length, WIDTH):
        total, magnitude = load_vector(sums, j, 0.0), load_vector(sums, LINE + j, 0.0)
        for t in range(taps):
            weight = number_of(read(weights, t, zero))
            found = load_vector(copy, j + (t * turn if turn >= 0 else (t + 1 - taps) * turn), 0.0)
            total = fused_vectors(found, weight, total)
            magnitude = fused_vectors(absolutes(found), abs(weight), magnitude)
        store_vector(sums, j, total)
        store_vector(sums, LINE + j, magnitude)


@inner
def are_finite(weights: int, count: int, zero: float) -> bool:
    for k in range(count):
        weight = number_of(read(weights, k, zero))
        if weight - weight != 0.0:
            return False
    return True


@inner
def _sum(
    zero: float, geometry: int, source: int, weights: int, place: tuple[int, int, int, int], length: int, sums: int
) -> None:
    """Computes the sums of part of a line, and those of the magnitudes."""
    for j in range(0, length, WIDTH):
        store_vector(sums, j, spread(0.0))
        store_vector(sums, LINE + j, spread(0.0))
    image, first, middle, last = place
    across, turn, depth = at(geometry, TAPS + 2), at(geometry, TURN + 2), at(geometry, DEPTH)
    reach = (across - 1) * abs(turn)
    is_padded = at(geometry, MOVE + 2) == 1 and reach <= LINE and are_finite(weights, depth, zero)
    copy = sums + 8 * (2 * LINE + LIMBS)
    begin = at(geometry, BASE + 2) + last - (reach if turn < 0 else 0)
    for k in range(0, depth, across):
        taps = taps_of(geometry, k)
        high, low = spot(geometry, 0, first, taps[1]), spot(geometry, 1, middle, taps[2])
        if 0 <= high < at(geometry, SIZE) and 0 <= low < at(geometry, SIZE + 1):
            offset = taps[0] * at(geometry, CHANNEL) + image * at(geometry, IMAGE)
            offset += high * at(geometry, SPACE) + low * at(geometry, SPACE + 1)
            here, those = advance(source, offset, zero), advance(weights, k, zero)
            if is_padded:
                _copy(geometry, here, begin, length + reach, copy, zero)
                _add_line(zero, geometry, copy, turn, those, across, length, sums)
            else:
                for t in range(across):
                    _add_tap(zero, geometry, here, t, last, length, number_of(read(those, t, zero)), sums)


@inner
def _settle(
    zero: float, geometry: int, source: int, weights: int, place: tuple[int, int, int, int], addend: float, limbs: int
) -> float:
    """Returns the exact sum of an element, rounded to odd."""
    clear_limbs(limbs)
    for k in range(at(geometry, DEPTH)):
        product = number_of(read(weights, k, zero)) * element_at(source, geometry, 0, taps_of(geometry, k), place, zero)
        if product - product == 0.0:
            add_value(limbs, product)
    return exactly(limbs, 1, 0, addend)


@inner
def _round(zero: float, sums: int, length: int, addend: float, error: float, target: int, step: int, opens: int) -> int:
    """Rounds a line; stores the positions of open elements, and returns their number."""
    found, infinity, slack = 0, infinity_bits(zero), abs(addend) * SLACK
    for j in range(0, length, WIDTH):
        value = load_vector(sums, j, 0.0) + addend
        margin = load_vector(sums, LINE + j, 0.0) * error + slack
        high, low = narrow_vector(value + margin, zero), narrow_vector(value - margin, zero)
        count = min(WIDTH, length - j)
        if step == 1 and count == WIDTH:
            put_vector(target, j, high, zero)
        else:
            for i in range(count):
                put(target, (j + i) * step, int64(number(high, i)), zero)
        differing, special = high ^ low, (high & infinity) > infinity - 1
        if any_of((differing < 0) | (differing > 0) | special):
            for i in range(count):
                store(opens, found, j + i)
                found += (number(differing, i) != 0) | (number(high, i) & infinity == infinity)
    return found


@inner
def convolve_line(
    zero: float, geometry: int, group: int, row: int, place: tuple[int, int, int, int], length: int, stage: int
) -> None:
    """Computes part of an output line, starting at ``place``."""
    limbs, opens = stage + 16 * LINE, stage + 8 * (4 * LINE + LIMBS + WIDTH)
    image, first, middle, start = place
    error, step = double_at(geometry, ERROR), at(geometry, OUT_SPACE + 2)
    weights = advance(at(geometry, LEFT), group * at(geometry, LEFT_MATRIX) + row * at(geometry, LEFT_ROW), zero)
    here = advance(at(geometry, RIGHT), group * at(geometry, GROUP), zero)
    _sum(zero, geometry, here, weights, place, length, stage)
    addend = addend_of(zero, geometry, group, row)
    there = advance(output_line(zero, geometry, group, row, image, first, middle), start * step, zero)
    for i in range(_round(zero, stage, length, addend, error, there, step, opens)):
        j = load(opens, i, 0)
        value = load(stage, j, 0.0) + addend
        if value - value == 0.0:
            value = _settle(zero, geometry, here, weights, (image, first, middle, start + j), addend, limbs)
        put(there, j * step, narrow(value, zero), zero)


@inner
def addend_of(zero: float, geometry: int, group: int, row: int) -> float:
    """Returns the bias of a filter, or 0."""
    addends = at(geometry, ADDEND)
    if addends == 0:
        return 0.0
    return number_of(read(addends, group * at(geometry, ADDEND_MATRIX) + row * at(geometry, ADDEND_ROW), zero))


@inner
def output_line(zero: float, geometry: int, group: int, row: int, image: int, first: int, middle: int) -> int:
    """Returns the address of an output line."""
    place = group * at(geometry, TARGET_MATRIX) + row * at(geometry, TARGET_ROW) + image * at(geometry, OUT_IMAGE)
    place += first * at(geometry, OUT_SPACE) + middle * at(geometry, OUT_SPACE + 1)
    return advance(at(geometry, TARGET), place, zero)


@kernel
def convolve(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """A unit is part of an output line; units run over groups, filters, images and positions."""
    memory = np.empty(STAGE_ELEMENTS)
    stage = address_of(memory)
    for unit in range(begin, end):
        rest, part = divmod(unit, -(-at(geometry, PLACES + 2) // LINE))
        rest, middle = divmod(rest, at(geometry, PLACES + 1))
        rest, first = divmod(rest, at(geometry, PLACES))
        rest, image = divmod(rest, at(geometry, IMAGES))
        group, row = divmod(rest, at(geometry, ROWS))
        start = part * LINE
        length = min(LINE, at(geometry, PLACES + 2) - start)
        convolve_line(zero, geometry, group, row, (image, first, middle, start), length, stage)
    memory[0] = 0.0  # keeps the buffer alive until here


DIRECT = Kernel(convolve, FLOAT32), Kernel(convolve, HALF)
