"""Rounds the sums of a tile in machine code: bounds decide most elements, exact sums the others."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import frexp, isfinite
from struct import pack, unpack
from typing import Any, NamedTuple

import numpy as np

from opwire.tensor import Array

from ....execution import Stop, Stopped
from ..jit.compiler import Kernel
from ..run.pool import Find
from .calls import KernelCall
from .certified import Epilogue
from .rounding import ROUND
from .settling import GREATEST_POWER, SETTLE, SETTLE_FEW, TOGETHER
from .workspace import Workspace

AT_ONCE = 1 << 21
"""Terms summed exactly at once, some ms of work."""

MOST_DEPTH = AT_ONCE // TOGETHER
"""Maximum number of products in a sum that kernels can settle."""

FEW = 1 << 12
"""Maximum number of open elements that are settled within the calls of a tile."""


def of_type(pair: tuple[Kernel, Kernel], dtype: np.dtype[Any]) -> Kernel:
    """Returns the kernel for a float type."""
    single, half = pair
    return single if dtype == np.float32 else half


class StridedOperand(NamedTuple):
    """An operand or output of a tile: its address, and strides in elements."""

    address: int
    matrix: int
    row: int
    column: int

    @classmethod
    def of(cls, view: Array) -> StridedOperand:
        """Returns the operand of a view ``[matrices, rows, columns]``."""
        matrix, row, column = (step // view.itemsize for step in view.strides)
        return cls(view.ctypes.data, matrix, row, column)


NOTHING = StridedOperand(0, 0, 0, 0)
"""A missing operand."""


def matrix_window(right: StridedOperand, columns: int) -> tuple[int, ...]:
    """Returns the window of a matrix: each row is a channel, and columns are positions."""
    steps = right.matrix, right.row, 0
    space, taps, size, base = (0, 0, right.column), (1, 1, 1), (1, 1, columns), (0, 0, 0)
    move, turn, places = (0, 0, 1), (0, 0, 0), (1, 1, columns)
    return *steps, *space, *taps, *size, *base, *move, *turn, *places, 0, 0, 1


class Finish:
    """Finishes the sums of an operator's tiles.

    Args:
        epilogue: epilogue of the sums.
        error: error of a sum, relative to the product of the norms.
        depth: number of products in a sum.
        dtype: type of the tensors.
    """

    def __init__(self, epilogue: Epilogue, error: float, depth: int, dtype: np.dtype[Any]) -> None:
        self._depth, self._dtype = depth, dtype
        self._kernels = of_type(ROUND, dtype), of_type(SETTLE_FEW, dtype), of_type(SETTLE, dtype)
        alpha = _alpha(epilogue.alpha)
        self.is_able = alpha is not None and epilogue.is_rounded and depth <= MOST_DEPTH
        factor, power = alpha or (1, 0)
        bits = (_bits(value) for value in (epilogue.alpha, epilogue.beta, error))
        self._numbers = (*bits, factor, power)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return self._kernels

    def geometry(
        self,
        window: Sequence[int],
        rows: int,
        columns: int,
        left: StridedOperand,
        right: int,
        target: StridedOperand,
        addend: StridedOperand,
        workspace: Workspace,
    ) -> array[int]:
        """Returns the geometry for the kernels; columns of the target must be contiguous."""
        places = workspace.places
        sizes = rows, columns, self._depth
        values = (
            *window,
            *sizes,
            *left,
            right,
            places.row_squares,
            places.column_squares,
            *target[:3],
            *addend,
            *self._numbers,
        )
        return array("q", (*values, places.stage))

    def direct_geometry(
        self,
        window: Sequence[int],
        rows: int,
        left: StridedOperand,
        right: int,
        target: StridedOperand,
        addend: StridedOperand,
        steps: Sequence[int],
    ) -> array[int]:
        """Returns the geometry for the kernel that sums lines; ``steps`` are the output's for images and positions."""
        values = *window, rows, 0, self._depth, *left, right, 0, 0, *target[:3], *addend
        return array("q", (*values, _bits(1.0), _bits(1.0), _bits((self._depth + 16) * 2.0**-53), 1, 0, 0, *steps))

    def calls(self, geometry: array[int], rows: int, workspace: Workspace) -> list[tuple[Kernel, KernelCall]]:
        """Returns the calls that round the sums of all rows in the workspace, and settle the open ones if few."""
        sums, opens = workspace.places.sums, workspace.places.opens
        rounding, few, _ = self._kernels
        return [
            (rounding, KernelCall(sums, 0, opens, geometry, 0, rows, workspace)),
            (few, KernelCall(sums, 0, opens, geometry, 0, min(FEW, AT_ONCE // self._depth), workspace)),
        ]

    def settle(self, geometry: array[int], workspace: Workspace, find: Find, stop: Stop) -> None:
        """Settles the elements that are still open after the calls.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        opens = workspace.opens
        count = int(opens[0])
        if count == 0:
            return
        *_, settling = self._kernels
        # In column order, so that adjacent columns are read together.
        opens[1 : 1 + count].sort()
        groups, several = -(-count // TOGETHER), max(1, MOST_DEPTH // self._depth)
        for first in range(0, groups, several):
            if stop():
                raise Stopped
            call = KernelCall(
                workspace.places.sums, 0, workspace.places.opens, geometry, first, min(first + several, groups)
            )
            call.run(find(settling))


def _alpha(alpha: float) -> tuple[int, int] | None:
    """Returns a FLOAT32 as an integer times a power of two, or None where kernels do not support it."""
    if not isfinite(alpha):
        return None
    fraction, power = frexp(alpha)
    factor, power = int(fraction * 2**24), power - 24
    while factor and factor % 2 == 0:
        factor, power = factor // 2, power + 1
    return (factor, power if factor else 0) if not factor or abs(power) <= GREATEST_POWER else None


def _bits(value: float) -> int:
    bits: int = unpack("q", pack("d", value))[0]
    return bits
