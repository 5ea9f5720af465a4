"""The exact sums of the elements of a tile that bounds leave open.

The factors of some elements are copied together first, so that neighbouring columns are read together. Each round takes
off the leading bits of all products on a common grid, so wide that their sum is exact, until nothing is left.
"""

from __future__ import annotations

from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import FLOAT32, HALF, bits_double, load, read, store
from ..numbers.accumulator import LIMBS, add_value, clear_limbs, high_and_low, propagate_carries
from ..numbers.formats import narrow, number_of, put
from ..numbers.rounding import to_odd
from ..numbers.vectors import WIDTH, load_vector, spread, store_vector, total_of
from ..run.geometry import advance, at
from .tiles import (
    ADDEND,
    ADDEND_MATRIX,
    ADDEND_ROW,
    ADDEND_STEP,
    ALPHA,
    BETA,
    COLUMNS,
    DEPTH,
    FACTOR,
    LEFT,
    LEFT_MATRIX,
    LEFT_ROW,
    LEFT_STEP,
    POWER,
    RIGHT,
    ROWS,
    STAGE,
    TARGET,
    TARGET_MATRIX,
    TARGET_ROW,
    double_at,
)
from .window import GROUP, element_at, place_of, taps_of

TOGETHER = 8
"""Elements whose factors are copied together."""

CHUNK = 512
"""Products that are summed at a time."""

_HEADROOM = 11
"""Bits that a sum of so many numbers is longer than they are, and its sign."""

STAGE_BYTES = 8 * ((TOGETHER + 1) * CHUNK + TOGETHER * LIMBS)
"""Of the memory of a thread: factors of each element, the products of one, and the limbs of each."""

GREATEST_POWER = 32
"""Of the power of two in alpha, in magnitude: limbs hold whatever is multiplied by so much."""


@inner
def _place(geometry: int, code: int) -> tuple[int, int, int]:
    """The matrix, the row and the column of an element."""
    rows, columns = at(geometry, ROWS), at(geometry, COLUMNS)
    column, row = divmod(code, rows)
    matrix = column // columns
    return matrix, row, column - matrix * columns


@inner
def _stage(zero: float, geometry: int, codes: int, count: int, first: int, length: int) -> None:
    """Copies the factors on the right of some elements."""
    for k in range(length):
        taps = taps_of(geometry, first + k)
        for i in range(count):
            matrix, _, column = _place(geometry, load(codes, i, 0))
            value = element_at(
                at(geometry, RIGHT), geometry, matrix * at(geometry, GROUP), taps, place_of(geometry, column), zero
            )
            store(at(geometry, STAGE), i * CHUNK + k, value)


@inner
def _multiply(zero: float, geometry: int, code: int, factors: int, products: int, first: int, length: int) -> None:
    """The products of an element; those that are no numbers only met padding, which adds nothing."""
    matrix, row, _ = _place(geometry, code)
    step = at(geometry, LEFT_STEP)
    offset = matrix * at(geometry, LEFT_MATRIX) + row * at(geometry, LEFT_ROW) + first * step
    left = advance(at(geometry, LEFT), offset, zero)
    for k in range(length):
        product = number_of(read(left, k * step, zero)) * load(factors, k, 0.0)
        store(products, k, product if product - product == 0.0 else 0.0)
    for k in range(length, -(-length // WIDTH) * WIDTH):
        store(products, k, 0.0)


@inner
def _greatest(products: int, length: int) -> int:
    """The bits of the greatest magnitude."""
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
def _addend(zero: float, geometry: int, matrix: int, row: int, column: int) -> float:
    addend = at(geometry, ADDEND)
    if addend == 0:
        return 0.0
    offset = matrix * at(geometry, ADDEND_MATRIX) + row * at(geometry, ADDEND_ROW) + column * at(geometry, ADDEND_STEP)
    return number_of(read(addend, offset, zero)) * double_at(geometry, BETA)


@inner
def exactly(limbs: int, factor: int, power: int, addend: float) -> float:
    """``limbs * factor * 2**power + addend``, rounded to odd."""
    propagate_carries(limbs)
    for i in range(LIMBS):
        store(limbs, i, load(limbs, i, 0) * factor)
    propagate_carries(limbs)
    add_value(limbs, addend * bits_double((1023 - power) << 52))
    propagate_carries(limbs)
    high, low = high_and_low(limbs)
    return to_odd(high, low) * bits_double((1023 + power) << 52)


@inner
def _finish(zero: float, geometry: int, sums: int, code: int, limbs: int) -> None:
    """Rounds an element into the output."""
    matrix, row, column = _place(geometry, code)
    addend = _addend(zero, geometry, matrix, row, column)
    place = (matrix * at(geometry, ROWS) + row) * at(geometry, COLUMNS) + column
    value = read(sums, place, 0.0) * double_at(geometry, ALPHA) + addend
    if value - value == 0.0:
        value = exactly(limbs, at(geometry, FACTOR), at(geometry, POWER), addend)
    place = matrix * at(geometry, TARGET_MATRIX) + row * at(geometry, TARGET_ROW) + column
    put(at(geometry, TARGET), place, narrow(value, zero), zero)


@kernel
def settle(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Units are groups of elements whose codes follow the first of the states, which says how many there are.

    The source are the sums: those that are infinite or no numbers stay so.
    """
    stage = at(geometry, STAGE)
    products = stage + 8 * TOGETHER * CHUNK
    for unit in range(begin, end):
        codes = states + 8 * (1 + unit * TOGETHER)
        count, depth = min(TOGETHER, load(states, 0, 0) - unit * TOGETHER), at(geometry, DEPTH)
        for i in range(count):
            clear_limbs(products + 8 * (CHUNK + i * LIMBS))
        for first in range(0, depth, CHUNK):
            length = min(CHUNK, depth - first)
            _stage(zero, geometry, codes, count, first, length)
            for i in range(count):
                _multiply(zero, geometry, load(codes, i, 0), stage + 8 * i * CHUNK, products, first, length)
                _add(products + 8 * (CHUNK + i * LIMBS), products, length)
        for i in range(count):
            _finish(zero, geometry, source, load(codes, i, 0), products + 8 * (CHUNK + i * LIMBS))


SETTLE = Kernel(settle, FLOAT32), Kernel(settle, HALF)
