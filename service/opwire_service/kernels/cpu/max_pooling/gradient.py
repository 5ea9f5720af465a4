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
from ..run.geometry import advance
from ..run.walk import split
from ..run.windows import Axis, Windows, place_of


class Gradient(Windows):
    """The gradient of max pooling, with the maximum rows and columns of a block."""

    rows: int
    columns: int


@inner
def _windows(axis: Axis, first: int, end: int) -> tuple[int, int]:
    """Returns the windows that may contain some positions along a dimension: the first, and the last + 1."""
    begin = (axis.window - 1) * axis.dilation - first - axis.start
    return max(0, -(begin // axis.stride)), min(axis.out, (end - 1 + axis.start) // axis.stride + 1)


@inner
def _add_exactly(
    zero: float,
    gradient: int,
    indices: int,
    geometry: Gradient,
    ranges: tuple[int, int, int, int, int, int],
    which: int,
    limbs: int,
) -> float:
    """Returns the sum at one position, rounded to odd in float64, so that rounding it to the result type is correct."""
    clear_limbs(limbs)
    for d in range(ranges[0], ranges[1]):
        for h in range(ranges[2], ranges[3]):
            index = d * geometry.index.depth + h * geometry.index.height
            offset = d * geometry.value.depth + h * geometry.value.height
            for w in range(ranges[4], ranges[5]):
                if load(indices, index + w, 0) == which:
                    place = offset + w * geometry.value.across
                    add_value(limbs, masked(read(gradient, place, zero), -1))
    propagate_carries(limbs)
    high, low = high_and_low(limbs)
    return to_odd(high, low)


@inner
def _add_up(
    zero: float,
    gradient: int,
    indices: int,
    geometry: Gradient,
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
            index = d * geometry.index.depth + h * geometry.index.height
            offset = d * geometry.value.depth + h * geometry.value.height
            for w in range(ranges[4], ranges[5]):
                place = load(indices, index + w, 0) - base
                if 0 <= place < count:
                    value = masked(read(gradient, offset + w * geometry.value.across, zero), -1)
                    high, part = two_sum(load(highs, place, 0.0), value)
                    store(highs, place, high)
                    if part != 0.0:
                        low, more = two_sum(load(lows, place, 0.0), part)
                        store(lows, place, low)
                        if more != 0.0:
                            store(lost, place, 1.0)


@kernel
def blocks(zero: float, source: int, target: int, states: int, geometry: Gradient, begin: int, end: int) -> None:
    """``source`` is the gradient of the windows, ``states`` the contiguous indices of the winners."""
    heights, widths = geometry.height.size, geometry.across.size
    most_rows, most_columns = geometry.rows, geometry.columns
    down, across = (heights + most_rows - 1) // most_rows, (widths + most_columns - 1) // most_columns
    depths = geometry.depth.size
    memory = np.empty(3 * most_rows * most_columns + LIMBS, np.float64)
    highs = address_of(memory)
    lows, lost = highs + 8 * most_rows * most_columns, highs + 16 * most_rows * most_columns
    limbs = highs + 24 * most_rows * most_columns
    for unit in range(begin, end):
        rest, column = split(unit, across)
        rest, row = split(rest, down)
        plane, depth = split(rest, depths)
        column, row = column * most_columns, row * most_rows
        rows, columns = min(most_rows, heights - row), min(most_columns, widths - column)
        for i in range(rows * columns):
            store(highs, i, 0.0)
            store(lows, i, 0.0)
            store(lost, i, 0.0)
        gradient = advance(source, place_of(geometry, geometry.value, plane, 0, 0), zero)
        indices = states + 8 * place_of(geometry, geometry.index, plane, 0, 0)
        base = ((plane * depths + depth) * heights + row) * widths + column
        d0, d1 = _windows(geometry.depth, depth, depth + 1)
        h0, h1 = _windows(geometry.height, row, row + rows)
        w0, w1 = _windows(geometry.across, column, column + columns)
        ranges = (d0, d1, h0, h1, w0, w1)
        _add_up(zero, gradient, indices, geometry, ranges, base, rows * columns, highs, lows, lost)
        there = advance(target, place_of(geometry, geometry.source, plane, 0, 0), zero)
        step = geometry.source.across
        for i in range(rows):
            offset = depth * geometry.source.depth + (row + i) * geometry.source.height
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
