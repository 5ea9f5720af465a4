"""Geometry slots of tiles of float64 sums: locations of operands, sums, bounds and the output."""

from __future__ import annotations

from ..jit.compiler import inlined
from ..jit.element import bits_double
from ..run.geometry import at
from .window import WINDOW

# A tile is some matrices of ROWS x COLUMNS, one after the other; steps are in elements.
ROWS, COLUMNS, DEPTH = range(WINDOW, WINDOW + 3)
LEFT, LEFT_MATRIX, LEFT_ROW, LEFT_STEP = range(WINDOW + 3, WINDOW + 7)  # left operand: address and steps
RIGHT = WINDOW + 7  # address of the right operand, which is read through the window
ROW_SQUARES, COLUMN_SQUARES = range(WINDOW + 8, WINDOW + 10)  # addresses of the sums of squares over the whole depth
TARGET, TARGET_MATRIX, TARGET_ROW = range(WINDOW + 10, WINDOW + 13)  # output; its columns are contiguous
ADDEND, ADDEND_MATRIX, ADDEND_ROW, ADDEND_STEP = range(WINDOW + 13, WINDOW + 17)  # address 0 means none
ALPHA, BETA, ERROR = range(WINDOW + 17, WINDOW + 20)  # bits of float64
FACTOR, POWER = range(WINDOW + 20, WINDOW + 22)  # alpha is FACTOR * 2**POWER
STAGE = WINDOW + 22  # address of a thread's scratch buffer
TILE = WINDOW + 23
"""Total number of slots."""


@inlined
def double_at(geometry: int, slot: int) -> float:
    """Returns the float64 in a slot."""
    return bits_double(at(geometry, slot))
