"""Scratch memory of a thread that computes tiles of products."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ..numbers.vectors import WIDTH
from ..run.scratch import Scratch, Take, lined
from .operands import apart
from .settling import STAGE_BYTES
from .unfolding import ROWS

T = TypeVar("T")


class Buffers(NamedTuple, Generic[T]):
    """Something about each buffer of a workspace: its size in numbers, itself, or its address.

    Attributes:
        left: copy of the left operand in float64, whose lines are rows or columns.
        right: copy of the right operand in panels.
        unfolded: rows of the right operand that are unfolded at once.
        sums: sums of products.
        row_squares, column_squares: sums of squares of the operands.
        undecided: number of undecided elements, followed by their codes.
        stage: buffer of the kernel that settles them.
    """

    left: T
    right: T
    unfolded: T
    sums: T
    row_squares: T
    column_squares: T
    undecided: T
    stage: T


class Sizes(NamedTuple):
    """Workspace sizes of a tile.

    Attributes:
        matrices, rows: sizes of the tile.
        columns: numbers in a row of its sums, rounded up to whole panels.
        depth: products summed at once.
        is_in_place: whether the right operand is not copied.
    """

    matrices: int
    rows: int
    columns: int
    depth: int
    is_in_place: bool = False

    @property
    def buffers(self) -> Buffers[int]:
        rows, columns = self.matrices * self.rows, self.matrices * self.columns
        return Buffers(
            left=max(rows * apart(self.depth), self.matrices * self.depth * apart(self.rows)),
            right=0 if self.is_in_place else columns * self.depth,
            unfolded=min(ROWS, self.depth) * self.columns + WIDTH,
            sums=rows * self.columns,
            row_squares=rows,
            column_squares=columns,
            undecided=1 + rows * self.columns,
            stage=STAGE_BYTES // 8,
        )

    @property
    def bytes(self) -> int:
        return 8 * sum(self.buffers)


class Workspace:
    """Scratch memory of one thread.

    Args:
        sizes: the sizes.
        take: returns the memory.

    Attributes:
        left, right, sums, row_squares, column_squares, undecided: see ``Buffers``; all are flat.
        addresses: the buffers' addresses, cached because NumPy is slow to return them.
    """

    def __init__(self, sizes: Sizes, take: Take = lined) -> None:
        self._buffers = buffers = Buffers(*(take(size) for size in sizes.buffers))
        self.left, self.right, self.sums = buffers.left, buffers.right, buffers.sums
        self.row_squares, self.column_squares = buffers.row_squares, buffers.column_squares
        self.undecided = buffers.undecided.view(np.int64)
        self.addresses = Buffers(*(each.ctypes.data for each in buffers))


Space = TypeVar("Space")


class Workspaces(Generic[Space]):
    """Reusable workspaces of a run's threads; a new one is created when none is free.

    Args:
        make: makes one from its memory.
        scratch: that memory, if it is shared.
    """

    def __init__(self, make: Callable[[Take], Space], scratch: Scratch | None) -> None:
        self._make, self._scratch, self._numbers = make, scratch, count()
        self._free: list[Space] = []

    @contextmanager
    def one(self) -> Generator[Space]:
        try:
            workspace = self._free.pop()
        except IndexError:
            workspace = self._make(lined if self._scratch is None else self._scratch.take(next(self._numbers)))
        try:
            yield workspace
        finally:
            self._free.append(workspace)
