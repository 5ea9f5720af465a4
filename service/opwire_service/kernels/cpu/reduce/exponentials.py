"""LOG_SUM_EXP of floats, at most 1 ULP from the exact value (1e-15 absolute for results close to zero).

If no maximum exceeds ``NARROW`` in magnitude, exponentials are added up as they are, since even 2**32 of them are in
float64's range; otherwise elements are shifted by the maximum. An exponential has a relative error below ``_ERROR``,
which is the absolute error of the logarithm of their sum; only results close to zero need better ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import choose, int32, load, read, store
from ..numbers.formats import log_tolerance, narrow, narrow_vector, number_of, put, values
from ..numbers.functions import exponentials, logarithms
from ..numbers.rounding import two_sum
from ..numbers.vectors import (
    WIDTH,
    Vector,
    absolutes,
    any_of,
    elements,
    load_vector,
    number,
    pick,
    places,
    spread,
    store_vector,
    total_of,
)
from ..run.column_rows import Rows, column_address, stride_of, walk
from ..run.geometry import Tile, advance, run_from
from . import blocks
from .blocks import BATCH
from .geometry import FloatReduction

PARTS = 2
"""Parts of a state: shift, and the sum of shifted exponentials."""

MOST_ROWS = 128
"""Maximum number of rows in a tile of columns, which is read twice."""

GROUP = 16
"""Rows of columns whose exponentials are added up in registers."""

NARROW = 600.0
"""Largest magnitude of a maximum at which exponentials are not shifted."""

_ERROR = 2.0**-35
"""Relative error bound of a sum: less than 2**-40 from exponentials, and the rest from 2**17 additions, of as many
elements of a segment or of the sums of segments."""


@inlined
def _greater(x: Vector, so_far: Vector) -> Vector:
    """Returns the maxima of two vectors; NaN counts as larger than everything."""
    return pick((x > so_far) | (x != x), x, so_far)


@inlined
def _shift(maximum: Vector) -> Vector:
    return pick(absolutes(maximum) > NARROW, maximum, pick(maximum != maximum, maximum, spread(0.0)))


@inlined
def _visit(
    zero: float, address: int, count: int, pitch: int, step: int | None, shift: Vector | None, so_far: Vector
) -> Vector:
    """Visits vectors ``pitch`` bytes apart: adds up shifted exponentials, or takes maxima if there is no shift."""
    for _ in range(count):
        so_far = _with(values(elements(address, step, zero)), shift, so_far)
        address += pitch
    return so_far


@inlined
def _with(x: Vector, shift: Vector | None, so_far: Vector) -> Vector:
    return _greater(x, so_far) if shift is None else so_far + exponentials(x - shift)


@inlined
def _visit_row(
    zero: float, base: int, geometry: FloatReduction, begin: int, end: int, shift: Vector | None, so_far: Vector
) -> Vector:
    """Visits a row as ``_visit`` does, in vectors; the last one of a run is filled up with -infinity."""
    step = geometry.step
    pitch = advance(0, WIDTH * step, zero)
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        vectors = size // WIDTH
        if step == 1:
            so_far = _visit(zero, address, vectors, pitch, None, shift, so_far)
        else:
            so_far = _visit(zero, address, vectors, pitch, step, shift, so_far)
        if vectors * WIDTH < size:
            x = spread(-math.inf)
            for j in range(vectors * WIDTH, size):
                x = pick(places() != j - vectors * WIDTH, x, spread(number_of(read(address, j * step, zero))))
            so_far = _with(x, shift, so_far)
        i += size
    return so_far


@inner
def _evaluate_row(
    zero: float, base: int, geometry: FloatReduction, begin: int, end: int, state: int, distance: int
) -> None:
    maxima = _visit_row(zero, base, geometry, begin, end, None, spread(-math.inf))
    maximum = number(maxima, 0)
    for i in range(1, WIDTH):
        x = number(maxima, i)
        maximum = choose((x > maximum) | (x != x), x, maximum)
    shift = _shift(spread(maximum))
    total = total_of(_visit_row(zero, base, geometry, begin, end, shift, spread(0.0)))
    store(state, 0, number(shift, 0))
    store(state, distance, total if maximum - maximum == 0.0 else 1.0)


class _Exponentials(NamedTuple):
    """The addresses of the columns' sums and shifts, and whether these are known; otherwise they become maxima."""

    sums: int
    shifts: int
    is_shifted: bool


