"""SUM, AVERAGE, L1, L2, SUM_SQUARE and LOG_SUM of floats: sums in float64 at memory speed, with an error bound.

Adding n terms such that each takes part in at most ``depth`` additions has an error of at most ``depth * UNIT`` times
the sum of their magnitudes, to first order (Higham, Accuracy and Stability, 4.2). The second-order error is below
``depth * UNIT`` < 2**-20 times that. For squares the sum of magnitudes is the sum itself. Otherwise it is at most the
square root of n times the sum of squares, which one fused operation in FLOAT32 accumulates for twice as many elements
as float64 would. Rounding, up to 2**14 times per term, lowers that sum by less than 0.1 %, and underflow by at most
``UNDERFLOW`` per term; ``SLACK`` covers the rest. Squares that overflow, and terms so small that ``UNDERFLOW`` matters,
leave the sum undecided. Runs of terms, and segments, are added without error, as pairs of float64.

Sums of FLOAT16 elements are exact: these are multiples of 2**-24 below 2**16, so the sum of ``EXACT_TERMS`` stays below
2**53 units.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import float32, float64, load, prefetch, read, store
from ..jit.prefetch import AHEAD, rows_ahead
from ..numbers.formats import more_squares, number_of, values
from ..numbers.rounding import UNIT, rounded, two_sum
from ..numbers.vector_rounding import round_all
from ..numbers.vectors import (
    WIDTH,
    Vector,
    absolutes,
    elements,
    load_vector,
    pick,
    roots,
    spread,
    store_vector,
    total_of,
    widened,
)
from ..run.column_rows import Rows, column_address, stride_of, walk
from ..run.geometry import Tile, advance, run_from
from . import blocks
from .blocks import BATCH
from .geometry import MAGNITUDES, SIGNED, SQUARES, FloatReduction

PARTS = 3
"""Parts of a state: high and low part of the sum, and the sum of squares."""

EXACT_TERMS = 8192
"""Maximum number of terms added in float64 alone."""

GROUP = 8
"""Rows of columns added up in registers before their sums are added to those of the columns."""

_SLACK = 1.002
"""Safety factor for the error terms that the bound neglects."""

_UNDERFLOW = 2.0**-149
"""Maximum loss of a FLOAT32 square by underflow."""

_FOLDING = 2 * WIDTH
"""Additions a term takes part in besides those of whole vectors: folding a vector, and the terms that fill none."""


def bound(count: int, run: int, segment: int, *, by_columns: bool, squares: bool) -> float:
    """Returns the factor of the error bound: of the sum for squares, otherwise of the root of the sum of squares.

    Args:
        count: number of terms.
        run: number of adjacent terms; each run is added up by itself.
        segment: number of terms in a segment.
        by_columns: whether groups of rows are added, instead of vectors.
        squares: whether the terms are squares.
    """
    vectors = segment // GROUP + segment // run + 2 + GROUP
    depth = vectors if by_columns else min(run, EXACT_TERMS) // WIDTH + _FOLDING
    return _SLACK * UNIT * depth * (1.0 if squares else math.sqrt(count))


@inlined
def term(zero: float, address: int, index: int, kind: int) -> float:
    value = number_of(read(address, index, zero))
    if kind == SQUARES:
        return value * value
    return abs(value) if kind == MAGNITUDES else value


@inlined
def terms(zero: float, address: int, step: int | None, kind: int) -> Vector:
    x = values(elements(address, step, zero))
    if kind == SQUARES:
        return x * x
    return absolutes(x) if kind == MAGNITUDES else x


@inlined
def _add_vectors(
    zero: float, address: int, count: int, pitch: int, step: int | None, ahead: int, kind: int
) -> tuple[Vector, Vector]:
    """Returns the sums of vectors of terms that are ``pitch`` bytes apart, and those of their squares.

    Prefetches ``ahead`` bytes past each vector.
    """
    total, square = spread(-0.0), spread(float32(0.0))
    for _ in range(count):
        if ahead:
            prefetch(address + ahead)
        total = total + terms(zero, address, step, kind)
        if kind != SQUARES:
            square = more_squares(square, elements(address, step, zero))
        address += pitch
    return total, square


@inlined
def _add_run(zero: float, address: int, count: int, stride: int, step: int | None, kind: int) -> tuple[float, float]:
    """Returns the sum of a run of terms ``stride`` elements apart, and that of their squares."""
    vectors, pitch = count // WIDTH, advance(0, WIDTH * stride, zero)
    if kind == SQUARES:
        sums, square_sums = _add_vectors(zero, address, vectors, pitch, step, AHEAD, SQUARES)
    elif kind == MAGNITUDES:
        sums, square_sums = _add_vectors(zero, address, vectors, pitch, step, AHEAD, MAGNITUDES)
    else:
        sums, square_sums = _add_vectors(zero, address, vectors, pitch, step, AHEAD, SIGNED)
    total, square = total_of(sums), float64(total_of(square_sums))
    rest = -0.0
    for i in range(vectors * WIDTH, count):
        x = term(zero, address, i * stride, kind)
        rest += x
        square += x * x
    return total + rest, square


@inner
def _evaluate_row(
    zero: float, base: int, geometry: FloatReduction, begin: int, end: int, state: int, distance: int
) -> None:
    step, kind = geometry.step, geometry.kind
    high, low, square = -0.0, 0.0, 0.0
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        size = min(size, EXACT_TERMS)
        if step == 1:
            part, part_square = _add_run(zero, address, size, 1, None, kind)
        else:
            part, part_square = _add_run(zero, address, size, step, step, kind)
        high, rest = two_sum(high, part)
        low, square = low + rest, square + part_square
        i += size
    store(state, 0, high)
    store(state, distance, low)
    store(state, 2 * distance, square)


class _Sums(NamedTuple):
    """The addresses of the columns' sums and of the FLOAT32 sums of their squares, and the kind of terms."""

    sums: int
    square_sums: int
    kind: int


