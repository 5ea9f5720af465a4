"""Rounds tiles of float64 sums in machine code, and settles the elements that error bounds leave undecided."""

from __future__ import annotations

from math import frexp, isfinite
from typing import Any

import numpy as np

from ....execution import Stop, Stopped
from ..jit.compiler import Kernel
from ..run.pool import Find
from .calls import KernelCall
from .epilogues import Epilogue
from .operands import padded
from .rounding import ROUND
from .settling import SETTLE, SETTLE_FEW, TOGETHER
from .tile_geometry import Operand, TileGeometry
from .workspace import Workspace

AT_ONCE = 1 << 21
"""Terms summed exactly at once, some ms of work."""

FEW = 1 << 12
"""Maximum number of undecided elements that are settled within the calls of a tile."""


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
        self.is_compiled = epilogue.is_rounded and isfinite(epilogue.alpha)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return self._round, self._settle_few, self._settle

    def geometry(self, tile: TileGeometry, workspace: Workspace) -> TileGeometry:
        """Completes the geometry of a tile for the kernels."""
        own, epilogue = workspace.addresses, self.epilogue
        factor, power = _factor_and_power(epilogue.alpha if isfinite(epilogue.alpha) else 1.0)
        if not isfinite(epilogue.alpha):
            tile.addend = Operand()
        return tile.replaced(
            first=0, count=self._depth, depth=self._depth, pitch=padded(tile.columns), row_squares=own.row_squares,
            column_squares=own.column_squares, stage=own.stage, alpha=epilogue.alpha, beta=epilogue.beta,
            error=self.error, factor=factor, power=power,
        )  # fmt: skip

    def calls(
        self, geometry: TileGeometry, rows: int, workspace: Workspace, left: int = 0
    ) -> list[tuple[Kernel, KernelCall]]:
        """Returns the calls that round the sums of all rows in the workspace, and settle the undecided ones if few.

        Args:
            geometry: the geometry of the tile.
            rows: rows of all its matrices.
            workspace: the workspace.
            left: address of an int64 that receives the number of elements left undecided, or 0.
        """
        sums, undecided = workspace.addresses.sums, workspace.addresses.undecided
        most = min(FEW, AT_ONCE // self._depth)
        return [
            (self._round, KernelCall(sums, 0, undecided, geometry, 0, rows, workspace)),
            (self._settle_few, KernelCall(sums, left, undecided, geometry, 0, most, workspace)),
        ]

    def settle(self, geometry: TileGeometry, workspace: Workspace, find: Find, stop: Stop) -> None:
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
                geometry.first, geometry.count = begin, min(part, self._depth - begin)
                KernelCall(own.sums, 0, own.undecided, geometry, first, min(first + several, groups)).run(settle)
        geometry.first, geometry.count = 0, self._depth


def _factor_and_power(alpha: float) -> tuple[int, int]:
    """Returns a finite FLOAT32 as an odd integer, or 0, times a power of two."""
    factor, power = int(frexp(alpha)[0] * 2**24), frexp(alpha)[1] - 24
    while factor and factor % 2 == 0:
        factor, power = factor // 2, power + 1
    return factor, power if factor else 0