@inner
def _take(zero: float, rows: Rows, memory: _Exponentials, state: int) -> int:
    """Visits a group of rows; the columns that fill no vector are rows of their own."""
    sums, shifts, is_shifted = memory
    height, pitch = rows.height, rows.pitch
    whole = rows.width // WIDTH * WIDTH
    for i in range(0, whole, WIDTH):
        here, shift = column_address(zero, rows, i), load_vector(shifts, i, 0.0)
        if is_shifted:
            total = load_vector(sums, i, 0.0)
            store_vector(sums, i, _visit(zero, here, height, pitch, rows.step, shift, total))
        else:
            store_vector(shifts, i, _visit(zero, here, height, pitch, rows.step, None, shift))
    if whole < rows.width:
        for j in range(height):
            x = spread(-math.inf)
            for i in range(whole, rows.width):
                element = read(rows.address + j * pitch, i * stride_of(rows), zero)
                x = pick(places() != i - whole, x, spread(number_of(element)))
            shift = load_vector(shifts, whole, 0.0)
            if is_shifted:
                store_vector(sums, whole, _with(x, shift, load_vector(sums, whole, 0.0)))
            else:
                store_vector(shifts, whole, _with(x, None, shift))
    return state


@inner
def _evaluate_columns(zero: float, geometry: FloatReduction, tile: Tile, state: int, distance: int) -> None:
    shifts, sums = state, state + 8 * distance
    for i in range(0, tile.width, WIDTH):
        store_vector(shifts, i, spread(-math.inf))
        store_vector(sums, i, spread(0.0))
    walk(zero, geometry, tile, GROUP, _take, _Exponentials(sums, shifts, False), 0)
    for i in range(0, tile.width, WIDTH):
        store_vector(shifts, i, _shift(load_vector(shifts, i, 0.0)))
    walk(zero, geometry, tile, GROUP, _take, _Exponentials(sums, shifts, True), 0)
    for i in range(0, tile.width, WIDTH):
        # An infinite or NaN shift is itself the result; its sum is replaced by a harmless one.
        is_finite = absolutes(load_vector(shifts, i, 0.0)) < math.inf
        store_vector(sums, i, pick(is_finite, load_vector(sums, i, 0.0), spread(1.0)))


@inner
def _merge(segments: int, states: int, distance: int, merged: int) -> None:
    shift, total = load_vector(states, 0, 0.0), spread(0.0)
    for i in range(1, segments):
        shift = _greater(load_vector(states, PARTS * distance * i, 0.0), shift)
    for i in range(segments):
        here = PARTS * distance * i
        scale = exponentials(load_vector(states, here, 0.0) - shift)
        total = total + load_vector(states, here + distance, 0.0) * scale
    store_vector(merged, 0, shift)
    store_vector(merged, BATCH, pick(absolutes(shift) < math.inf, total, spread(1.0)))


@inner
def _round_block(
    zero: float, geometry: FloatReduction, state: int, distance: int, width: int, results: int, flagged: int
) -> bool:
    any_flagged = False
    for i in range(0, width, WIDTH):
        shift = load_vector(state, i, 0.0)
        result = shift + logarithms(load_vector(state, distance + i, 0.0))
        flags = (absolutes(result) * log_tolerance(zero) < _ERROR) | (result != result)
        store_vector(results, i, narrow_vector(result, zero))
        store_vector(flagged, i, pick(flags, spread(int32(1)), spread(int32(0))))
        any_flagged |= any_of(flags)
    return any_flagged


@inner
def _round_one(zero: float, geometry: FloatReduction, state: int, distance: int) -> tuple[bool, int]:
    shift = load(state, 0, 0.0)
    return shift != shift, narrow(shift, zero)


@kernel
def settle(zero: float, source: int, target: int, states: int, geometry: FloatReduction, begin: int, end: int) -> None:
    """Writes the logarithm for the elements from ``source`` on, with compensated additions, to ``target``.

    The result is close to zero, so the exponentials are in float64's range.
    """
    step, count, high, low = geometry.step, geometry.count, 0.0, 0.0
    i = 0
    while i < count:
        address, size = run_from(geometry, source, i, count, zero)
        for j in range(size):
            high, rest = two_sum(high, math.exp(number_of(read(address, j * step, zero))))
            low += rest
        i += size
    put(target, 0, narrow(math.log(high) + low / high, zero), zero)


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
