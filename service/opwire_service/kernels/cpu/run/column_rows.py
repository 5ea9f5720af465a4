"""How the kernels of reductions walk over neighbouring columns: run by run of rows, and within a run group by group.

What they do with a group is a function that they pass. It becomes part of the walk when a kernel is compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..jit.compiler import inlined
from ..jit.element import size_of
from . import geometry as g
from .geometry import Tile, advance, at, run_from

WHOLE_RUN = 1 << 62
"""As the most rows of a group: it ends with its run."""


class Rows(NamedTuple):
    """Rows of neighbouring columns.

    Attributes:
        address: of the first column's element in the first row.
        pitch: bytes from row to row.
        height: how many rows.
        width: how many columns.
        stride: elements from column to column; see ``stride_of``.
        step: the same; None if columns lie side by side.
    """

    address: int
    pitch: int
    height: int
    width: int
    stride: int
    step: int | None


@inlined
def stride_of(rows: Rows) -> int:
    """Elements from column to column; 1, known when a kernel is compiled, if columns lie side by side."""
    return 1 if rows.step is None else rows.stride


@inlined
def column_address(zero: float, rows: Rows, column: int) -> int:
    """The address of a column's element in the first row."""
    return advance(rows.address, column * stride_of(rows), zero)


@inlined
def _groups(zero: float, run: Rows, most: int, take: Any, memory: Any, state: Any) -> Any:
    for first in range(0, run.height, most):
        here, count = run.address + first * run.pitch, min(most, run.height - first)
        state = take(zero, Rows(here, run.pitch, count, run.width, run.stride, run.step), memory, state)
    return state


@inlined
def walk_neighbours(zero: float, geometry: int, tile: Tile, most: int, take: Any, memory: Any, state: Any) -> Any:
    """Like ``walk``, of columns that lie side by side."""
    pitch, i = at(geometry, g.STEP) * size_of(zero), tile.first
    while i < tile.last:
        address, count = run_from(geometry, tile.base, i, tile.last, zero)
        state = _groups(zero, Rows(address, pitch, count, tile.width, 1, None), most, take, memory, state)
        i += count
    return state


@inlined
def walk(zero: float, geometry: int, tile: Tile, most: int, take: Any, memory: Any, state: Any) -> Any:
    """Takes the rows of a tile's segment, in their order.

    Args:
        zero: its type says what an element is.
        geometry: the loops.
        tile: the columns and their segment.
        most: rows of a group.
        take: takes a ``zero``, the ``Rows`` of a group, ``memory`` and the state so far; returns the next state.
        memory: where ``take`` finds what it keeps of each column.
        state: the first one.

    Returns:
        The last state.
    """
    pitch, stride, i = at(geometry, g.STEP) * size_of(zero), at(geometry, g.COLUMN_STEP), tile.first
    while i < tile.last:
        address, count = run_from(geometry, tile.base, i, tile.last, zero)
        if stride == 1:
            state = _groups(zero, Rows(address, pitch, count, tile.width, 1, None), most, take, memory, state)
        else:
            state = _groups(zero, Rows(address, pitch, count, tile.width, stride, stride), most, take, memory, state)
        i += count
    return state
