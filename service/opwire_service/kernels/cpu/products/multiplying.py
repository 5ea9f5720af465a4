"""Products of float64 matrices: the sums of some rows and sixteen columns stay in registers.

The right operand need not be a matrix in memory: one table holds the offset of each of its rows, and another one the
start of each panel of sixteen columns. A convolution can thus multiply its filters by the input in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import config
from numba.core.codegen import get_host_cpu_features

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import ADDRESS, FLOAT32, INT64, intrinsic, load, size_of, store
from ..numbers.vectors import DOUBLES, WIDTH, Vector, fused_vectors, load_vector, pick, places, spread, store_vector
from ..run.geometry import at

DEPTH = 128
"""Products summed in registers at once: more increase the error, and crowd the left operand out of the L1 cache."""

ROWS, PANELS, LENGTH, LEFT_MATRIX, LEFT_ROW, LEFT_STEP, RIGHT_MATRIX, OFFSETS, STARTS, PITCH, ADDS = range(11)
"""Geometry slots: rows of a matrix, panels of sixteen columns, and products in a sum; strides, in numbers, of matrices,
rows and elements of the left operand, and of matrices of the right one; addresses of the offsets of its rows and of the
starts of its panels; pitch of the sums; whether to add to the existing sums."""

PANEL, SQUARES, RUN, GAP, PASSED = range(11, 16)
"""Geometry slots: address of the buffer that panels are copied to, or 0 if each panel of the right operand is
contiguous. With a buffer: address of the columns' sums of squares, to add to; columns in a run of contiguous numbers,
and numbers between two runs; and address of the number of columns of its first run that precede each panel."""

PANEL_ELEMENTS = DEPTH * (WIDTH + 1)
"""Size of the panel buffer and of the offsets in it, in numbers."""

_host: Any = get_host_cpu_features
_given: Any = config

IS_WIDE = "+avx512f" in (_host() if _given.CPU_FEATURES is None else _given.CPU_FEATURES).split(",")
"""Whether a vector takes only two of 32 registers (AVX-512): eight sums fit beside a row of the right operand."""

TALL, SHORT = (8, 3) if IS_WIDE else (2, 2)
"""Rows multiplied at once, and the maximum number of remaining rows for the narrower kernel."""


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


@inlined
def _leave(sums: int, row: int, total: Vector, geometry: int, adds: int) -> None:
    """Stores a row of sums, or adds it to the existing ones."""
    place = row * at(geometry, PITCH)
    if adds:
        store_vector(sums, place, total + load_vector(sums, place, 0.0))
    else:
        store_vector(sums, place, total)


@inner
def _eight(
    zero: float, geometry: int, left: int, right: int, offsets: int, length: int, sums: int, rows: int, adds: int
) -> None:
    """Multiplies up to eight rows; missing rows repeat the last one and are not stored."""
    down, step = 8 * at(geometry, LEFT_ROW), 8 * at(geometry, LEFT_STEP)
    b, c, d = left + min(1, rows - 1) * down, left + min(2, rows - 1) * down, left + min(3, rows - 1) * down
    e, f, g = left + min(4, rows - 1) * down, left + min(5, rows - 1) * down, left + min(6, rows - 1) * down
    h, place = left + min(7, rows - 1) * down, 0
    s, t, u, v = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
    w, x, y, z = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
    for k in range(length):
        found = _numbers(right, load(offsets, k, 0), zero)
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
    zero: float, geometry: int, left: int, right: int, offsets: int, length: int, sums: int, rows: int, adds: int
) -> None:
    """Multiplies up to ``SHORT`` rows."""
    down, step, place = 8 * at(geometry, LEFT_ROW), 8 * at(geometry, LEFT_STEP), 0
    b, c = left + min(1, rows - 1) * down, left + min(2, rows - 1) * down
    s, t, u = spread(0.0), spread(0.0), spread(0.0)
    for k in range(length):
        found = _numbers(right, load(offsets, k, 0), zero)
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
def _collect(
    zero: float, right: int, offsets: int, length: int, panel: int, squares: int, run: int, gap: int, passed: int
) -> None:
    """Copies a panel into contiguous memory, and adds its squares to those of its columns."""
    total, breaks = load_vector(squares, 0, 0.0), (passed + WIDTH - 1) // run
    for k in range(length):
        place = load(offsets, k, 0)
        found = _numbers(right, place, zero)
        for i in range(1, breaks + 1):
            found = pick(places() < i * run - passed, found, _numbers(right, place + i * gap, zero))
        store_vector(panel, k * WIDTH, found)
        store(panel, DEPTH * WIDTH + k, k * WIDTH)
        total = fused_vectors(found, found, total)
    store_vector(squares, 0, total)


@inner
def _panel(zero: float, geometry: int, left: int, right: int, offsets: int, length: int, sums: int, adds: int) -> None:
    """Computes the sums of all rows of a matrix in one panel."""
    rows, pitch, across = at(geometry, ROWS), at(geometry, PITCH), at(geometry, LEFT_ROW)
    for row in range(0, rows, TALL):
        here, there = left + 8 * row * across, sums + 8 * row * pitch
        if TALL == SHORT or rows - row <= SHORT:
            _few(zero, geometry, here, right, offsets, length, there, min(SHORT, rows - row), adds)
        else:
            _eight(zero, geometry, here, right, offsets, length, there, min(TALL, rows - row), adds)


@kernel
def multiply(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """A unit is a panel of a matrix; the source is the left operand, the states are the right one."""
    panels, length, size = at(geometry, PANELS), at(geometry, LENGTH), size_of(zero)
    matrix_sums = at(geometry, ROWS) * at(geometry, PITCH)
    for first in range(0, length, DEPTH):
        count, adds = min(DEPTH, length - first), int(first > 0) | at(geometry, ADDS)
        offsets = at(geometry, OFFSETS) + 8 * first
        for unit in range(begin, end):
            matrix = unit // panels
            panel = unit - matrix * panels
            left = source + 8 * (matrix * at(geometry, LEFT_MATRIX) + first * at(geometry, LEFT_STEP))
            right = states + size * (matrix * at(geometry, RIGHT_MATRIX) + load(at(geometry, STARTS), panel, 0))
            sums, copy = target + 8 * (matrix * matrix_sums + panel * WIDTH), at(geometry, PANEL)
            if copy:
                squares, passed = at(geometry, SQUARES) + 8 * WIDTH * unit, load(at(geometry, PASSED), panel, 0)
                run, gap = at(geometry, RUN), at(geometry, GAP)
                _collect(zero, right, offsets, count, copy, squares, run, gap, passed)
                _panel(0, geometry, left, copy, copy + 8 * DEPTH * WIDTH, count, sums, adds)
            else:
                _panel(zero, geometry, left, right, offsets, count, sums, adds)


MULTIPLY, MULTIPLY_SINGLES = Kernel(multiply, INT64), Kernel(multiply, FLOAT32)
"""The second kernel takes a FLOAT32 right operand."""

BLOCKS, BLOCK_LENGTH, ROW, BLOCK = range(4)
"""Geometry slots of ``gather``: blocks in a row, and their length; then the strides of rows and blocks."""


@kernel
def gather(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Moves blocks of numbers together. A unit is a row; rows must be processed in order."""
    length = at(geometry, BLOCK_LENGTH)
    there = target + 8 * begin * at(geometry, BLOCKS) * length
    for row in range(begin, end):
        for block in range(at(geometry, BLOCKS)):
            here = source + 8 * (row * at(geometry, ROW) + block * at(geometry, BLOCK))
            for j in range(length):
                store(there, j, load(here, j, 0.0))
            there += 8 * length


GATHER = Kernel(gather, INT64)
