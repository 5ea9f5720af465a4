"""Exact sums of the tile elements that error bounds leave undecided.

The factors of several elements are copied together, so that adjacent columns are read together. Each round extracts the
leading bits of all products on a common grid, coarse enough that their sum is exact, until nothing remains.
"""

from __future__ import annotations

import numpy as np

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import FLOAT32, HALF, bits_double, choose, load, read, store
from ..numbers.accumulator import LIMBS, add_value, clear_limbs, high_and_low, propagate_carries
from ..numbers.formats import narrow, number_of, put
from ..numbers.rounding import to_odd
from ..numbers.vectors import WIDTH, load_vector, spread, store_vector, total_of
from ..run.geometry import advance
from .tile_geometry import TileGeometry, addend_at
from .window import SPATIAL, is_inside, place_of, spot, taps_of

TOGETHER = 8
"""Elements whose factors are copied together."""

CHUNK = 512
"""Products summed at once."""

_HEADROOM = 11
"""Additional bits of a sum of ``CHUNK`` numbers, including the sign."""

STAGE_BYTES = 8 * ((TOGETHER + 1) * CHUNK + TOGETHER * (LIMBS + 4))
"""Scratch space of a thread, in bytes: factors of each element, products of one, and limbs and position of each."""


@inner
def _place(geometry: TileGeometry, code: int) -> tuple[int, int, int]:
    """Returns the matrix, the row and the column of an element."""
    rows, columns = geometry.rows, geometry.columns
    column, row = divmod(code, rows)
    matrix = column // columns
    return matrix, row, column - matrix * columns


@inner
def _corners(geometry: TileGeometry, codes: int, count: int, corners: int) -> None:
    """Stores where elements meet the first tap: the offset of group and image, and the spatial positions."""
    for i in range(count):
        matrix, _, column = _place(geometry, load(codes, i, 0))
        place = place_of(geometry, column)
        store(corners, 4 * i, matrix * geometry.group + place[0] * geometry.image)
        for j in range(SPATIAL):
            store(corners, 4 * i + 1 + j, spot(geometry.axes[j], place[1 + j], 0))


@inner
def _stage(zero: float, geometry: TileGeometry, corners: int, count: int, first: int, length: int) -> None:
    """Copies the right-hand factors of some elements."""
    channel, high, middle, low = taps_of(geometry, first)
    outer, inner, axis, stage = geometry.axes[0], geometry.axes[1], geometry.axes[2], geometry.stage
    for k in range(length):
        for i in range(count):
            here = corners + 32 * i
            a = load(here, 1, 0) + high * outer.turn
            b = load(here, 2, 0) + middle * inner.turn
            c = load(here, 3, 0) + low * axis.turn
            offset = load(here, 0, 0) + channel * geometry.channel + a * outer.step + b * inner.step + c * axis.step
            value = 0.0
            if is_inside(geometry, a, b) and 0 <= c < axis.size:
                value = number_of(read(geometry.right, offset, zero))
            store(stage, i * CHUNK + k, value)
        low += 1
        if low == axis.taps:
            low, middle = 0, middle + 1
            if middle == inner.taps:
                middle, high = 0, high + 1
                if high == outer.taps:
                    high, channel = 0, channel + 1


@inner
def _stage_plainly(zero: float, geometry: TileGeometry, corners: int, count: int, first: int, length: int) -> None:
    """Like ``_stage``, for a single tap without padding: columns of a matrix."""
    step, stage = geometry.channel, geometry.stage
    for i in range(count):
        here = corners + 32 * i
        offset = load(here, 0, 0)
        for j in range(SPATIAL):
            offset += load(here, 1 + j, 0) * geometry.axes[j].step
        store(here, 0, advance(geometry.right, offset, zero))
    for k in range(length):
        for i in range(count):
            store(stage, i * CHUNK + k, number_of(read(load(corners, 4 * i, 0), (first + k) * step, zero)))


