"""Traversal of adjacent columns in the kernels of reductions: run by run of rows, and within a run group by group.

The work on a group is a function that the caller passes; it is inlined when the kernel is compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..jit.compiler import inlined
from ..jit.element import size_of
from .geometry import Reduction, Tile, advance, run_from

WHOLE_RUN = 1 << 62
"""Group size that lets each group extend to the end of its run."""


class Rows(NamedTuple):
    """Rows of a block of columns.

    Attributes:
        address: address of the first column's element in the first row.
        pitch: bytes from row to row.
        height: number of rows.
        width: number of columns.
        stride: elements from column to column; see ``stride_of``.
        step: the same, or None for contiguous columns.
    """

    address: int
    pitch: int
    height: int
    width: int
    stride: int
    step: int | None


@inlined
def stride_of(rows: Rows) -> int:
    """Returns the elements from column to column: for contiguous columns the compile-time constant 1."""
    return 1 if rows.step is None else rows.stride


@inlined
def column_address(zero: float, rows: Rows, column: int) -> int:
    """Returns the address of a column's element in the first row."""
    return advance(rows.address, column * stride_of(rows), zero)


@inlined
def _groups(zero: float, run: Rows, most: int, take: Any, memory: Any, state: Any) -> Any:
    for first in range(0, run.height, most):
        here, count = run.address + first * run.pitch, min(most, run.height - first)
        state = take(zero, Rows(here, run.pitch, count, run.width, run.stride, run.step), memory, state)
    return state


@inlined
def walk(zero: float, geometry: Reduction, tile: Tile, most: int, take: Any, memory: Any, state: Any) -> Any:
    """Visits the rows of a tile's segment in order.

    Args:
        zero: its type is the element type.
        geometry: address of the loop geometry.
        tile: the columns and their segment.
        most: maximum number of rows in a group.
        take: called with ``zero``, the ``Rows`` of a group, ``memory`` and the current state; returns the next state.
        memory: where ``take`` keeps its per-column data.
        state: initial state.

    Returns:
        The final state.
    """
    pitch, stride, i = geometry.step * size_of(zero), geometry.column_step, tile.first
    while i < tile.last:
        address, count = run_from(geometry, tile.base, i, tile.last, zero)
        if stride == 1:
            state = _groups(zero, Rows(address, pitch, count, tile.width, 1, None), most, take, memory, state)
        else:
            state = _groups(zero, Rows(address, pitch, count, tile.width, stride, stride), most, take, memory, state)
        i += count
    return state
