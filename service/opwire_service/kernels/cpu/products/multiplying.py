"""Products of float64 matrices: the sums of some rows and sixteen columns stay in registers.

The right operand consists of panels of sixteen columns, so that its rows are read one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import config
from numba.core.codegen import get_host_cpu_features

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import ADDRESS, FLOAT32, INT64, intrinsic, load, size_of
from ..jit.records import Record
from ..numbers.vectors import DOUBLES, WIDTH, Vector, fused_vectors, load_vector, spread, store_vector

DEPTH = 128
"""Products summed in registers at once: more increase the error, and crowd the left operand out of the L1 cache."""

_host: Any = get_host_cpu_features
_given: Any = config

IS_WIDE = "+avx512f" in (_host() if _given.CPU_FEATURES is None else _given.CPU_FEATURES).split(",")
"""Whether a vector takes only two of 32 registers (AVX-512): eight sums fit beside a row of the right operand."""

TALL, SHORT = (8, 3) if IS_WIDE else (2, 2)
"""Rows multiplied at once, and the maximum number of remaining rows for the narrower kernel."""

PANELS_OF_ONE, PANELS_OF_TWO = (4, 2) if IS_WIDE else (2, 1)
"""Panels multiplied at once where matrices have one or two rows: a sum waits for the last one added to it."""


def summation_error(depth: int) -> float:
    """Returns the error of a sum of ``depth`` exact products, relative to the sum of their magnitudes."""
    steps = min(depth, DEPTH) + -(-depth // DEPTH)
    # The additional steps cover the rounding of the bound itself.
    return (steps + 16) * 2.0**-53


@intrinsic
def _numbers(typing: Any, address: Any, index: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Loads sixteen numbers of the right operand: FLOAT32 if ``zero`` is, else float64."""
    is_single = zero == FLOAT32

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = ir.FloatType() if is_single else ir.DoubleType()
        first = builder.gep(builder.inttoptr(args[0], element.as_pointer()), [args[1]])
        vector = builder.bitcast(first, ir.VectorType(element, WIDTH).as_pointer())
        found = builder.load(vector, align=4 if is_single else 8)
        return builder.fpext(found, ir.VectorType(ir.DoubleType(), WIDTH)) if is_single else found

    return DOUBLES(ADDRESS, ADDRESS, zero), code


class MatrixProduct(Record):
    """Products of matrices.

    Attributes:
        rows, panels, length: rows of a matrix, panels of sixteen columns, and products in a sum.
        matrix, row, step: steps, in numbers, of matrices, rows and elements of the left operand.
        adds: whether to add to the existing sums.
    """

    rows: int
    panels: int
    length: int
    matrix: int
    row: int
    step: int
    adds: bool


@inlined
def _leave(sums: int, row: int, total: Vector, geometry: MatrixProduct, adds: int) -> None:
    """Stores a row of sums, or adds it to the existing ones."""
    place = row * geometry.panels * WIDTH
    if adds:
        store_vector(sums, place, total + load_vector(sums, place, 0.0))
    else:
        store_vector(sums, place, total)


@inner
def _eight(
    zero: float, geometry: MatrixProduct, left: int, right: int, length: int, sums: int, rows: int, adds: int
) -> None:
    """Multiplies up to eight rows; missing rows repeat the last one and are not stored."""
    down, step = 8 * geometry.row, 8 * geometry.step
    b, c, d = left + min(1, rows - 1) * down, left + min(2, rows - 1) * down, left + min(3, rows - 1) * down
    e, f, g = left + min(4, rows - 1) * down, left + min(5, rows - 1) * down, left + min(6, rows - 1) * down
    h, place = left + min(7, rows - 1) * down, 0
    s, t, u, v = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
    w, x, y, z = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
    for k in range(length):
        found = _numbers(right, k * WIDTH, zero)
        s = fused_vectors(found, load(left + place, 0, 0.0), s)
        t = fused_vectors(found, load(b + place, 0, 0.0), t)
        u = fused_vectors(found, load(c + place, 0, 0.0), u)
        v = fused_vectors(found, load(d + place, 0, 0.0), v)
        w = fused_vectors(found, load(e + place, 0, 0.0), w)
        x = fused_vectors(found, load(f + place, 0, 0.0), x)
        y = fused_vectors(found, load(g + place, 0, 0.0), y)
        z = fused_vectors(found, load(h + place, 0, 0.0), z)
        place += step
    _leave(sums, 0, s, geometry, adds)
    if rows > 1:
        _leave(sums, 1, t, geometry, adds)
    if rows > 2:
        _leave(sums, 2, u, geometry, adds)
    if rows > 3:
        _leave(sums, 3, v, geometry, adds)
    if rows > 4:
        _leave(sums, 4, w, geometry, adds)
    if rows > 5:
        _leave(sums, 5, x, geometry, adds)
    if rows > 6:
        _leave(sums, 6, y, geometry, adds)
    if rows > 7:
        _leave(sums, 7, z, geometry, adds)


