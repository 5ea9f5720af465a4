"""Multiplies single rows by matrices whose columns are contiguous, which are read in place: each is read only once."""

from __future__ import annotations

import numpy as np

from opwire.tensor import Array

from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import FLOAT32, HALF, load, read, store
from ..jit.records import Record
from ..numbers.formats import number_of, values
from ..numbers.vectors import WIDTH, elements, fused_vectors, load_vector, spread, total_of
from ..run.geometry import advance
from .calls import KernelCall
from .multiplying import DEPTH

LENGTH = WIDTH * DEPTH
"""Products summed in a register at once."""


class RowProduct(Record):
    """Rows times matrices.

    Attributes:
        columns, length: columns of a matrix, and products in a sum.
        matrix, column: steps, in elements, of matrices and columns.
        row, pitch: numbers between two rows, and between the sums of two rows.
        squares: address of the running sums of squares of the columns, as far apart as sums.
        adds: whether to add to the existing sums.
    """

    columns: int
    length: int
    matrix: int
    column: int
    row: int
    pitch: int
    squares: int
    adds: bool


def row_product(row: Array, view: Array, sums: Array, squares: Array, pitch: int, *, adds: bool) -> KernelCall:
    """Returns the call of ``MULTIPLY_ROW`` for ``[matrices, depth]`` and ``[matrices, depth, columns]``.

    Args:
        row: the rows in float64.
        view: the matrices.
        sums: flat, ``[matrices, pitch]``.
        squares: sums of squares of the columns, of the same shape, to add to.
        pitch: numbers between the sums of two rows.
        adds: whether to add to the existing sums.
    """
    count, depth, columns = view.shape
    matrix, _, column = (step // view.itemsize for step in view.strides)
    geometry = RowProduct(
        columns=columns, length=depth, matrix=matrix, column=column, row=row.strides[0] // 8, pitch=pitch,
        squares=squares.ctypes.data, adds=adds,
    )  # fmt: skip
    places = view.ctypes.data, sums.ctypes.data, row.ctypes.data
    return KernelCall(*places, geometry, 0, count * columns, (row, view, sums, squares))


@inner
def _multiply(zero: float, column: int, row: int, length: int) -> tuple[float, float]:
    """Returns a sum of products and one of squares."""
    total, squares, last = spread(0.0), spread(0.0), length - length % WIDTH
    for k in range(0, last, WIDTH):
        found = values(elements(advance(column, k, zero), None, zero))
        total = fused_vectors(found, load_vector(row, k, 0.0), total)
        squares = fused_vectors(found, found, squares)
    product, square = total_of(total), total_of(squares)
    for k in range(last, length):
        value = number_of(read(column, k, zero))
        product += value * load(row, k, 0.0)
        square += value * value
    return product, square


@kernel
def multiply_row(
    zero: float, source: int, target: int, states: int, geometry: RowProduct, begin: int, end: int
) -> None:
    """A unit is a column of a matrix; the source is the right operand, the states are the left one."""
    columns, length = geometry.columns, geometry.length
    for unit in range(begin, end):
        matrix = unit // columns
        place = unit - matrix * columns
        here = advance(source, matrix * geometry.matrix + place * geometry.column, zero)
        row, place = states + 8 * matrix * geometry.row, place + matrix * geometry.pitch
        total = load(target, place, 0.0) if geometry.adds else 0.0
        squares = load(geometry.squares, place, 0.0)
        for first in range(0, length, LENGTH):
            count = min(LENGTH, length - first)
            product, square = _multiply(zero, advance(here, first, zero), row + 8 * first, count)
            total, squares = total + product, squares + square
        store(target, place, total)
        store(geometry.squares, place, squares)


MULTIPLY_ROW = {np.float32: Kernel(multiply_row, FLOAT32), np.float16: Kernel(multiply_row, HALF)}