@inner
def _multiply(
    zero: float, geometry: TileGeometry, code: int, factors: int, products: int, first: int, length: int
) -> None:
    """Computes the products of an element. NaN products only occur in padding, and count as 0."""
    matrix, row, _ = _place(geometry, code)
    operand, step = geometry.left, geometry.left.column
    left = advance(operand.address, matrix * operand.matrix + row * operand.row + first * step, zero)
    if step == 1:
        _multiply_line(zero, left, 1, factors, products, length)
    else:
        _multiply_line(zero, left, step, factors, products, length)
    for k in range(length, -(-length // WIDTH) * WIDTH):
        store(products, k, 0.0)


@inlined
def _multiply_line(zero: float, left: int, step: int, factors: int, products: int, length: int) -> None:
    for k in range(length):
        product = number_of(read(left, k * step, zero)) * load(factors, k, 0.0)
        store(products, k, choose(product - product == 0.0, product, 0.0))


@inner
def _greatest(products: int, length: int) -> int:
    """Returns the bits of the greatest magnitude."""
    greatest = 0
    for k in range(length):
        greatest = max(greatest, load(products, k, 0) & 0x7FFFFFFFFFFFFFFF)
    return greatest


@inner
def _add(limbs: int, products: int, length: int) -> None:
    """Adds products to limbs without error."""
    greatest = _greatest(products, length)
    while greatest > 0:
        grid = bits_double(((greatest >> 52) + _HEADROOM) << 52)
        total = spread(0.0)
        for k in range(0, length, WIDTH):
            found = load_vector(products, k, 0.0)
            leading = (found + grid) - grid
            store_vector(products, k, found - leading)
            total = total + leading
        add_value(limbs, total_of(total))
        greatest = _greatest(products, length)


@inner
def scaled_sum(limbs: int, factor: int, power: int, addend: float) -> tuple[float, float]:
    """Returns ``limbs * factor * 2**power + addend``, rounded to float64, and the rest."""
    propagate_carries(limbs)
    for i in range(LIMBS):
        store(limbs, i, load(limbs, i, 0) * factor)
    propagate_carries(limbs)
    add_value(limbs, addend * bits_double((1023 - power) << 52))
    propagate_carries(limbs)
    high, low = high_and_low(limbs)
    scale = bits_double((1023 + power) << 52)
    return high * scale, low * scale


@inner
def _finish(zero: float, geometry: TileGeometry, sums: int, code: int, limbs: int) -> None:
    """Rounds an element into the output, or replaces its sum if there is none."""
    matrix, row, column = _place(geometry, code)
    addend = addend_at(zero, geometry, matrix, row, column)
    place = (matrix * geometry.rows + row) * geometry.pitch + column
    value = load(sums, place, 0.0) * geometry.alpha + addend
    is_finite = value - value == 0.0
    high, low = scaled_sum(limbs, geometry.factor, geometry.power, addend)
    if geometry.target.address == 0:
        store(sums, place, high)
        return
    if is_finite:
        value = to_odd(high, low)
    target = geometry.target
    put(target.address, matrix * target.matrix + row * target.row + column, narrow(value, zero), zero)


@inner
def _settle(zero: float, source: int, states: int, geometry: TileGeometry, begin: int, end: int) -> None:
    """Adds some products of groups of elements; after the last ones, rounds the elements."""
    stage = geometry.stage
    products = stage + 8 * TOGETHER * CHUNK
    corners = products + 8 * (CHUNK + TOGETHER * LIMBS)
    begin_depth, depth = geometry.first, geometry.first + geometry.count
    for unit in range(begin, end):
        codes = states + 8 * (1 + unit * TOGETHER)
        count = min(TOGETHER, load(states, 0, 0) - unit * TOGETHER)
        if begin_depth == 0:
            for i in range(count):
                clear_limbs(products + 8 * (CHUNK + i * LIMBS))
        _corners(geometry, codes, count, corners)
        is_plain = geometry.axes[0].taps * geometry.axes[1].taps * geometry.axes[2].taps == 1
        for i in range(SPATIAL * count):
            there = load(corners, 4 * (i // SPATIAL) + 1 + i % SPATIAL, 0)
            is_plain &= 0 <= there < geometry.axes[i % SPATIAL].size
        for first in range(begin_depth, depth, CHUNK):
            length = min(CHUNK, depth - first)
            if is_plain:
                _corners(geometry, codes, count, corners)
                _stage_plainly(zero, geometry, corners, count, first, length)
            else:
                _stage(zero, geometry, corners, count, first, length)
            for i in range(count):
                _multiply(zero, geometry, load(codes, i, 0), stage + 8 * i * CHUNK, products, first, length)
                _add(products + 8 * (CHUNK + i * LIMBS), products, length)
        if depth == geometry.depth:
            for i in range(count):
                _finish(zero, geometry, source, load(codes, i, 0), products + 8 * (CHUNK + i * LIMBS))


@inner
def _sort(codes: int, count: int) -> None:
    """Sorts codes (Shellsort)."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap:
        for i in range(gap, count):
            code, j = load(codes, i, 0), i
            while j >= gap and load(codes, j - gap, 0) > code:
                store(codes, j, load(codes, j - gap, 0))
                j -= gap
            store(codes, j, code)
        gap //= 3


@kernel
def settle(zero: float, source: int, target: int, states: int, geometry: TileGeometry, begin: int, end: int) -> None:
    """Settles undecided elements. A unit is a group of elements; the states hold their number, then their codes.

    The source holds the sums: outputs of infinite and NaN ones are kept.
    """
    _settle(zero, source, states, geometry, begin, end)


@kernel
def settle_few(
    zero: float, source: int, target: int, states: int, geometry: TileGeometry, begin: int, end: int
) -> None:
    """Settles all undecided elements if there are at most ``end``, and then clears the list.

    They are processed in column order, so that adjacent columns are read together. The target, if any, receives the
    number of elements that are left.
    """
    count = load(states, 0, 0)
    if count <= end:
        _sort(states + 8, count)
        _settle(zero, source, states, geometry, 0, -(-count // TOGETHER))
        store(states, 0, 0)
    if target:
        store(target, 0, load(states, 0, 0))


SETTLE = {np.float32: Kernel(settle, FLOAT32), np.float16: Kernel(settle, HALF)}
SETTLE_FEW = {np.float32: Kernel(settle_few, FLOAT32), np.float16: Kernel(settle_few, HALF)}
