"""Sums of exponentials with FLOAT32 accuracy, for logarithms far enough from zero that it suffices.

The exponentials have a relative error of at most 2**-22.9. They are added up in FLOAT32 in pairs, then in float64, so
the sum has a relative error of at most 2**-22.3, which is the absolute error of its logarithm. From
``enough_for_single_exponentials`` on that is below half an ULP.
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit.compiler import inner
from ..jit.element import float32, float64, int32, larger, load, prefetch, read, size_of, store
from ..jit.prefetch import AHEAD, rows_ahead, rows_at_once
from ..numbers.formats import element_bits, enough_for_single_exponentials, magnitude_bits, masked
from ..numbers.vectors import (
    WIDTH,
    Vector,
    bits_singles,
    elements,
    fused_vectors,
    greatest_of,
    load_vector,
    magnitudes,
    number,
    single_bits,
    singles,
    spread,
    store_vector,
    total_of,
    widened,
)
from ..run import geometry as g
from ..run.column_rows import Rows, column_address, walk
from ..run.geometry import Tile, advance, at, run_from
from .column_groups import in_vectors

LIMIT = 80.0
"""Largest magnitude for which the exponentials of the number and of its negative are both normal in FLOAT32."""

LEAST_TERMS = 64
"""With fewer terms the sum is rarely large enough."""

GROUP = 16
"""Rows added up in registers before their sum is added to the column's total; twice as many if rows are near."""

_LOG2_E = 1.4426950408889634
_LN2, _LN2_LOW = 0.6931471824645996, -1.904654323148236e-09
"""ln 2, split into a high and a low part."""

_MAGIC = 12582912.0
"""1.5 * 2**23: adding it rounds to an integer, which is then in the low bits."""

_SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH = (
    0.4999999403953552,
    0.1666652113199234,
    0.04166838899254799,
    0.00836871936917305,
    0.0013814594130963087,
)
"""Polynomial coefficients by power of the remainder r: within 2**-28 of e**r for |r| <= 0.3466."""


@inner
def exponentials(x: Vector) -> Vector:
    """Returns e**x up to magnitude ``LIMIT``: 2**k times a polynomial in the remainder, with short dependencies."""
    shifted = fused_vectors(x, _LOG2_E, _MAGIC)
    k = shifted - _MAGIC
    r = fused_vectors(k, -_LN2_LOW, fused_vectors(k, -_LN2, x))
    square = r * r
    upper = fused_vectors(square, _SIXTH, fused_vectors(r, _FIFTH, _FOURTH))
    lower = fused_vectors(r, _THIRD, _SECOND)
    p = fused_vectors(fused_vectors(upper, square, lower), square, r) + 1.0
    return bits_singles(single_bits(p) + (single_bits(shifted) << 23))


@inner
def suffices(zero: float, total: float, peak: int) -> bool:
    """Whether a sum is accurate enough; ``peak`` holds the bits of the largest magnitude."""
    return peak <= element_bits(LIMIT, zero) and total >= enough_for_single_exponentials(zero)


@inner
def _add(zero: float, address: int, step: int | None, total: Vector, peak: Vector) -> tuple[Vector, Vector]:
    bits = elements(address, step, zero)
    return total + widened(exponentials(singles(bits))), larger(peak, magnitudes(bits))


@inner
def _add_four(
    zero: float, address: int, row: int, ahead: int, step: int | None, total: Vector, peak: Vector
) -> tuple[Vector, Vector]:
    """Adds four vectors at once, which hides the latency of their operations."""
    for i in range(4):
        prefetch(address + i * row + ahead)
    a, b = elements(address, step, zero), elements(address + row, step, zero)
    c, d = elements(address + 2 * row, step, zero), elements(address + 3 * row, step, zero)
    peak = larger(peak, larger(larger(magnitudes(a), magnitudes(b)), larger(magnitudes(c), magnitudes(d))))
    left = exponentials(singles(a)) + exponentials(singles(b))
    right = exponentials(singles(c)) + exponentials(singles(d))
    return total + (widened(left) + widened(right)), peak


@inner
def _add_vectors(
    zero: float, address: int, vectors: int, row: int, ahead: int, step: int | None, total: Vector, peak: Vector
) -> tuple[Vector, Vector]:
    for i in range(0, vectors - 3, 4):
        total, peak = _add_four(zero, address + i * row, row, ahead, step, total, peak)
    for i in range(vectors // 4 * 4, vectors):
        total, peak = _add(zero, address + i * row, step, total, peak)
    return total, peak


@inner
def _number(zero: float, address: int, index: int) -> float:
    x = spread(float32(masked(read(address, index, zero), -1)))
    return float64(number(exponentials(x), 0))


@inner
def single_exponential_sum(zero: float, base: int, geometry: int, begin: int, end: int) -> tuple[float, int]:
    """Returns the sum of the exponentials of elements ``begin`` to ``end``, and the bits of the largest magnitude."""
    step = at(geometry, g.STEP)
    total, peak = spread(0.0), spread(int32(0))
    rest, most = 0.0, int32(0)
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        vectors = size // WIDTH
        row = advance(0, WIDTH * step, zero)
        if step == 1:
            total, peak = _add_vectors(zero, address, vectors, row, AHEAD, None, total, peak)
        else:
            total, peak = _add_vectors(zero, address, vectors, row, AHEAD, step, total, peak)
        for j in range(vectors * WIDTH, size):
            rest += _number(zero, address, j * step)
            most = larger(most, magnitude_bits(read(address, j * step, zero)))
        i += size
    return total_of(total) + rest, larger(most, greatest_of(peak))


class _ExponentialState(NamedTuple):
    """The addresses of the columns' sums and of the bits of their largest magnitudes."""

    sums: int
    peaks: int


@inner
def _take(zero: float, rows: Rows, memory: _ExponentialState, state: int) -> int:
    """Adds a group of rows."""
    sums, peaks = memory
    ahead = rows_ahead(rows.pitch, rows.height)
    for i in range(0, in_vectors(rows), WIDTH):
        total, peak = spread(0.0), load_vector(peaks, i, int32(0))
        here = column_address(zero, rows, i)
        total, peak = _add_vectors(zero, here, rows.height, rows.pitch, ahead, rows.step, total, peak)
        store_vector(sums, i, load_vector(sums, i, 0.0) + total)
        store_vector(peaks, i, peak)
    for i in range(in_vectors(rows), rows.width):
        for j in range(rows.height):
            here = column_address(zero, rows, i) + j * rows.pitch
            store(sums, i, load(sums, i, 0.0) + _number(zero, here, 0))
            store(peaks, i, larger(load(peaks, i, int32(0)), magnitude_bits(read(here, 0, zero))))
    return state


@inner
def single_exponential_columns(zero: float, geometry: int, tile: Tile, sums: int, distance: int) -> bool:
    """Stores each column's sum, two zeros and its largest magnitude; returns whether all sums are accurate enough."""
    columns, peaks = tile.width, sums + 24 * distance
    for i in range(columns):
        store(sums, i, 0.0)
        store(sums, distance + i, 0.0)
        store(sums, 2 * distance + i, 0.0)
        store(peaks, i, int32(0))
    group = rows_at_once(at(geometry, g.STEP) * size_of(zero), GROUP)
    walk(zero, geometry, tile, group, _take, _ExponentialState(sums, peaks), 0)
    enough = 0
    for i in range(columns):
        enough += suffices(zero, load(sums, i, 0.0), load(peaks, i, int32(0)))
    return enough == columns
