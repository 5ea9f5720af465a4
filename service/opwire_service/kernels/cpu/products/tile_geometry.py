"""Geometry of tiles of float64 sums: locations of operands, sums, bounds and the output."""

from __future__ import annotations

from typing import Any

from opwire.tensor import Array

from ..jit.compiler import inner
from ..jit.element import read
from ..jit.records import Record
from ..numbers.formats import number_of
from .window import Window


class Operand(Record):
    """An operand or output of a tile: its address, and strides in elements; address 0 means none."""

    address: int
    matrix: int
    row: int
    column: int


def operand(view: Array) -> Any:
    """Returns the numbers of the ``Operand`` of a view ``[matrices, rows, ..., columns]``, which take its place."""
    matrix, row, *_, column = (step // view.itemsize for step in view.strides)
    return view.ctypes.data, matrix, row, column


class TileGeometry(Window):
    """A tile: some matrices, one after the other.

    Attributes:
        rows, columns, depth: sizes of a matrix, and number of products in a sum.
        left, target, addend: the left operand, the output, whose columns are contiguous, and what is added.
        right: address of the right operand, which is read through the window.
        pitch: numbers in a row of sums, and in the sums of squares of a matrix's columns.
        row_squares, column_squares: addresses of the sums of squares over the whole depth.
        alpha, beta: factors of the sums, and of what is added; alpha is ``factor * 2**power``.
        error: error of a sum, relative to the product of the norms.
        stage: address of a thread's scratch buffer.
    """

    rows: int
    columns: int
    depth: int
    left: Operand
    target: Operand
    addend: Operand
    right: int
    pitch: int
    row_squares: int
    column_squares: int
    alpha: float
    beta: float
    error: float
    factor: int
    power: int
    stage: int


@inner
def addend_at(zero: float, geometry: TileGeometry, matrix: int, row: int, column: int) -> float:
    """Returns what is added to a sum, or 0."""
    addend = geometry.addend
    if addend.address == 0:
        return 0.0
    offset = matrix * addend.matrix + row * addend.row + column * addend.column
    return number_of(read(addend.address, offset, zero)) * geometry.beta
