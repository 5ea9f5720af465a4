"""Geometry slots of tiles of float64 sums: locations of operands, sums, bounds and the output."""

from __future__ import annotations

from ..jit.compiler import inlined, inner
from ..jit.element import bits_double, read
from ..numbers.formats import number_of
from ..run.geometry import at
from .window import WINDOW

# A tile is some matrices of ROWS x COLUMNS, one after the other; steps are in elements.
ROWS, COLUMNS, DEPTH = range(WINDOW, WINDOW + 3)
LEFT, LEFT_MATRIX, LEFT_ROW, LEFT_STEP = range(WINDOW + 3, WINDOW + 7)  # left operand: address and steps
RIGHT = WINDOW + 7  # address of the right operand, which is read through the window
PITCH = WINDOW + 8  # numbers in a row of sums, and in the sums of squares of a matrix's columns
ROW_SQUARES, COLUMN_SQUARES = range(WINDOW + 9, WINDOW + 11)  # addresses of the sums of squares over the whole depth
TARGET, TARGET_MATRIX, TARGET_ROW = range(WINDOW + 11, WINDOW + 14)  # output; its columns are contiguous
ADDEND, ADDEND_MATRIX, ADDEND_ROW, ADDEND_STEP = range(WINDOW + 14, WINDOW + 18)  # address 0 means none
ALPHA, BETA, ERROR = range(WINDOW + 18, WINDOW + 21)  # bits of float64
FACTOR, POWER = range(WINDOW + 21, WINDOW + 23)  # alpha is FACTOR * 2**POWER
STAGE = WINDOW + 23  # address of a thread's scratch buffer
TILE = WINDOW + 24
"""Total number of slots."""


@inlined
def double_at(geometry: int, slot: int) -> float:
    """Returns the float64 in a slot."""
    return bits_double(at(geometry, slot))


@inner
def addend_at(zero: float, geometry: int, matrix: int, row: int, column: int) -> float:
    """Returns what is added to a sum, or 0."""
    addend = at(geometry, ADDEND)
    if addend == 0:
        return 0.0
    offset = matrix * at(geometry, ADDEND_MATRIX) + row * at(geometry, ADDEND_ROW) + column * at(geometry, ADDEND_STEP)
    return number_of(read(addend, offset, zero)) * double_at(geometry, BETA)
