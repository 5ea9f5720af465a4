"""Rounds rows of float64 sums to FLOAT32, with the bounds on their errors, and counts where those leave it open."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opwire.tensor import Array

from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import FLOAT32, float32, read, store
from ..run.geometry import at

COLUMNS, STEP, ACROSS, DOWN, HEIGHT, ROW_BOUNDS, COLUMN_BOUNDS, ADDENDS = range(8)
"""Places in the geometry: sizes and steps in elements, then addresses; rows of a matrix share its columns' bounds."""

Round = Callable[[Array, Array, Array, Array | None, Array], Array]
"""Takes sums, bounds of rows and of columns, an addend of each row and the target; gives how many of a row are open."""


@inner
def _row(source: int, target: int, bounds: int, columns: int, across: int, bound: float, addend: float) -> int:
    """One row; how many of its elements the bounds leave open."""
    ends, slack = 0, abs(addend) * 2.0**-51
    for j in range(columns):
        value = read(source, j, 0.0) + addend
        error = bound * read(bounds, j, 0.0) + slack
        high = float32(value + error)
        store(target, j * across, high)
        ends += high != float32(value - error)
    return ends


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    columns, across = at(geometry, COLUMNS), at(geometry, ACROSS)
    for i in range(begin, end):
        here = source + 8 * i * at(geometry, STEP)
        there = target + 4 * i * at(geometry, DOWN)
        bounds = at(geometry, COLUMN_BOUNDS) + 8 * columns * (i // at(geometry, HEIGHT))
        bound = read(at(geometry, ROW_BOUNDS), i, 0.0)
        addends = at(geometry, ADDENDS)
        addend = read(addends, i, 0.0) if addends else 0.0
        if across == 1:
            store(states, i, _row(here, there, bounds, columns, 1, bound, addend))
        else:
            store(states, i, _row(here, there, bounds, columns, across, bound, addend))


ROWS = Kernel(rows, FLOAT32)


def rounding(call: Callable[[int, int, int, int, int, int, int], None]) -> Round:
    """What rounds by the machine code of ``ROWS``."""

    def round_rows(sums: Array, row_bounds: Array, column_bounds: Array, addends: Array | None, target: Array) -> Array:
        count, columns = sums.shape
        found = np.empty(count, np.int64)
        geometry = np.array(
            [
                columns,
                sums.strides[0] // 8,
                target.strides[1] // 4,
                target.strides[0] // 4,
                count // len(column_bounds),
                row_bounds.ctypes.data,
                column_bounds.ctypes.data,
                0 if addends is None else addends.ctypes.data,
            ],
            np.int64,
        )
        call(0, sums.ctypes.data, target.ctypes.data, found.ctypes.data, geometry.ctypes.data, 0, count)
        return found

    return round_rows