@inner
def _few(
    zero: float, geometry: MatrixProduct, left: int, right: int, length: int, sums: int, rows: int, adds: int
) -> None:
    """Multiplies up to ``SHORT`` rows."""
    down, step, place = 8 * geometry.row, 8 * geometry.step, 0
    b, c = left + min(1, rows - 1) * down, left + min(2, rows - 1) * down
    s, t, u = spread(0.0), spread(0.0), spread(0.0)
    for k in range(length):
        found = _numbers(right, k * WIDTH, zero)
        s = fused_vectors(found, load(left + place, 0, 0.0), s)
        t = fused_vectors(found, load(b + place, 0, 0.0), t)
        if SHORT > 2:
            u = fused_vectors(found, load(c + place, 0, 0.0), u)
        place += step
    _leave(sums, 0, s, geometry, adds)
    if rows > 1:
        _leave(sums, 1, t, geometry, adds)
    if rows > 2:
        _leave(sums, 2, u, geometry, adds)


@inner
def _one_row(zero: float, geometry: MatrixProduct, left: int, right: int, length: int, sums: int, adds: int) -> None:
    """Multiplies a single row by ``PANELS_OF_ONE`` panels."""
    step, place, across = 8 * geometry.step, 0, geometry.length * WIDTH
    s, t, u, v = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
    for k in range(0, length * WIDTH, WIDTH):
        number = load(left + place, 0, 0.0)
        s = fused_vectors(_numbers(right, k, zero), number, s)
        t = fused_vectors(_numbers(right, k + across, zero), number, t)
        if PANELS_OF_ONE > 2:
            u = fused_vectors(_numbers(right, k + 2 * across, zero), number, u)
            v = fused_vectors(_numbers(right, k + 3 * across, zero), number, v)
        place += step
    _leave(sums, 0, s, geometry, adds)
    _leave(sums + 8 * WIDTH, 0, t, geometry, adds)
    if PANELS_OF_ONE > 2:
        _leave(sums + 16 * WIDTH, 0, u, geometry, adds)
        _leave(sums + 24 * WIDTH, 0, v, geometry, adds)


@inner
def _two_rows(zero: float, geometry: MatrixProduct, left: int, right: int, length: int, sums: int, adds: int) -> None:
    """Multiplies two rows by two panels."""
    below, step, place, across = left + 8 * geometry.row, 8 * geometry.step, 0, geometry.length * WIDTH
    s, t, u, v = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
    for k in range(0, length * WIDTH, WIDTH):
        found, other = _numbers(right, k, zero), _numbers(right, k + across, zero)
        s = fused_vectors(found, load(left + place, 0, 0.0), s)
        t = fused_vectors(found, load(below + place, 0, 0.0), t)
        u = fused_vectors(other, load(left + place, 0, 0.0), u)
        v = fused_vectors(other, load(below + place, 0, 0.0), v)
        place += step
    _leave(sums, 0, s, geometry, adds)
    _leave(sums, 1, t, geometry, adds)
    _leave(sums + 8 * WIDTH, 0, u, geometry, adds)
    _leave(sums + 8 * WIDTH, 1, v, geometry, adds)


@inner
def _panel(zero: float, geometry: MatrixProduct, left: int, right: int, length: int, sums: int, adds: int) -> None:
    """Computes the sums of all rows of a matrix in one panel."""
    rows, pitch, across = geometry.rows, geometry.panels * WIDTH, geometry.row
    for row in range(0, rows, TALL):
        here, there = left + 8 * row * across, sums + 8 * row * pitch
        if TALL == SHORT or rows - row <= SHORT:
            _few(zero, geometry, here, right, length, there, min(SHORT, rows - row), adds)
        else:
            _eight(zero, geometry, here, right, length, there, min(TALL, rows - row), adds)


@inner
def _panels(
    zero: float, geometry: MatrixProduct, left: int, right: int, length: int, sums: int, left_over: int, adds: int
) -> int:
    """Computes the sums of a matrix in one or more of the panels that are left; returns their number."""
    if geometry.rows == 1 and left_over >= PANELS_OF_ONE:
        _one_row(zero, geometry, left, right, length, sums, adds)
        return PANELS_OF_ONE
    if geometry.rows == 2 and left_over >= PANELS_OF_TWO > 1:
        _two_rows(zero, geometry, left, right, length, sums, adds)
        return PANELS_OF_TWO
    _panel(zero, geometry, left, right, length, sums, adds)
    return 1


@kernel
def multiply(zero: float, source: int, target: int, states: int, geometry: MatrixProduct, begin: int, end: int) -> None:
    """A unit is a panel of a matrix; the source is the left operand, the states are the right one."""
    panels, length, size = geometry.panels, geometry.length, size_of(zero)
    matrix_sums = geometry.rows * panels * WIDTH
    for first in range(0, length, DEPTH):
        count, adds, unit = min(DEPTH, length - first), int(first > 0 or geometry.adds), begin
        while unit < end:
            matrix = unit // panels
            panel = unit - matrix * panels
            left = source + 8 * (matrix * geometry.matrix + first * geometry.step)
            right = states + size * WIDTH * (unit * length + first)
            sums = target + 8 * (matrix * matrix_sums + panel * WIDTH)
            unit += _panels(zero, geometry, left, right, count, sums, min(end - unit, panels - panel), adds)


MULTIPLY, MULTIPLY_SINGLES = Kernel(multiply, INT64), Kernel(multiply, FLOAT32)
"""The second kernel takes a FLOAT32 right operand."""
