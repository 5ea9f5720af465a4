"""Plain sums of neighbouring columns, side by side: a sum of each stays in the cache, and one of its squares."""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import float32, load, prefetch, size_of, store
from ..jit.prefetch import rows_ahead
from ..numbers.vectors import WIDTH, load_vector, spread, store_vector
from ..run import geometry as g
from ..run.geometry import advance, at, run_from
from .plain import add_vector
from .terms import KIND, MAGNITUDE, SIGNED, SQUARES, term

GROUP = 8
"""Rows that are added up in registers before their sum goes to the column's total."""


@inner
def clear(sums: int, squares: int, width: int) -> None:
    """Sums begin at -0, which alone changes no sum of zeros."""
    for i in range(0, width, WIDTH):
        store_vector(sums, i, spread(-0.0))
        store_vector(squares, i, spread(float32(0.0)))


@inner
def _columns(
    zero: float,
    address: int,
    row: int,
    rows: int,
    whole: int,
    stride: int,
    step: int | None,
    sums: int,
    squares: int,
    mask: int,
    kind: int,
) -> None:
    """Whole vectors of columns of a group of rows."""
    across, ahead = advance(0, stride, zero), rows_ahead(row, GROUP)
    for i in range(0, whole, WIDTH):
        here = address + i * across
        total, square = spread(-0.0), spread(float32(0.0))
        if rows == GROUP and ahead:
            for j in range(GROUP):
                prefetch(here + j * row + ahead)
                total, square = add_vector(zero, here + j * row, step, mask, kind, total, square)
        elif rows == GROUP:
            for j in range(GROUP):
                total, square = add_vector(zero, here + j * row, step, mask, kind, total, square)
        else:
            for j in range(rows):
                total, square = add_vector(zero, here + j * row, step, mask, kind, total, square)
        store_vector(sums, i, load_vector(sums, i, 0.0) + total)
        store_vector(squares, i, load_vector(squares, i, float32(0.0)) + square)


@inner
def _rest(
    zero: float,
    address: int,
    row: int,
    rows: int,
    begin: int,
    width: int,
    stride: int,
    sums: int,
    squares: int,
    mask: int,
    kind: int,
) -> None:
    """Columns that fill no vector."""
    for i in range(begin, width):
        total, square = -0.0, 0.0
        for j in range(rows):
            x = term(zero, address + j * row, i * stride, mask, kind)
            total += x
            square += x * x
        store(sums, i, load(sums, i, 0.0) + total)
        store(squares, i, load(squares, i, float32(0.0)) + float32(square))


@inner
def _groups(
    zero: float,
    address: int,
    row: int,
    rows: int,
    width: int,
    stride: int,
    step: int | None,
    sums: int,
    squares: int,
    mask: int,
    kind: int,
) -> None:
    whole = width // WIDTH * WIDTH
    for first in range(0, rows, GROUP):
        here, size = address + first * row, min(GROUP, rows - first)
        _columns(zero, here, row, size, whole, stride, step, sums, squares, mask, kind)
        _rest(zero, here, row, size, whole, width, stride, sums, squares, mask, kind)


@inner
def _rows(
    zero: float,
    address: int,
    row: int,
    rows: int,
    width: int,
    stride: int,
    step: int | None,
    sums: int,
    squares: int,
    mask: int,
    kind: int,
) -> None:
    if step is not None:
        _groups(zero, address, row, rows, width, stride, step, sums, squares, mask, kind)
    elif kind == SQUARES:
        _groups(zero, address, row, rows, width, stride, step, sums, squares, mask, SQUARES)
    elif kind == MAGNITUDE:
        _groups(zero, address, row, rows, width, stride, step, sums, squares, mask, MAGNITUDE)
    else:
        _groups(zero, address, row, rows, width, stride, step, sums, squares, mask, SIGNED)


@inner
def add_columns(
    zero: float, base: int, geometry: int, begin: int, end: int, width: int, sums: int, squares: int
) -> int:
    """Leaves the sums of terms ``begin`` to ``end`` of each column, and those of squares; returns the depth of that."""
    row = at(geometry, g.STEP) * size_of(zero)
    stride, mask, kind = at(geometry, g.COLUMN_STEP), at(geometry, g.MASK), at(geometry, KIND)
    clear(sums, squares, width)
    depth = GROUP
    i = begin
    while i < end:
        address, rows = run_from(geometry, base, i, end, zero)
        if stride == 1:
            _rows(zero, address, row, rows, width, 1, None, sums, squares, mask, kind)
        else:
            _rows(zero, address, row, rows, width, stride, stride, sums, squares, mask, kind)
        depth += -(-rows // GROUP)
        i += rows
    return depth
