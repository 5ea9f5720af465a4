"""Arguments of the kernels that copy operands of tiles to float64, sum their squares, and multiply them."""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from opwire.tensor import Array

from ..numbers.vectors import WIDTH
from .calls import KernelCall

LINE = 8
"""Float64 numbers in a cache line."""

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
        view: matrices to copy.
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
    geometry = array("q", (rows, columns, matrix, down, across, is_turned, pitch))
    copy = memory[: count * rows * pitch].reshape(count, rows, pitch)[:, :, :columns]
    places = view.ctypes.data, memory.ctypes.data, squares.ctypes.data
    found = KernelCall(*places, geometry, 0, count * rows, (view, memory, squares))
    return found, copy.swapaxes(1, 2) if is_turned else copy


class Broken(NamedTuple):
    """Panels that are not contiguous, and the buffer they are copied to.

    Attributes:
        panel: address of a buffer for one panel.
        squares: address of the columns' sums of squares, ``[matrices, pitch]``, to add to.
        run: columns whose numbers are contiguous.
        gap: numbers between two such runs.
        passed: columns of its first run that precede each panel.
    """

    panel: int
    squares: int
    run: int
    gap: int
    passed: Array


class Right(NamedTuple):
    """A right operand as ``MULTIPLY`` reads it.

    Attributes:
        memory: the array that holds it.
        matrix: stride of matrices in numbers.
        offsets, starts: offsets of its rows and starts of its panels, in numbers.
        broken: describes panels that are not contiguous, or None.
    """

    memory: Array
    matrix: int
    offsets: Array
    starts: Array
    broken: Broken | None = None


def padded(columns: int) -> int:
    """Returns a number of columns rounded up to whole panels."""
    return -(-columns // WIDTH) * WIDTH


@lru_cache(64)
def steps(step: int, count: int) -> Array:
    """Returns the first ``count`` multiples of a step."""
    found = np.arange(count) * step
    found.flags.writeable = False
    return found


def packing(view: Array, memory: Array, squares: Array) -> tuple[KernelCall, Right]:
    """Returns the call of ``PACK`` that copies ``[matrices, rows, columns]`` into panels.

    Args:
        view: matrices to copy.
        memory: flat buffer for the copy.
        squares: sums of squares of the columns, ``[matrices, columns]``, to add to.

    Returns:
        The call and the copy.
    """
    count, rows, columns = view.shape
    geometry = array("q", (rows, columns, *(step // view.itemsize for step in view.strides)))
    places = view.ctypes.data, memory.ctypes.data, squares.ctypes.data
    panel = rows * WIDTH
    starts = steps(panel, padded(columns) // WIDTH)
    right = Right(memory, panel * len(starts), steps(WIDTH, rows), starts)
    return KernelCall(*places, geometry, 0, count, (view, memory, squares)), right


def multiplying(left: Array, right: Right, sums: Array, pitch: int, *, adds: bool = False) -> KernelCall:
    """Returns the call of ``MULTIPLY`` that multiplies matrices.

    Args:
        left: ``[matrices, rows, depth]``.
        right: as many matrices.
        sums: flat, ``[matrices, rows, pitch]``; rows end with meaningless numbers.
        pitch: numbers in a row of the sums, covering all panels.
        adds: whether to add to the existing sums.
    """
    count, rows, depth = left.shape
    matrix, row, step = (stride // 8 for stride in left.strides)
    tables = right.offsets.ctypes.data, right.starts.ctypes.data
    panels = pitch // WIDTH
    broken = (0,) if right.broken is None else (*right.broken[:4], right.broken.passed.ctypes.data)
    geometry = array("q", (rows, panels, depth, matrix, row, step, right.matrix, *tables, pitch, adds, *broken))
    places = left.ctypes.data, sums.ctypes.data, right.memory.ctypes.data
    return KernelCall(*places, geometry, 0, count * panels, (left, right, sums))


def gathering(memory: Array, rows: int, blocks: tuple[int, int, int, int]) -> KernelCall:
    """Returns the call of ``GATHER`` for blocks per row, their length, and the strides of rows and blocks."""
    place = memory.ctypes.data
    return KernelCall(place, place, 0, array("q", blocks), 0, rows, memory)
