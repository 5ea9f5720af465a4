"""Tiles of matrix products on one thread: calls are prepared once for all tiles of a shape, then moved."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from opwire.tensor import Array

from ....execution import Stop, Stopped
from ..jit.compiler import Kernel
from ..run.pool import Find
from ..run.scratch import Take
from .calls import Calls
from .finishing import NOTHING, Finish, StridedOperand, matrix_window
from .multiplying import GATHER, MULTIPLY
from .operands import gathering, multiplying, packing, padded, widening
from .tiles import ADDEND, LEFT, RIGHT, TARGET
from .workspace import Sizes, Workspace


class Operand(NamedTuple):
    """A tensor with two batch dimensions, and its address."""

    array: Array
    address: int

    @classmethod
    def of(cls, array: Array) -> Operand:
        return cls(array, array.ctypes.data)

    def spot(self, first: int, second: int, row: int, column: int) -> int:
        """Returns the address of an element."""
        a, b, c, d = self.array.strides
        return self.address + first * a + second * b + row * c + column * d


class MatrixTile(NamedTuple):
    """A tile: first batch index, second batch indices, rows and columns."""

    first: int
    several: slice
    rows: slice
    columns: slice


class GemmRun(NamedTuple):
    """A run of a GEMM.

    Attributes:
        a, b, addend, target: its tensors.
        sizes: workspace sizes of a tile.
        widen, pack: kernels that copy the operands.
        finish: how sums are finished.
        find: returns the kernels.
    """

    a: Operand
    b: Operand
    addend: Operand | None
    target: Operand
    sizes: Sizes
    widen: Kernel
    pack: Kernel
    finish: Finish
    find: Find

    @property
    def depth(self) -> int:
        """Number of products in a sum."""
        return self.a.array.shape[3]


class _ProductShape:
    """Calls and geometry shared by tiles of the same shape, prepared for ``place``."""

    def __init__(self, product: GemmRun, place: MatrixTile, workspace: Workspace) -> None:
        self._product, self._workspace = product, workspace
        target = product.target.array[place]
        self.matrices, self.rows, self.columns = target.shape
        self._parts: dict[tuple[int, bool, bool], Calls] = {}
        is_run = self.columns == 1 or target.strides[-1] == target.itemsize
        self.rounded = None if is_run else np.empty(target.shape, target.dtype)
        self.geometry = self._geometry(place, target) if product.finish.is_able else array("q")

    def _geometry(self, place: MatrixTile, target: Array) -> array[int]:
        product = self._product
        a = StridedOperand.of(product.a.array[place.first, place.several, place.rows])
        b = StridedOperand.of(product.b.array[place.first, place.several, :, place.columns])
        addend = NOTHING if product.addend is None else StridedOperand.of(product.addend.array[place])
        rounded = StridedOperand.of(target if self.rounded is None else self.rounded)
        window = matrix_window(b, self.columns)
        return product.finish.geometry(window, self.rows, self.columns, a, b.address, rounded, addend, self._workspace)

    def part(self, place: MatrixTile, depth: slice) -> Calls:
        """Returns the calls that add some products to a tile's sums; after the last ones they round, if kernels can."""
        key = depth.stop - depth.start, depth.start > 0, depth.stop == self._product.depth
        if key not in self._parts:
            self._parts[key] = self._calls(place, depth)
        calls = self._parts[key]
        first, second = place.first, place.several.start
        calls.move(0, self._product.a.spot(first, second, place.rows.start, depth.start))
        calls.move(1, self._product.b.spot(first, second, depth.start, place.columns.start))
        return calls

    def _calls(self, place: MatrixTile, depth: slice) -> Calls:
        product, workspace, first = self._product, self._workspace, place.first
        a = product.a.array[first, place.several, place.rows, depth]
        b = product.b.array[first, place.several, depth, place.columns]
        widen, left = widening(a, workspace.left, workspace.row_squares)
        pack, right = packing(b, workspace.right, workspace.column_squares)
        pitch, lines = padded(self.columns), self.matrices * self.rows
        multiply = multiplying(left, right, workspace.sums, pitch, adds=depth.start > 0)
        calls = [(product.widen, widen), (product.pack, pack), (MULTIPLY, multiply)]
        if depth.stop == product.depth:
            if pitch != self.columns:
                calls.append((GATHER, gathering(workspace.sums, lines, (1, self.columns, pitch, 0))))
            if product.finish.is_able:
                calls += product.finish.calls(self.geometry, lines, workspace)
        return Calls(calls, product.find)

    def move(self, place: MatrixTile) -> None:
        """Points the rounding kernels at a tile."""
        product, second, row, column = self._product, place.several.start, place.rows.start, place.columns.start
        self.geometry[LEFT] = product.a.spot(place.first, second, row, 0)
        self.geometry[RIGHT] = product.b.spot(place.first, second, 0, column)
        if self.rounded is None:
            self.geometry[TARGET] = product.target.spot(place.first, second, row, column)
        if product.addend is not None:
            self.geometry[ADDEND] = product.addend.spot(place.first, second, row, column)


class MatrixTiles:
    """Computes tiles of a run one by one, in its own workspace."""

    def __init__(self, product: GemmRun, take: Take) -> None:
        self.workspace = Workspace(product.sizes, take)
        self._product = product
        self._shapes: dict[tuple[int, ...], _ProductShape] = {}

    def round(self, place: MatrixTile, stop: Stop) -> None:
        """Computes a tile of the output.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        product, shape = self._product, self._shape(place)
        shape.move(place)
        self._sum(place, shape, stop)
        product.finish.settle(shape.geometry, self.workspace, product.find, stop)
        if shape.rounded is not None:
            product.target.array[place][...] = shape.rounded

    def sum(self, place: MatrixTile, stop: Stop) -> Array:
        """Returns the sums of a tile, ``[matrices, rows, columns]``, and leaves the operands' squares in the workspace.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        shape = self._shape(place)
        self._sum(place, shape, stop)
        sizes = shape.matrices, shape.rows, shape.columns
        return self.workspace.sums[: shape.matrices * shape.rows * shape.columns].reshape(sizes)

    def _shape(self, place: MatrixTile) -> _ProductShape:
        sizes = self._product.target.array[place].shape
        if sizes not in self._shapes:
            self._shapes[sizes] = _ProductShape(self._product, place, self.workspace)
        return self._shapes[sizes]

    def _sum(self, place: MatrixTile, shape: _ProductShape, stop: Stop) -> None:
        product, workspace = self._product, self.workspace
        workspace.row_squares.fill(0)
        workspace.column_squares.fill(0)
        for begin in range(0, product.depth, product.sizes.depth):
            if stop():
                raise Stopped
            shape.part(place, slice(begin, min(begin + product.sizes.depth, product.depth))).run()
