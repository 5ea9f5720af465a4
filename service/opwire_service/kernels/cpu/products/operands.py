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

LINE = 8
"""Numbers of a line of the cache."""

LONG = 64
"""Numbers of a line from which on it matters where the next one begins."""


def apart(length: int) -> int:
    """Numbers from a line of a copy to the next: long lines are an odd number of lines of the cache apart.

    What is read together, the same place of several lines, then does not compete for the same few places of the cache.
    """
    return length if length < LONG else LINE * (-(-length // LINE) | 1)


def widening(entry: Entry, view: Array, memory: Array, squares: Array) -> tuple[Callable[[int], None], Array]:
    """What copies ``[matrices, rows, columns]``.

    Args:
        entry: of ``WIDEN``.
        view: what to copy, or what has its sizes and strides.
        memory: flat, where to.
        squares: of the rows, ``[matrices, rows]``, to add to.

    Returns:
        A function that does it, given an address, and the copy, in the order of memory of the view, so that nothing
        goes against it. Both live no longer than the memory.
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
    places = memory.ctypes.data, squares.ctypes.data, geometry.buffer_info()[0]

    def copy_all(source: int, kept: array[int] = geometry) -> None:
        entry.call(0, source, *places, 0, count * rows)

    return copy_all, copy.swapaxes(1, 2) if is_turned else copy


def widened(entry: Entry, view: Array, memory: Array, squares: Array) -> Array:
    """The copy that ``widening`` makes."""
    copy_all, copy = widening(entry, view, memory, squares)
    copy_all(view.ctypes.data)
    return copy


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


def packing(entry: Entry, view: Array, memory: Array, squares: Array) -> tuple[Callable[[int], None], Right]:
    """What copies ``[matrices, rows, columns]`` into panels.

    Args:
        entry: of ``PACK``.
        view: what to copy, or what has its sizes and strides.
        memory: flat, where to.
        squares: of the columns, ``[matrices, columns]``, to add to.

    Returns:
        A function that does it, given an address, and the copy. Both live no longer than the memory.
    """
    count, rows, columns = view.shape
    geometry = array("q", (rows, columns, *(step // view.itemsize for step in view.strides)))
    places = memory.ctypes.data, squares.ctypes.data, geometry.buffer_info()[0]

    def copy_all(source: int, kept: array[int] = geometry) -> None:
        entry.call(0, source, *places, 0, count)

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
) -> Callable[[], None]:
    """What multiplies matrices.

    Args:
        entry: of ``MULTIPLY``.
        left: ``[matrices, rows, depth]``.
        right: as many matrices.
        sums: flat, ``[matrices, rows, pitch]``, of which a row ends with what has no meaning.
        pitch: numbers of a row of the sums, those of all panels.
        adds: whether to add to the sums that are there.

    Returns:
        A function that does it; it keeps all arrays alive.
    """
    count, rows, depth = left.shape
    matrix, row, step = (stride // 8 for stride in left.strides)
    tables = right.offsets.ctypes.data, right.starts.ctypes.data
    panels = pitch // WIDTH
    broken = (0,) if right.broken is None else (*right.broken[:4], right.broken.passed.ctypes.data)
    geometry = array("q", (rows, panels, depth, matrix, row, step, right.matrix, *tables, pitch, adds, *broken))
    places = left.ctypes.data, sums.ctypes.data, right.memory.ctypes.data, geometry.buffer_info()[0]

    def multiply(kept: object = (geometry, left, right, sums)) -> None:
        entry.call(0, *places, 0, count * panels)

    return multiply


def gather(entry: Entry, memory: Array, rows: int, blocks: tuple[int, int, int, int]) -> None:
    """Moves blocks together by ``GATHER``: how many of a row, their length, then steps of rows and blocks."""
    geometry, place = array("q", blocks), memory.ctypes.data
    entry.call(0, place, place, 0, geometry.buffer_info()[0], 0, rows)