@inlined
def _add_group(zero: float, address: int, rows: Rows, kind: int) -> tuple[Vector, Vector]:
    """Returns the sums of a vector of columns in a group of rows; whole groups become straight-line code."""
    ahead = rows_ahead(rows.pitch, GROUP)
    if rows.height == GROUP and ahead:
        return _add_vectors(zero, address, GROUP, rows.pitch, rows.step, ahead, kind)
    if rows.height == GROUP:
        return _add_vectors(zero, address, GROUP, rows.pitch, rows.step, 0, kind)
    return _add_vectors(zero, address, rows.height, rows.pitch, rows.step, 0, kind)


@inner
def _take(zero: float, rows: Rows, memory: _Sums, state: int) -> int:
    """Adds a group of rows to the columns' sums."""
    sums, square_sums, kind = memory
    whole = rows.width // WIDTH * WIDTH
    for i in range(0, whole, WIDTH):
        here = column_address(zero, rows, i)
        if kind == SQUARES:
            total, square = _add_group(zero, here, rows, SQUARES)
        elif kind == MAGNITUDES:
            total, square = _add_group(zero, here, rows, MAGNITUDES)
        else:
            total, square = _add_group(zero, here, rows, SIGNED)
        store_vector(sums, i, load_vector(sums, i, 0.0) + total)
        store_vector(square_sums, i, load_vector(square_sums, i, float32(0.0)) + square)
    for i in range(whole, rows.width):
        column_total, column_square = -0.0, 0.0
        for j in range(rows.height):
            x = term(zero, rows.address + j * rows.pitch, i * stride_of(rows), kind)
            column_total += x
            column_square += x * x
        store(sums, i, load(sums, i, 0.0) + column_total)
        store(square_sums, i, load(square_sums, i, float32(0.0)) + float32(column_square))
    return state


@inner
def _evaluate_columns(zero: float, geometry: FloatReduction, tile: Tile, state: int, distance: int) -> None:
    square_sums = state + 8 * PARTS * distance  # FLOAT32 in the scratch memory behind the states
    for i in range(0, tile.width, WIDTH):
        store_vector(state, i, spread(-0.0))  # the only identity that preserves sums of negative zeros
        store_vector(state, distance + i, spread(0.0))
        store_vector(square_sums, i, spread(float32(0.0)))
    memory = _Sums(state, square_sums, geometry.kind)
    walk(zero, geometry, tile, GROUP, _take, memory, 0)
    for i in range(0, tile.width, WIDTH):
        store_vector(state, 2 * distance + i, widened(load_vector(square_sums, i, float32(0.0))))


@inner
def _merge(segments: int, states: int, distance: int, merged: int) -> None:
    high, low, square = spread(-0.0), spread(0.0), spread(0.0)
    for i in range(segments):
        here = PARTS * distance * i
        high, rest = two_sum(high, load_vector(states, here, 0.0))
        low = low + rest + load_vector(states, here + distance, 0.0)
        square = square + load_vector(states, here + 2 * distance, 0.0)
    store_vector(merged, 0, high)
    store_vector(merged, BATCH, low)
    store_vector(merged, 2 * BATCH, square)


@inner
def _round_block(
    zero: float, geometry: FloatReduction, state: int, distance: int, width: int, results: int, flagged: int
) -> int:
    """Replaces sums of squares by error bounds, and rounds the sums."""
    factor, count = geometry.bound, float64(geometry.count)
    for i in range(0, width, WIDTH):
        high, low = load_vector(state, i, 0.0), load_vector(state, distance + i, 0.0)
        # For infinities the low part is NaN; adding a low part of +0 would change a sum of negative zeros.
        ordinary = (low < 0.0) | (low > 0.0)
        total, rest = two_sum(high, low)
        store_vector(state, i, pick(ordinary, total, high))
        store_vector(state, distance + i, pick(ordinary, rest, spread(0.0)))
        if geometry.kind == SQUARES:
            error = high * factor
        else:
            error = roots(load_vector(state, 2 * distance + i, 0.0) + count * _UNDERFLOW) * factor
        store_vector(state, 2 * distance + i, error)
    return round_all(zero, state, distance, width, geometry.count, geometry.function, results, flagged)


@inner
def _round_one(zero: float, geometry: FloatReduction, state: int, distance: int) -> tuple[bool, int]:
    high, low, error = load(state, 0, 0.0), load(state, distance, 0.0), load(state, 2 * distance, 0.0)
    return rounded(high, low, error, geometry.count, geometry.function, zero)


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: FloatReduction, begin: int, end: int) -> None:
    """See ``blocks.rows``."""
    blocks.rows(zero, source, target, states, geometry, begin, end, PARTS, _evaluate_row, _round_block, _round_one)


@kernel
def columns(zero: float, source: int, target: int, states: int, geometry: FloatReduction, begin: int, end: int) -> None:
    """See ``blocks.columns``."""
    blocks.columns(
        zero, source, target, states, geometry, begin, end, PARTS, _evaluate_columns, _round_block, _round_one
    )


@kernel
def finish(zero: float, source: int, target: int, states: int, geometry: FloatReduction, begin: int, end: int) -> None:
    """See ``blocks.finish``."""
    blocks.finish(zero, source, target, states, geometry, begin, end, PARTS, _merge, _round_block, _round_one)
