"""What kernels take to copy the operands of tiles into float64, with squares of rows and columns, and to multiply."""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from opwire.tensor import Array

from ..numbers.vectors import WIDTH
from .calls import KernelCall

LINE = 8
"""Numbers of a line of the cache."""

LONG = 64
"""Numbers of a line from which on it matters where the next one begins."""


def apart(length: int) -> int:
    """Numbers from a line of a copy to the next: long lines are an odd number of lines of the cache apart.

    What is read together, the same place of several lines, then does not compete for the same few places of the cache.
    """
    return length if length < LONG else LINE * (-(-length // LINE) | 1)


def widening(view: Array, memory: Array, squares: Array) -> tuple[KernelCall, Array]:
    """What ``WIDEN`` takes to copy ``[matrices, rows, columns]``.

    Args:
        view: what to copy.
        memory: flat, where to.
        squares: of the rows, ``[matrices, rows]``, to add to.

    Returns:
        The call and the copy, in the order of memory of the view, so that nothing goes against it.
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
    """How panels lie in pieces, and where they are put together.

    Attributes:
        panel: the address of memory for one.
        squares: the address of the sums of squares of columns to add to, ``[matrices, pitch]``.
        run: columns whose numbers follow one another.
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
        memory: what it lies in.
        matrix: numbers from a matrix to the next.
        offsets, starts: where its rows and panels begin, in numbers.
        broken: what is to be known of panels that are not in one piece, or None.
    """

    memory: Array
    matrix: int
    offsets: Array
    starts: Array
    broken: Broken | None = None


def padded(columns: int) -> int:
    """The columns of so many panels as hold some columns."""
    return -(-columns // WIDTH) * WIDTH


@lru_cache(64)
def steps(step: int, count: int) -> Array:
    """The multiples of a step."""
    found = np.arange(count) * step
    found.flags.writeable = False
    return found


def packing(view: Array, memory: Array, squares: Array) -> tuple[KernelCall, Right]:
    """What ``PACK`` takes to copy ``[matrices, rows, columns]`` into panels.

    Args:
        view: what to copy.
        memory: flat, where to.
        squares: of the columns, ``[matrices, columns]``, to add to.

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
    """What ``MULTIPLY`` takes to multiply matrices.

    Args:
        left: ``[matrices, rows, depth]``.
        right: as many matrices.
        sums: flat, ``[matrices, rows, pitch]``, of which a row ends with what has no meaning.
        pitch: numbers of a row of the sums, those of all panels.
        adds: whether to add to the sums that are there.
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
    """What ``GATHER`` takes to move blocks together: how many of a row, their length, then steps of rows and blocks."""
    place = memory.ctypes.data
    return KernelCall(place, place, 0, array("q", blocks), 0, rows, memory)
