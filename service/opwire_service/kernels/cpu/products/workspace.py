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
    def left(self) -> int:
        """Numbers in the copy of the left operand, whose lines are rows or columns."""
        return self.matrices * max(self.rows * apart(self.depth), self.depth * apart(self.rows))

    @property
    def right(self) -> int:
        """Numbers in the copy of the right operand."""
        return 0 if self.is_in_place else self.matrices * self.depth * self.columns

    @property
    def unfolded(self) -> int:
        """Numbers in the rows of the right operand that are unfolded at once."""
        return min(ROWS, self.depth) * self.columns + WIDTH

    @property
    def bytes(self) -> int:
        operands = self.left + self.right + self.unfolded
        sums = self.matrices * self.rows * self.columns
        squares = self.matrices * (self.rows + self.columns)
        return 8 * (operands + 2 * sums + squares + 1) + STAGE_BYTES


class Addresses(NamedTuple):
    """Addresses of a workspace's buffers, cached because NumPy is slow to return them."""

    right: int
    unfolded: int
    sums: int
    row_squares: int
    column_squares: int
    undecided: int
    stage: int


class Workspace:
    """Scratch memory of one thread.

    Args:
        sizes: the sizes.
        take: returns the memory.

    Attributes:
        left, right: operands in float64, flat; the right one in panels.
        unfolded: buffer for some rows of the right operand.
        sums: sums of products, flat.
        row_squares, column_squares: sums of squares of the operands.
        undecided: number of undecided elements, followed by their codes.
        stage: buffer of the kernel that settles them.
        addresses: the buffers' addresses.
    """

    def __init__(self, sizes: Sizes, take: Take = lined) -> None:
        elements = sizes.matrices * sizes.rows * sizes.columns
        self.left = take(sizes.left)
        self.right = take(sizes.right)
        self.unfolded = take(sizes.unfolded)
        self.sums = take(elements)
        self.row_squares = take(sizes.matrices * sizes.rows)
        self.column_squares = take(sizes.matrices * sizes.columns)
        self.undecided = take(1 + elements).view(np.int64)
        self.stage = take(STAGE_BYTES // 8)
        memory = (
            self.right, self.unfolded, self.sums, self.row_squares, self.column_squares, self.undecided, self.stage
        )  # fmt: skip
        self.addresses = Addresses(*(each.ctypes.data for each in memory))


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
