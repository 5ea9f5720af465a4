"""Rounds tiles of float64 sums in machine code, and settles the elements that error bounds leave undecided."""

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
from .epilogues import Epilogue
from .operands import padded
from .rounding import ROUND
from .settling import SETTLE, SETTLE_FEW, TOGETHER
from .window import COUNT, FIRST
from .workspace import Workspace

AT_ONCE = 1 << 21
"""Terms summed exactly at once, some ms of work."""

FEW = 1 << 12
"""Maximum number of undecided elements that are settled within the calls of a tile."""


class StridedOperand(NamedTuple):
    """An operand or output of a tile: its address, and strides in elements."""

    address: int
    matrix: int
    row: int
    column: int

    @classmethod
    def of(cls, view: Array) -> StridedOperand:
        """Returns the operand of a view ``[matrices, rows, ..., columns]``."""
        matrix, row, *_, column = (step // view.itemsize for step in view.strides)
        return cls(view.ctypes.data, matrix, row, column)


NOTHING = StridedOperand(0, 0, 0, 0)
"""A missing operand, or an output that takes the place of the sums."""


class Finish:
    """Finishes the sums of an operator's tiles.

    Args:
        epilogue: epilogue of the sums.
        summation_error: error of a sum, relative to the product of the norms.
        depth: number of products in a sum.
        dtype: type of the operands.

    Attributes:
        epilogue: the epilogue.
        error: error of its results without that of the addend, relative to the product of the norms.
        is_compiled: whether kernels support it.
    """

    def __init__(self, epilogue: Epilogue, summation_error: float, depth: int, dtype: np.dtype[Any]) -> None:
        self.epilogue, self._depth = epilogue, depth
        self.error = epilogue.error(summation_error)
        self._round, self._settle_few, self._settle = (each[dtype.type] for each in (ROUND, SETTLE_FEW, SETTLE))
        self._has_addend = isfinite(epilogue.alpha)
        self.is_compiled = epilogue.is_rounded and isfinite(epilogue.alpha)
        factor, power = _factor_and_power(epilogue.alpha if isfinite(epilogue.alpha) else 1.0)
        self._numbers = (*map(_bits, (epilogue.alpha, epilogue.beta, self.error)), factor, power)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return self._round, self._settle_few, self._settle

    def geometry(
        self,
        window: Sequence[int],
        rows: int,
        columns: int,
        left: StridedOperand,
        target: StridedOperand,
        addend: StridedOperand,
        workspace: Workspace,
    ) -> array[int]:
        """Returns the geometry for the kernels, without the address of the right operand.

        Columns of the target must be contiguous.
        """
        own, addend = workspace.addresses, addend if self._has_addend else NOTHING
        sizes, squares = (rows, columns, self._depth), (own.row_squares, own.column_squares)
        operands = (*left, 0, padded(columns), *squares, *target[:3], *addend)
        found = array("q", (*window, *sizes, *operands, *self._numbers, own.stage))
        found[FIRST], found[COUNT] = 0, self._depth
        return found

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
        """Returns the geometry for ``DIRECT``; ``steps`` are the output's for images and positions."""
        values = *window, rows, 0, self._depth, *left, right, 0, 0, 0, *target[:3], *addend
        return array("q", (*values, _bits(1.0), _bits(1.0), _bits((self._depth + 16) * 2.0**-53), 1, 0, 0, *steps))

    def calls(self, geometry: array[int], rows: int, workspace: Workspace) -> list[tuple[Kernel, KernelCall]]:
        """Returns the calls that round the sums of all rows in the workspace, and settle the undecided ones if few."""
        sums, undecided = workspace.addresses.sums, workspace.addresses.undecided
        most = min(FEW, AT_ONCE // self._depth)
        return [
            (self._round, KernelCall(sums, 0, undecided, geometry, 0, rows, workspace)),
            (self._settle_few, KernelCall(sums, 0, undecided, geometry, 0, most, workspace)),
        ]

    def settle(self, geometry: array[int], workspace: Workspace, find: Find, stop: Stop) -> None:
        """Settles the elements that are listed as undecided.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        undecided, own = workspace.undecided, workspace.addresses
        count = int(undecided[0])
        if count == 0:
            return
        # In column order, so that adjacent columns are read together.
        undecided[1 : 1 + count].sort()
        groups, part = -(-count // TOGETHER), AT_ONCE // TOGETHER
        several, settle = max(1, part // self._depth), find(self._settle)
        for first in range(0, groups, several):
            for begin in range(0, self._depth, part):
                if stop():
                    raise Stopped
                geometry[FIRST], geometry[COUNT] = begin, min(part, self._depth - begin)
                KernelCall(own.sums, 0, own.undecided, geometry, first, min(first + several, groups)).run(settle)
        geometry[FIRST], geometry[COUNT] = 0, self._depth


def _factor_and_power(alpha: float) -> tuple[int, int]:
    """Returns a finite FLOAT32 as an odd integer, or 0, times a power of two."""
    factor, power = int(frexp(alpha)[0] * 2**24), frexp(alpha)[1] - 24
    while factor and factor % 2 == 0:
        factor, power = factor // 2, power + 1
    return factor, power if factor else 0


def _bits(value: float) -> int:
    bits: int = unpack("q", pack("d", value))[0]
    return bits
