"""Operands of tiles: parts of matrices, copied into float64 with the squares of their rows or columns."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np

from opwire.tensor import Array

from ..jit.compiler import Entry

ROWS, COLUMNS = 1, 2


def widening(
    entry: Entry, view: Array, memory: Array, squares: Array, squared: int
) -> tuple[Callable[[], None], Array]:
    """What copies ``[matrices, rows, columns]``.

    Args:
        entry: of ``WIDEN``.
        view: what to copy.
        memory: flat, where to.
        squares: sums of squares to add to, ``[matrices, rows]`` or ``[matrices, columns]``.
        squared: ``ROWS`` or ``COLUMNS``.

    Returns:
        A function that does it, and the copy, in the order of memory of the view, so that nothing goes against it.
        Both live no longer than the view and the memory.
    """
    count, rows, columns = view.shape
    item = view.itemsize
    matrix, down, across = (step // item for step in view.strides)
    is_turned = abs(down) < abs(across) and rows > 1
    if is_turned:
        rows, columns, down, across = columns, rows, across, down
    along = ROWS if is_turned else COLUMNS
    geometry = array("q", (rows, columns, matrix, down, across, squared == along))
    copy = memory[: count * rows * columns].reshape(count, rows, columns)
    places = view.ctypes.data, memory.ctypes.data, squares.ctypes.data, geometry.buffer_info()[0]

    def copy_all(kept: array[int] = geometry) -> None:
        entry.call(0, *places, 0, count * rows)

    return copy_all, copy.swapaxes(1, 2) if is_turned else copy


def widened(entry: Entry, view: Array, memory: Array, squares: Array, squared: int) -> Array:
    """The copy that ``widening`` makes."""
    copy_all, copy = widening(entry, view, memory, squares, squared)
    copy_all()
    return copy


def multiply(left: Array, right: Array, into: Array) -> None:
    """The products of matrices."""
    if len(into) == 1:  # it takes BLAS a detour less
        np.matmul(left[0], right[0], out=into[0])
    else:
        np.matmul(left, right, out=into)
