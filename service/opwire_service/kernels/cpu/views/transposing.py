"""Transposes matrices, square by square; the last squares overlap others."""

from __future__ import annotations

from typing import NamedTuple

from ..jit.compiler import inlined, inner
from ..jit.element import prefetch, size_of
from .geometry import TRANSPOSED_PAST_CACHE, CopyTile, EncodedCopy
from .moves import (
    BUFFER,
    LINE,
    VECTOR,
    buffer,
    move_run_past_cache,
    move_small_square,
    move_square,
    put,
    small_square_of,
    square_of,
    take,
)

LONG_RUN = 512
"""Minimum bytes of a run that streaming stores write faster, if its ends are within cache lines."""

SMALL_MATRIX = 1024
"""Maximum bytes of a matrix that is not transposed in a buffer: its last stores there would delay the first loads."""


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
def transpose(zero: int, copy: EncodedCopy, tile: CopyTile) -> None:
    """Transposes a tile; call ``fence`` after the last one."""
    matrix = _matrix_of(copy, tile)
    size, columns = size_of(zero), matrix.columns
    least = min(matrix.rows, columns)
    is_packed = copy.levels[1].source == columns * size
    if least < small_square_of(zero):
        for i in range(columns):
            for j in range(matrix.rows):
                put(matrix.target + i * matrix.pitch, j, take(_row(matrix, j) + i * size, 0, zero))
    elif copy.kind == TRANSPOSED_PAST_CACHE and _is_worth_streaming(zero, matrix):
        _in_parts(zero, matrix)
    elif is_packed or least < square_of(zero):
        _small_squares(zero, matrix)
    else:
        _squares(zero, matrix)


@inlined
def _matrix_of(copy: EncodedCopy, tile: CopyTile) -> Matrix:
    here, there = copy.levels[1].source, copy.levels[2].target
    second = copy.second
    if second:
        return Matrix(tile.source, here, second, tile.target, there, 2 * tile.middle, tile.inner)
    return Matrix(tile.source, 2 * here, here, tile.target, there, tile.middle, tile.inner)


@inlined
def _row(matrix: Matrix, j: int) -> int:
    """Returns the address of a source row."""
    return matrix.source + (j >> 1) * matrix.pairs + (j & 1) * matrix.second


@inlined
def _is_worth_streaming(zero: int, matrix: Matrix) -> bool:
    row = matrix.rows * size_of(zero)
    whole = row * matrix.columns
    run = whole if matrix.pitch == row else row
    return whole > SMALL_MATRIX and (run >= LONG_RUN or (matrix.target | matrix.pitch | row) % LINE == 0)


@inner
def _in_parts(zero: int, matrix: Matrix) -> None:
    """Transposes parts of a matrix in a buffer, from which target rows are moved past the cache."""
    size, square, memory = size_of(zero), small_square_of(zero), buffer(zero)
    rows, columns = matrix.rows, matrix.columns
    width = min(rows, (BUFFER // square - LINE) // VECTOR * square)
    row = width * size
    is_contiguous = matrix.pitch == row
    # Rows that are a large power of two apart would compete for the same cache sets.
    pitch = row if is_contiguous else row + LINE
    parts = -(-columns // (BUFFER // pitch // square * square))
    height = min(columns, -(-columns // (parts * square)) * square)
    runs, run = (1, height * row) if is_contiguous else (height, row)
    for j in range(0, rows, width):
        j = min(j, rows - width)
        for i in range(0, columns, height):
            i = min(i, columns - height)
            source, target = _row(matrix, j) + i * size, matrix.target + i * matrix.pitch + j * size
            # Lines that are written in part are read first.
            for k in range(runs):
                prefetch(target + k * matrix.pitch)
                prefetch(target + k * matrix.pitch + run - 1)
            _row_by_row(zero, Matrix(source, matrix.pairs, matrix.second, memory, pitch, width, height))
            for k in range(runs):
                move_run_past_cache(target + k * matrix.pitch, memory + k * pitch, run)


@inner
def _row_by_row(zero: int, matrix: Matrix) -> None:
    """Transposes small squares in row order while prefetching the rows that follow, where often another tile begins.

    Reading whole rows one after the other is faster than reading the same lines in any other order.
    """
    size, square = size_of(zero), small_square_of(zero)
    for j in range(0, matrix.rows, square):
        j = min(j, matrix.rows - square)
        for k in range(square, 2 * square):
            ahead = _row(matrix, j + k)
            for i in range(0, matrix.columns * size, LINE):
                prefetch(ahead + i)
        for i in range(0, matrix.columns, square):
            _small_square(zero, matrix, j, min(i, matrix.columns - square))


@inner
def _small_squares(zero: int, matrix: Matrix) -> None:
    square = small_square_of(zero)
    for i in range(0, matrix.columns, square):
        i = min(i, matrix.columns - square)
        for j in range(0, matrix.rows, square):
            _small_square(zero, matrix, min(j, matrix.rows - square), i)


@inlined
def _small_square(zero: int, matrix: Matrix, j: int, i: int) -> None:
    size = size_of(zero)
    source, target = _row(matrix, j) + i * size, matrix.target + i * matrix.pitch + j * size
    move_small_square(target, matrix.pitch, source, matrix.pairs, matrix.second, zero)


@inner
def _squares(zero: int, matrix: Matrix) -> None:
    size, square, pitch = size_of(zero), square_of(zero), matrix.pitch
    rows, columns, pairs, second = matrix.rows, matrix.columns, matrix.pairs, matrix.second
    # All squares but the first and the last start at a cache line of the source.
    before = matrix.source % LINE // size if (pairs | second) % LINE == 0 else 0
    for i in range(-before, columns, square):
        i = min(max(i, 0), columns - square)
        target = matrix.target + i * pitch
        for j in range(0, rows, square):
            j = min(j, rows - square)
            move_square(target + j * size, pitch, _row(matrix, j) + i * size, pairs, second, zero)
