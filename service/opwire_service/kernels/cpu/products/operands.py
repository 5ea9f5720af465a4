"""Arguments of the kernels that copy operands of tiles to float64, sum their squares, and multiply them."""

from __future__ import annotations

from opwire.tensor import Array

from ..numbers.vectors import WIDTH
from ..run.scratch import LINE
from .calls import KernelCall
from .multiplying import MatrixProduct
from .packing import Matrices
from .widening import Lines

LONG = 64
"""Length of a line, in numbers, from which on the start of the next line matters."""


def apart(length: int) -> int:
    """Returns the pitch of a copy in numbers: long lines are an odd number of cache lines apart.

    Numbers that are read together, at the same place of several lines, then do not compete for the same cache sets.
    """
    return length if length < LONG else LINE * (-(-length // LINE) | 1)


def widening(view: Array, memory: Array, squares: Array) -> tuple[KernelCall, Array]:
    """Returns the call of ``WIDEN`` that copies ``[matrices, rows, columns]``.

    Args:
        view: matrices to copy, which the caller keeps alive.
        memory: flat buffer for the copy.
        squares: sums of squares of the rows, ``[matrices, rows]``, to add to.

    Returns:
        The call and the copy, in the memory order of the view, so that reads are sequential.
    """
    count, rows, columns = view.shape
    item = view.itemsize
    matrix, down, across = (step // item for step in view.strides)
    is_turned = abs(down) < abs(across) and rows > 1
    if is_turned:
        rows, columns, down, across = columns, rows, across, down
    pitch = apart(columns)
    geometry = Lines(
        lines=rows, length=columns, matrix=matrix, line=down, step=across, is_across=is_turned, pitch=pitch
    )
    copy = memory[: count * rows * pitch].reshape(count, rows, pitch)[:, :, :columns]
    places = view.ctypes.data, memory.ctypes.data, squares.ctypes.data
    found = KernelCall(*places, geometry, 0, count * rows, (memory, squares))
    return found, copy.swapaxes(1, 2) if is_turned else copy


def padded(columns: int) -> int:
    """Returns a number of columns rounded up to whole panels."""
    return -(-columns // WIDTH) * WIDTH


def packing(view: Array, memory: Array, squares: Array) -> KernelCall:
    """Returns the call of ``PACK`` that copies ``[matrices, rows, columns]`` into panels.

    Args:
        view: matrices to copy, which the caller keeps alive.
        memory: flat buffer for the copy.
        squares: sums of squares of the columns, padded to whole panels, to add to.
    """
    matrix, row, column = (step // view.itemsize for step in view.strides)
    geometry = Matrices(rows=view.shape[1], columns=view.shape[2], matrix=matrix, row=row, column=column)
    places = view.ctypes.data, memory.ctypes.data, squares.ctypes.data
    return KernelCall(*places, geometry, 0, len(view), (memory, squares))


def multiplying(left: Array, right: Array, sums: Array, panels: int, *, adds: bool = False) -> KernelCall:
    """Returns the call of ``MULTIPLY`` that multiplies matrices.

    Args:
        left: ``[matrices, rows, depth]``.
        right: as many matrices of panels, flat.
        sums: flat, ``[matrices, rows, panels * WIDTH]``.
        panels: panels of a matrix.
        adds: whether to add to the existing sums.
    """
    count, rows, depth = left.shape
    matrix, row, step = (stride // 8 for stride in left.strides)
    geometry = MatrixProduct(rows=rows, panels=panels, length=depth, matrix=matrix, row=row, step=step, adds=adds)
    places = left.ctypes.data, sums.ctypes.data, right.ctypes.data
    return KernelCall(*places, geometry, 0, count * panels, (left, right, sums))
