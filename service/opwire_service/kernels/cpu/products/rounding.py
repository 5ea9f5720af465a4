"""Rounds float64 sums with error bounds, and lists the elements that the bounds leave open."""

from __future__ import annotations

import math

from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import FLOAT32, HALF, load, read, store
from ..numbers.formats import infinity_bits, narrow, narrow_vector, number_of, put, values
from ..numbers.vectors import WIDTH, absolutes, any_of, elements, load_vector, number, put_vector
from ..run.geometry import advance, at
from .tiles import (
    ADDEND,
    ADDEND_MATRIX,
    ADDEND_ROW,
    ADDEND_STEP,
    ALPHA,
    BETA,
    COLUMN_SQUARES,
    COLUMNS,
    ERROR,
    ROW_SQUARES,
    ROWS,
    TARGET,
    TARGET_MATRIX,
    TARGET_ROW,
    double_at,
)

SLACK = 2.0**-51
"""Error contribution of an addend, relative to it."""


@inner
def _vectors(
    zero: float,
    geometry: int,
    sums: int,
    bounds: int,
    bound: float,
    addend: int,
    target: int,
    opens: int,
    found: int,
    code: int,
) -> int:
    """Rounds the whole vectors of a row; returns the number of open elements so far."""
    alpha, beta, rows = double_at(geometry, ALPHA), double_at(geometry, BETA), at(geometry, ROWS)
    columns, step, infinity = at(geometry, COLUMNS), at(geometry, ADDEND_STEP), infinity_bits(zero)
    for j in range(0, columns - columns % WIDTH, WIDTH):
        value, error = load_vector(sums, j, 0.0) * alpha, load_vector(bounds, j, 0.0) * bound
        if addend:
            here = advance(addend, j * step, zero)
            more = (values(elements(here, None, zero)) if step == 1 else values(elements(here, step, zero))) * beta
            value, error = value + more, error + absolutes(more) * SLACK
        value = value + 0.0  # -0 would have two roundings
        high, low = narrow_vector(value + error, zero), narrow_vector(value - error, zero)
        put_vector(target, j, high, zero)
        differing, special = high ^ low, (high & infinity) > infinity - 1
        if any_of((differing < 0) | (differing > 0) | special):
            for i in range(WIDTH):
                store(opens, found, code + (j + i) * rows)
                found += (number(differing, i) != 0) | (number(high, i) & infinity == infinity)
    return found


@inner
def _rest(
    zero: float,
    geometry: int,
    sums: int,
    bounds: int,
    bound: float,
    addend: int,
    target: int,
    opens: int,
    found: int,
    code: int,
) -> int:
    """Rounds the rest of a row."""
    alpha, beta, rows = double_at(geometry, ALPHA), double_at(geometry, BETA), at(geometry, ROWS)
    columns, step, infinity = at(geometry, COLUMNS), at(geometry, ADDEND_STEP), infinity_bits(zero)
    for j in range(columns - columns % WIDTH, columns):
        value, error = load(sums, j, 0.0) * alpha, load(bounds, j, 0.0) * bound
        if addend:
            more = number_of(read(addend, j * step, zero)) * beta
            value, error = value + more, error + abs(more) * SLACK
        value += 0.0
        high, low = narrow(value + error, zero), narrow(value - error, zero)
        put(target, j, high, zero)
        store(opens, found, code + j * rows)
        found += (high != low) | (high & infinity == infinity)
    return found


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Rounds rows of all matrices; a unit is a row, and must be visited exactly once.

    Sums of squares are converted to bounds in place. The states hold the number of open elements, followed by the code
    of each, ``column * rows + row``, with columns counted over all matrices.
    """
    height, columns, error = at(geometry, ROWS), at(geometry, COLUMNS), double_at(geometry, ERROR)
    found, opens = 0, states + 8
    for unit in range(begin, end):
        matrix = unit // height
        row = unit - matrix * height
        bounds = at(geometry, COLUMN_SQUARES) + 8 * matrix * columns
        if row == 0:
            for j in range(columns):
                store(bounds, j, math.sqrt(load(bounds, j, 0.0)))
        bound = math.sqrt(load(at(geometry, ROW_SQUARES), unit, 0.0)) * error
        addend = at(geometry, ADDEND)
        if addend:
            addend = advance(addend, matrix * at(geometry, ADDEND_MATRIX) + row * at(geometry, ADDEND_ROW), zero)
        place = matrix * at(geometry, TARGET_MATRIX) + row * at(geometry, TARGET_ROW)
        there, sums = advance(at(geometry, TARGET), place, zero), source + 8 * unit * columns
        code = matrix * columns * height + row
        found = _vectors(zero, geometry, sums, bounds, bound, addend, there, opens, found, code)
        found = _rest(zero, geometry, sums, bounds, bound, addend, there, opens, found, code)
    store(states, 0, found)


ROUND = Kernel(rows, FLOAT32), Kernel(rows, HALF)
