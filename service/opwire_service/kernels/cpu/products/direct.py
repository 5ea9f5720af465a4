"""Convolutions with few filters in each group: each line of the output is summed by itself.

The magnitudes of the products are summed beside them, which gives the bound on the error.
"""

from __future__ import annotations

import numpy as np

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import FLOAT32, HALF, address_of, load, read, store
from ..numbers.accumulator import LIMBS, add_value, clear_limbs
from ..numbers.formats import infinity_bits, narrow, number_of, put
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
from .window import BASE, CHANNEL, GROUP, IMAGE, IMAGES, MOVE, PLACES, SIZE, SPACE, TURN, element_at, spot, taps_of

OUT_IMAGE, OUT_SPACE = TILE, TILE + 1
"""Steps in elements of the output."""

LINE = 256
"""Positions of a unit, at most."""

STAGE_ELEMENTS = 2 * LINE + LIMBS
"""float64 that a unit works on."""


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
    """Adds the products of a weight and part of a line of the input."""
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
def _sum(
    zero: float, geometry: int, source: int, weights: int, place: tuple[int, int, int, int], length: int, sums: int
) -> None:
    """The sums of part of a line, and those of the magnitudes."""
    for j in range(length):
        store(sums, j, 0.0)
        store(sums, LINE + j, 0.0)
    image, first, middle, last = place
    for k in range(at(geometry, DEPTH)):
        taps = taps_of(geometry, k)
        high, low = spot(geometry, 0, first, taps[1]), spot(geometry, 1, middle, taps[2])
        if 0 <= high < at(geometry, SIZE) and 0 <= low < at(geometry, SIZE + 1):
            offset = taps[0] * at(geometry, CHANNEL) + image * at(geometry, IMAGE)
            offset += high * at(geometry, SPACE) + low * at(geometry, SPACE + 1)
            weight = number_of(read(weights, k, zero))
            _add_tap(zero, geometry, advance(source, offset, zero), taps[3], last, length, weight, sums)


@inner
def _settle(
    zero: float, geometry: int, source: int, weights: int, place: tuple[int, int, int, int], addend: float, limbs: int
) -> float:
    """The exact sum of an element, rounded to odd."""
    clear_limbs(limbs)
    for k in range(at(geometry, DEPTH)):
        product = number_of(read(weights, k, zero)) * element_at(source, geometry, 0, taps_of(geometry, k), place, zero)
        if product - product == 0.0:
            add_value(limbs, product)
    return exactly(limbs, 1, 0, addend)


@kernel
def convolve(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Units are parts of lines: of all groups, filters, images and positions."""
    memory = np.empty(STAGE_ELEMENTS)
    stage = address_of(memory)
    addends, infinity, error = at(geometry, ADDEND), infinity_bits(zero), double_at(geometry, ERROR)
    for unit in range(begin, end):
        rest, part = divmod(unit, -(-at(geometry, PLACES + 2) // LINE))
        rest, middle = divmod(rest, at(geometry, PLACES + 1))
        rest, first = divmod(rest, at(geometry, PLACES))
        rest, image = divmod(rest, at(geometry, IMAGES))
        group, row = divmod(rest, at(geometry, ROWS))
        start = part * LINE
        length = min(LINE, at(geometry, PLACES + 2) - start)
        weights = advance(at(geometry, LEFT), group * at(geometry, LEFT_MATRIX) + row * at(geometry, LEFT_ROW), zero)
        here = advance(at(geometry, RIGHT), group * at(geometry, GROUP), zero)
        _sum(zero, geometry, here, weights, (image, first, middle, start), length, stage)
        addend = 0.0
        if addends:
            addend = number_of(
                read(addends, group * at(geometry, ADDEND_MATRIX) + row * at(geometry, ADDEND_ROW), zero)
            )
        there = group * at(geometry, TARGET_MATRIX) + row * at(geometry, TARGET_ROW) + image * at(geometry, OUT_IMAGE)
        there += first * at(geometry, OUT_SPACE) + middle * at(geometry, OUT_SPACE + 1)
        step = at(geometry, OUT_SPACE + 2)
        for j in range(length):
            value, slack = load(stage, j, 0.0) + addend, load(stage, LINE + j, 0.0) * error + abs(addend) * SLACK
            high, low = narrow(value + slack, zero), narrow(value - slack, zero)
            if high != low or high & infinity == infinity:
                if value - value == 0.0:
                    place = (image, first, middle, start + j)
                    value = _settle(zero, geometry, here, weights, place, addend, stage + 16 * LINE)
                high = narrow(value, zero)
            put(at(geometry, TARGET), there + (start + j) * step, high, zero)


DIRECT = Kernel(convolve, FLOAT32), Kernel(convolve, HALF)
