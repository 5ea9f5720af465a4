"""The memory that a thread works in while it computes tiles of products."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from opwire.tensor import Array

from ..numbers.vectors import WIDTH
from .multiplying import PANEL_ELEMENTS
from .operands import LINE, apart
from .settling import STAGE_BYTES


def lined(count: int) -> Array:
    """Memory for so many numbers that begins with a line of the cache: no vector lies in more of them than it must."""
    memory = np.empty(count + LINE)
    first = -(memory.ctypes.data // 8) % LINE
    return memory[first : first + count]


class Sizes(NamedTuple):
    """Of what a tile needs.

    Attributes:
        matrices, rows: of the tile.
        columns: numbers of a row of its sums, those of whole panels.
        depth: products that are summed at a time.
    """

    matrices: int
    rows: int
    columns: int
    depth: int

    @property
    def left(self) -> int:
        """Numbers of the copy of the left operand, whose lines are rows or columns."""
        return self.matrices * max(self.rows * apart(self.depth), self.depth * apart(self.rows))

    @property
    def bytes(self) -> int:
        sums = self.matrices * self.rows * self.columns
        operands = self.left + self.matrices * self.columns * self.depth + WIDTH
        squares = self.matrices * (self.rows + self.columns)
        return 8 * (operands + 2 * sums + squares + self.depth + PANEL_ELEMENTS + 1) + STAGE_BYTES


class Places(NamedTuple):
    """Addresses of memory of a thread, which take NumPy long to tell."""

    sums: int
    row_squares: int
    column_squares: int
    opens: int
    stage: int


class Workspace:
    """Memory of one thread.

    Attributes:
        left, right: operands in float64, flat.
        sums: of products, flat.
        row_squares, column_squares: of the operands.
        offsets: of the rows of the right operand.
        panel: of the right operand.
        opens: how many elements are open, then which.
        stage: memory of the kernel that settles those.
        places: addresses.
    """

    def __init__(self, sizes: Sizes) -> None:
        elements = sizes.matrices * sizes.rows * sizes.columns
        self.left = lined(sizes.left)
        # Panels that are not full reach beyond the last row.
        self.right = lined(sizes.matrices * sizes.depth * sizes.columns + WIDTH)
        self.sums = lined(elements)
        self.row_squares = np.empty(sizes.matrices * sizes.rows)
        self.column_squares = np.empty(sizes.matrices * sizes.columns)
        self.offsets = np.empty(sizes.depth, np.int64)
        self.panel = lined(PANEL_ELEMENTS)
        self.opens = np.empty(1 + elements, np.int64)
        self.stage = np.empty(STAGE_BYTES // 8)
        memory = self.sums, self.row_squares, self.column_squares, self.opens, self.stage
        self.places = Places(*(each.ctypes.data for each in memory))


Space = TypeVar("Space")


class Workspaces(Generic[Space]):
    """The memory of the threads of a run: each is made when no other is free."""

    def __init__(self, make: Callable[[], Space]) -> None:
        self._make = make
        self._free: list[Space] = []

    @contextmanager
    def one(self) -> Generator[Space]:
        try:
            workspace = self._free.pop()
        except IndexError:
            workspace = self._make()
        try:
            yield workspace
        finally:
            self._free.append(workspace)
