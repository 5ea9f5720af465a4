"""The kernel of MAX_POOLING_GRAD: adds each window's gradient to its winner.

A unit is a block of the gradient of one plane. Sums are kept in pairs of float64, which are exact unless the second one
was rounded, too; in that case the sum is recomputed with exact arithmetic.
"""

from __future__ import annotations

import numpy as np

from ..jit.compiler import inner, kernel
from ..jit.element import address_of, load, read, store
from ..numbers.accumulator import LIMBS, add_value, clear_limbs, high_and_low, propagate_carries
from ..numbers.formats import masked, narrow, put
from ..numbers.rounding import to_odd, two_sum
from ..run.geometry import advance, at
from . import geometry as p

ROWS, COLUMNS = p.TILE, p.TILES
"""Slots: maximum rows and columns of a block."""


@inner
def _windows(geometry: int, dimension: int, first: int, end: int) -> tuple[int, int]:
    """Returns the windows that may contain some positions along a dimension: the first, and the last + 1."""
    start, stride = at(geometry, dimension + p.START), at(geometry, dimension + p.STRIDE)
    reach = (at(geometry, dimension + p.WINDOW) - 1) * at(geometry, dimension + p.DILATION)
    return max(0, -((reach - first - start) // stride)), min(
        at(geometry, dimension + p.OUT), (end - 1 + start) // stride + 1
    )


@inner
def _add_exactly(
    zero: float,
    gradient: int,
    indices: int,
    geometry: int,
    ranges: tuple[int, int, int, int, int, int],
    which: int,
    limbs: int,
) -> float:
    """Returns the sum at one position, rounded to odd in float64, so that rounding it to the result type is correct."""
    clear_limbs(limbs)
    for d in range(ranges[0], ranges[1]):
        for h in range(ranges[2], ranges[3]):
            index = d * at(geometry, p.DEPTH + p.INDEX) + h * at(geometry, p.HEIGHT + p.INDEX)
            offset = d * at(geometry, p.DEPTH + p.VALUE) + h * at(geometry, p.HEIGHT + p.VALUE)
            for w in range(ranges[4], ranges[5]):
                if load(indices, index + w, 0) == which:
                    place = offset + w * at(geometry, p.ACROSS + p.VALUE)
                    add_value(limbs, masked(read(gradient, place, zero), -1))
    propagate_carries(limbs)
    high, low = high_and_low(limbs)
    return to_odd(high, low)


@inner
def _add_up(
    zero: float,
    gradient: int,
    indices: int,
    geometry: int,
    ranges: tuple[int, int, int, int, int, int],
    base: int,
    count: int,
    highs: int,
    lows: int,
    lost: int,
) -> None:
    """Adds the gradients of windows to the ``count`` positions from ``base`` on: whole rows, or part of one."""
    for d in range(ranges[0], ranges[1]):
        for h in range(ranges[2], ranges[3]):
            index = d * at(geometry, p.DEPTH + p.INDEX) + h * at(geometry, p.HEIGHT + p.INDEX)
            offset = d * at(geometry, p.DEPTH + p.VALUE) + h * at(geometry, p.HEIGHT + p.VALUE)
            for w in range(ranges[4], ranges[5]):
                place = load(indices, index + w, 0) - base
                if 0 <= place < count:
                    value = masked(read(gradient, offset + w * at(geometry, p.ACROSS + p.VALUE), zero), -1)
                    high, part = two_sum(load(highs, place, 0.0), value)
                    store(highs, place, high)
                    if part != 0.0:
                        low, more = two_sum(load(lows, place, 0.0), part)
                        store(lows, place, low)
                        if more != 0.0:
                            store(lost, place, 1.0)


@kernel
def blocks(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """``source`` is the gradient of the windows, ``states`` the contiguous indices of the winners."""
    heights, widths = at(geometry, p.HEIGHT + p.SIZE), at(geometry, p.ACROSS + p.SIZE)
    most_rows, most_columns = at(geometry, ROWS), at(geometry, COLUMNS)
    down, across = (heights + most_rows - 1) // most_rows, (widths + most_columns - 1) // most_columns
    depths = at(geometry, p.DEPTH + p.SIZE)
    memory = np.empty(3 * most_rows * most_columns + LIMBS, np.float64)
    highs = address_of(memory)
    lows, lost = highs + 8 * most_rows * most_columns, highs + 16 * most_rows * most_columns
    limbs = highs + 24 * most_rows * most_columns
    for unit in range(begin, end):
        rest = unit // across
        column = (unit - rest * across) * most_columns
        slices = rest // down
        row = (rest - slices * down) * most_rows
        plane = slices // depths
        depth = slices - plane * depths
        rows, columns = min(most_rows, heights - row), min(most_columns, widths - column)
        for i in range(rows * columns):
            store(highs, i, 0.0)
            store(lows, i, 0.0)
            store(lost, i, 0.0)
        gradient = advance(source, p.place_of(geometry, plane, 0, p.VALUE, p.CHANNEL_VALUE, p.IMAGE_VALUE, -1), zero)
        indices = states + 8 * p.place_of(geometry, plane, 0, p.INDEX, p.CHANNEL_INDEX, p.IMAGE_INDEX, -1)
        base = ((plane * depths + depth) * heights + row) * widths + column
        d0, d1 = _windows(geometry, p.DEPTH, depth, depth + 1)
        h0, h1 = _windows(geometry, p.HEIGHT, row, row + rows)
        w0, w1 = _windows(geometry, p.ACROSS, column, column + columns)
        ranges = (d0, d1, h0, h1, w0, w1)
        _add_up(zero, gradient, indices, geometry, ranges, base, rows * columns, highs, lows, lost)
        there = advance(target, p.place_of(geometry, plane, 0, p.SOURCE, p.CHANNEL_SOURCE, p.IMAGE_SOURCE, -1), zero)
        step = at(geometry, p.ACROSS + p.SOURCE)
        for i in range(rows):
            offset = depth * at(geometry, p.DEPTH + p.SOURCE) + (row + i) * at(geometry, p.HEIGHT + p.SOURCE)
            here = advance(there, offset + column * step, zero)
            for j in range(columns):
                place = i * columns + j
                value = load(highs, place, 0.0)
                if load(lows, place, 0.0) != 0.0 and value - value == 0.0:
                    if load(lost, place, 0.0) != 0.0:
                        value = _add_exactly(zero, gradient, indices, geometry, ranges, base + place, limbs)
                    else:
                        high, low = two_sum(value, load(lows, place, 0.0))
                        value = to_odd(high, low)
                put(here, j * step, narrow(value, zero), zero)
    memory[0] = 0.0  # keeps the buffer alive until here
