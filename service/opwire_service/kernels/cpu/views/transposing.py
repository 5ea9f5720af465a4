"""Transposes matrices, square by square; the last squares overlap others."""

from __future__ import annotations

from typing import NamedTuple

from ..jit.compiler import inlined, inner
from ..jit.element import prefetch, size_of
from ..run.geometry import at
from . import geometry as g
from .geometry import CopyTile, step_of
from .moves import (
    BUFFER,
    LINE,
    VECTOR,
    buffer,
    move_run_past_cache,
    move_small_square,
    move_square,
    move_square_past_cache,
    put,
    small_square_of,
    square_of,
    take,
)

LONG_RUN = 1024
"""Minimum number of bytes of a run that streaming stores write faster, if it begins or ends within a cache line."""


class Matrix(NamedTuple):
    """A matrix to transpose, with contiguous source rows; target rows are contiguous, too.

    Attributes:
        source, target: addresses of its first element.
        pairs, second, pitch: distances of source rows and of target rows, see ``move_square``.
        rows, columns: numbers of its rows and columns in the source.
    """

    source: int
    pairs: int
    second: int
    target: int
    pitch: int
    rows: int
    columns: int


@inner
def transpose(zero: int, geometry: int, tile: CopyTile) -> None:
    """Transposes a tile; call ``fence`` after the last one."""
    matrix = _matrix_of(geometry, tile)
    size, columns = size_of(zero), matrix.columns
    least = min(matrix.rows, columns)
    is_compact = step_of(geometry, 1, g.SOURCE_STEP) == columns * size
    is_past_cache = at(geometry, g.KIND) == g.TRANSPOSED_PAST_CACHE
    if least < small_square_of(zero):
        for i in range(columns):
            for j in range(matrix.rows):
                put(matrix.target + i * matrix.pitch, j, take(_row(matrix, j) + i * size, 0, zero))
    elif is_compact and is_past_cache and _has_long_runs(zero, matrix):
        _in_parts(zero, matrix)
    elif is_compact or least < square_of(zero):
        _small_squares(zero, matrix, matrix.source + matrix.rows * columns * size)
    else:
        _squares(zero, matrix, is_past_cache)


@inlined
def _matrix_of(geometry: int, tile: CopyTile) -> Matrix:
    here, there, second = (
        step_of(geometry, 1, g.SOURCE_STEP),
        step_of(geometry, 2, g.TARGET_STEP),
        at(geometry, g.SECOND),
    )
    if second:
        return Matrix(tile.source, here, second, tile.target, there, 2 * tile.middle, tile.inner)
    return Matrix(tile.source, 2 * here, here, tile.target, there, tile.middle, tile.inner)


@inlined
def _row(matrix: Matrix, j: int) -> int:
    """Returns the address of a source row."""
    return matrix.source + j // 2 * matrix.pairs + j % 2 * matrix.second


@inlined
def _has_long_runs(zero: int, matrix: Matrix) -> bool:
    """Returns whether target rows, or all of them if they are adjacent, are long or made of whole cache lines."""
    row = matrix.rows * size_of(zero)
    run = row * matrix.columns if matrix.pitch == row else row
    return run >= LONG_RUN or (matrix.target | matrix.pitch | row) % LINE == 0


@inner
def _in_parts(zero: int, matrix: Matrix) -> None:
    """Transposes parts of a matrix in a buffer, from which target rows are moved past the cache."""
    size, square, memory = size_of(zero), small_square_of(zero), buffer(zero)
    rows, columns, pitch = matrix.rows, matrix.columns, matrix.pitch
    ahead = matrix.source + rows * columns * size
    width = min(rows, BUFFER // VECTOR)
    row = width * size
    height = min(columns, BUFFER // row // square * square)
    for j in range(0, rows, width):
        j = min(j, rows - width)
        for i in range(0, columns, height):
            i = min(i, columns - height)
            source, target = _row(matrix, j) + i * size, matrix.target + i * pitch + j * size
            part = Matrix(source, matrix.pairs, matrix.second, memory, row, width, height)
            _small_squares(zero, part, ahead)
            ahead += height * row
            if pitch == row:
                move_run_past_cache(target, memory, height * row)
            else:
                for k in range(height):
                    move_run_past_cache(target + k * pitch, memory + k * row, row)


@inner
def _small_squares(zero: int, matrix: Matrix, ahead: int) -> None:
    """Transposes small squares while prefetching as many bytes, from ``ahead`` on.

    The hardware prefetcher does not foresee squares. One line after the other comes from memory faster than the same
    lines in the order in which squares need them.
    """
    size, square = size_of(zero), small_square_of(zero)
    for i in range(0, matrix.columns, square):
        i = min(i, matrix.columns - square)
        for j in range(0, matrix.rows, square):
            j = min(j, matrix.rows - square)
            for k in range(0, VECTOR * square, LINE):
                prefetch(ahead + k)
            ahead += VECTOR * square
            source, target = _row(matrix, j) + i * size, matrix.target + i * matrix.pitch + j * size
            move_small_square(target, matrix.pitch, source, matrix.pairs, matrix.second, zero)


@inner
def _squares(zero: int, matrix: Matrix, is_past_cache: bool) -> None:
    size, square = size_of(zero), square_of(zero)
    rows, columns, pitch, pairs, second = matrix.rows, matrix.columns, matrix.pitch, matrix.pairs, matrix.second
    is_past_cache = is_past_cache and (matrix.target | pitch | square * size) % LINE == 0 and rows % square == 0
    # All squares but the first and the last start at a cache line of the source.
    before = matrix.source % LINE // size if (pairs | second) % LINE == 0 else 0
    for i in range(-before, columns, square):
        i = min(max(i, 0), columns - square)
        target = matrix.target + i * pitch
        if is_past_cache:
            for j in range(0, rows, square):
                move_square_past_cache(target + j * size, pitch, _row(matrix, j) + i * size, pairs, second, zero)
        else:
            for j in range(0, rows, square):
                j = min(j, rows - square)
                move_square(target + j * size, pitch, _row(matrix, j) + i * size, pairs, second, zero)
