"""Rounds float64 sums with error bounds, and lists the elements that the bounds leave undecided."""

from __future__ import annotations

import math

import numpy as np

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import FLOAT32, HALF, int64, load, read, store
from ..numbers.formats import infinity_bits, narrow_vector, number_of, put, values
from ..numbers.partial import first_elements, first_elements_apart
from ..numbers.vectors import (
    WIDTH,
    Vector,
    absolutes,
    elements,
    load_vector,
    lowest_of,
    mask_of,
    number,
    put_vector,
    spread,
)
from ..run.geometry import advance
from .tile_geometry import TileGeometry

SLACK = 2.0**-51
"""Error contribution of an addend, relative to it."""


@inlined
def rounded(zero: float, total: Vector, margin: Vector) -> tuple[Vector, int]:
    """Rounds sums to bits of elements; also returns a bit mask of those that their margins leave undecided."""
    infinity = infinity_bits(zero)
    high, low = narrow_vector(total + margin, zero), narrow_vector(total - margin, zero)
    differing, special = high ^ low, (high & infinity) > infinity - 1
    return high, mask_of((differing < 0) | (differing > 0) | special)


@inlined
def _addends(zero: float, address: int, step: int, count: int) -> Vector:
    if step == 0:
        return spread(number_of(read(address, 0, zero)))
    if count < WIDTH:
        if step == 1:
            return values(first_elements(address, count, zero))
        return values(first_elements_apart(address, step, count, zero))
    return values(elements(address, None, zero)) if step == 1 else values(elements(address, step, zero))


@inner
def _row(
    zero: float,
    geometry: TileGeometry,
    sums: int,
    bounds: int,
    bound: float,
    addend: int,
    target: int,
    codes: int,
    code: int,
) -> int:
    """Rounds a row; returns the number of undecided elements, whose codes it stores."""
    alpha, beta, rows = geometry.alpha, geometry.beta, geometry.rows
    columns, step, found = geometry.columns, geometry.addend.column, 0
    for j in range(0, columns, WIDTH):
        count = min(WIDTH, columns - j)
        value, error = load_vector(sums, j, 0.0) * alpha, load_vector(bounds, j, 0.0) * bound
        if addend:
            more = _addends(zero, advance(addend, j * step, zero), step, count) * beta
            value, error = value + more, error + absolutes(more) * SLACK
        high, lanes = rounded(zero, value + 0.0, error)  # -0 would have two roundings
        if count == WIDTH:
            put_vector(target, j, high, zero)
        else:
            for i in range(count):
                put(target, j + i, int64(number(high, i)), zero)
            lanes &= (1 << count) - 1
        while lanes:
            store(codes, found, code + (j + lowest_of(lanes)) * rows)
            lanes &= lanes - 1
            found += 1
    return found


@kernel
def round_rows(
    zero: float, source: int, target: int, states: int, geometry: TileGeometry, begin: int, end: int
) -> None:
    """Rounds rows of all matrices; a unit is a row, and must be visited exactly once.

    Sums of squares are converted to bounds in place. The states hold the number of undecided elements, followed by the
    code of each, ``column * rows + row``, with columns counted over all matrices.
    """
    height, columns, pitch = geometry.rows, geometry.columns, geometry.pitch
    error, found, output, added = geometry.error, 0, geometry.target, geometry.addend
    for unit in range(begin, end):
        matrix = unit // height
        row = unit - matrix * height
        bounds = geometry.column_squares + 8 * matrix * pitch
        if row == 0:
            for j in range(columns):
                store(bounds, j, math.sqrt(load(bounds, j, 0.0)))
        bound = math.sqrt(load(geometry.row_squares, unit, 0.0)) * error
        addend = added.address
        if addend:
            addend = advance(addend, matrix * added.matrix + row * added.row, zero)
        there = advance(output.address, matrix * output.matrix + row * output.row, zero)
        sums = source + 8 * unit * pitch
        code, codes = matrix * columns * height + row, states + 8 * (1 + found)
        found += _row(zero, geometry, sums, bounds, bound, addend, there, codes, code)
    store(states, 0, found)


ROUND = {np.float32: Kernel(round_rows, FLOAT32), np.float16: Kernel(round_rows, HALF)}
