"""Tiles of float64 sums as kernels see them: where operands, sums, bounds and the output lie."""

from __future__ import annotations

from ..jit.compiler import inlined
from ..jit.element import bits_double
from ..run.geometry import at
from .window import WINDOW

# A tile is some matrices of so many rows and columns, one after the other; steps are in elements.
ROWS, COLUMNS, DEPTH = range(WINDOW, WINDOW + 3)
LEFT, LEFT_MATRIX, LEFT_ROW, LEFT_STEP = range(WINDOW + 3, WINDOW + 7)  # the left operand: its address and steps
RIGHT = WINDOW + 7  # the address of the right one, which the window reads
ROW_SQUARES, COLUMN_SQUARES = range(WINDOW + 8, WINDOW + 10)  # addresses of the sums of squares of all of a sum
TARGET, TARGET_MATRIX, TARGET_ROW = range(WINDOW + 10, WINDOW + 13)  # columns of the output are neighbours
ADDEND, ADDEND_MATRIX, ADDEND_ROW, ADDEND_STEP = range(WINDOW + 13, WINDOW + 17)  # the address is 0 if there is none
ALPHA, BETA, ERROR = range(WINDOW + 17, WINDOW + 20)  # bits of float64
FACTOR, POWER = range(WINDOW + 20, WINDOW + 22)  # alpha is FACTOR * 2**POWER
STAGE = WINDOW + 22  # the address of memory of a thread
TILE = WINDOW + 23
"""Slots in all."""


@inlined
def double_at(geometry: int, slot: int) -> float:
    """The float64 that a slot holds."""
    return bits_double(at(geometry, slot))
