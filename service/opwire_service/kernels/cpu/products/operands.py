"""Operands of tiles, copied into float64 with the squares of their rows and columns, and the products of the copies."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from opwire.tensor import Array

from ..jit.compiler import Entry
from ..numbers.vectors import WIDTH


def widening(entry: Entry, view: Array, memory: Array, squares: Array) -> tuple[Callable[[], None], Array]:
    """What copies ``[matrices, rows, columns]``.

    Args:
        entry: of ``WIDEN``.
        view: what to copy.
        memory: flat, where to.
        squares: of the rows, ``[matrices, rows]``, to add to.

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
    geometry = array("q", (rows, columns, matrix, down, across, is_turned))
    copy = memory[: count * rows * columns].reshape(count, rows, columns)
    places = view.ctypes.data, memory.ctypes.data, squares.ctypes.data, geometry.buffer_info()[0]

    def copy_all(kept: array[int] = geometry) -> None:
        entry.call(0, *places, 0, count * rows)

    return copy_all, copy.swapaxes(1, 2) if is_turned else copy


def widened(entry: Entry, view: Array, memory: Array, squares: Array) -> Array:
    """The copy that ``widening`` makes."""
    copy_all, copy = widening(entry, view, memory, squares)
    copy_all()
    return copy


class Right(NamedTuple):
    """A right operand as ``MULTIPLY`` reads it.

    Attributes:
        memory: what it lies in.
        matrix: numbers from a matrix to the next.
        offsets, starts: where its rows and panels begin, in numbers.
    """

    memory: Array
    matrix: int
    offsets: Array
    starts: Array


def padded(columns: int) -> int:
    """The columns of so many panels as hold some columns."""
    return -(-columns // WIDTH) * WIDTH


@lru_cache(64)
def steps(step: int, count: int) -> Array:
    """The multiples of a step."""
    found = np.arange(count) * step
    found.flags.writeable = False
    return found


def packing(entry: Entry, view: Array, memory: Array, squares: Array) -> tuple[Callable[[], None], Right]:
    """What copies ``[matrices, rows, columns]`` into panels.

    Args:
        entry: of ``PACK``.
        view: what to copy.
        memory: flat, where to.
        squares: of the columns, ``[matrices, columns]``, to add to.

    Returns:
        A function that does it, and the copy. Both live no longer than the view and the memory.
    """
    count, rows, columns = view.shape
    geometry = array("q", (rows, columns, *(step // view.itemsize for step in view.strides)))
    places = view.ctypes.data, memory.ctypes.data, squares.ctypes.data, geometry.buffer_info()[0]

    def copy_all(kept: array[int] = geometry) -> None:
        entry.call(0, *places, 0, count)

    panel = rows * WIDTH
    starts = steps(panel, padded(columns) // WIDTH)
    return copy_all, Right(memory, panel * len(starts), steps(WIDTH, rows), starts)


def multiplying(
    entry: Entry,
    left: Array,
    right: Right,
    sums: Array,
    pitch: int,
    *,
    adds: bool = False,
    squares: int = 0,
    panel: int = 0,
) -> Callable[[], None]:
    """What multiplies matrices.

    Args:
        entry: of ``MULTIPLY``.
        left: ``[matrices, rows, depth]``.
        right: as many matrices.
        sums: flat, ``[matrices, rows, pitch]``, of which a row ends with what has no meaning.
        pitch: numbers of a row of the sums, those of all panels.
        adds: whether to add to the sums that are there.
        squares: the address of the sums of squares of columns to add to, ``[matrices, pitch]``, or 0; needs a panel.
        panel: the address of memory for one, or 0 if those of the right operand are in one piece each.

    Returns:
        A function that does it; it keeps all but the last two alive.
    """
    count, rows, depth = left.shape
    matrix, row, step = (stride // 8 for stride in left.strides)
    tables = right.offsets.ctypes.data, right.starts.ctypes.data
    panels = pitch // WIDTH
    geometry = array("q", (rows, panels, depth, matrix, row, step, right.matrix, *tables, pitch, adds, squares, panel))
    places = left.ctypes.data, sums.ctypes.data, right.memory.ctypes.data, geometry.buffer_info()[0]

    def multiply(kept: object = (geometry, left, right, sums)) -> None:
        entry.call(0, *places, 0, count * panels)

    return multiply


def gather(entry: Entry, memory: Array, rows: int, lines: tuple[int, int, int, int, int, int]) -> None:
    """Moves lines together by ``GATHER``: blocks, lines of one, their length, then steps of rows, blocks and lines."""
    geometry, place = array("q", lines), memory.ctypes.data
    entry.call(0, place, place, 0, geometry.buffer_info()[0], 0, rows)
