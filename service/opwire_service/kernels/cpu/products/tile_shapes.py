"""What tiles of the same shape share: kernel calls and geometry, prepared once and then moved from tile to tile."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from opwire.tensor import Array

from ....execution import Stop
from ..jit.compiler import Kernel
from ..numbers.vectors import WIDTH
from ..run.scratch import Take
from .calls import CLEAR, Calls, KernelCall
from .epilogues import SumsTile
from .finishing import Finish
from .fixed_left import FixedLeft
from .multiplying import MULTIPLY
from .operands import multiplying, packing, padded, widening
from .packing import PACK
from .product import Product, Tile
from .single_rows import MULTIPLY_ROW, row_product
from .tile_geometry import TileGeometry, operand
from .unfolding import UNFOLD, Unfolding
from .widening import WIDEN
from .workspace import Workspace


@dataclass(slots=True)
class _Part:
    """The calls for part of the depth, the window of ``UNFOLD`` among them, and the tile they point at."""

    calls: Calls
    window: Unfolding | None
    tile: Tile | None = None


class TileShape:
    """Calls and geometry shared by tiles of the same shape, prepared for ``tile``; it keeps no tensors alive.

    Args:
        product: the product.
        tile: one of these tiles.
        workspace: the workspace in which they are computed.
        fixed: the left operand in float64, if it is kept.

    Attributes:
        matrices, rows, columns: sizes of the sums.
        geometry: geometry of the kernels that finish them.
    """

    def __init__(self, product: Product, tile: Tile, workspace: Workspace, fixed: FixedLeft | None = None) -> None:
        self._workspace, self._finish, self._fixed = workspace, product.finish, fixed
        view = product.target.array[tile]
        self.matrices, self.rows, *places = view.shape
        self.columns = prod(places)
        self._panels = padded(self.columns) // WIDTH
        flat = _flat(view) if product.is_compiled or self.matrices == 1 else None
        sizes = self.matrices, self.rows, self.columns
        self._rounded = np.empty(sizes, view.dtype) if flat is None else None
        self._window = product.columns.window(tile)
        if self._finish is not None:
            written = self._rounded if flat is None else flat
            geometry = TileGeometry.of(self._window, rows=self.rows, columns=self.columns)
            geometry.left = operand(product.left.array[tile[:3]])
            if written is not None and product.is_compiled:
                geometry.target = operand(written)
            if product.addend is not None:
                geometry.addend = operand(product.addend.array[tile])
            self.geometry = self._finish.geometry(geometry, workspace)
            if fixed is not None:
                self.geometry.row_squares = fixed.squares_of(tile)
        self._parts: dict[int, _Part] = {}
        self._tile: Tile | None = None

    @property
    def is_copied(self) -> bool:
        """Whether the results are copied to the output, which kernels cannot write to."""
        return self._rounded is not None

    @property
    def sums(self) -> Array:
        """The sums of a tile, ``[matrices * rows, columns]``."""
        lines, pitch = self.matrices * self.rows, self._panels * WIDTH
        return self._workspace.sums[: lines * pitch].reshape(lines, pitch)[:, : self.columns]

    def forget(self) -> None:
        """Forgets which tile it points at, because the tensors are others."""
        self._tile = None
        for part in self._parts.values():
            part.tile = None

    def move(self, product: Product, tile: Tile) -> None:
        """Points the kernels that finish sums at a tile."""
        if tile is self._tile:
            return
        self._tile, geometry = tile, self.geometry
        batch, *starts = tile[0], *(part.start for part in tile[1:])
        product.columns.move(geometry, tile)
        geometry.left.address, geometry.right = product.left.at(batch, *starts[:2]), product.columns.start(tile)
        if product.is_compiled and self._rounded is None:
            geometry.target.address = product.target.at(batch, *starts)
        if product.addend is not None and geometry.addend.address:
            geometry.addend.address = product.addend.at(batch, *starts)

    def add(self, product: Product, tile: Tile, depth: slice) -> None:
        """Adds some products to the sums; after the last ones, rounds them, if kernels do."""
        if depth.start not in self._parts:
            calls, window = self._calls(product, tile, depth)
            self._parts[depth.start] = _Part(Calls(calls, product.find), window)
        part = self._parts[depth.start]
        if part.tile is not tile:
            part.tile, columns = tile, product.columns
            left = product.left.at(tile[0], tile[1].start, tile[2].start, depth.start)
            part.calls.move(0, left)
            part.calls.move(1, columns.corner(tile, depth.start) if part.window is None else columns.start(tile))
            if part.window is not None:
                columns.move(part.window, tile)
        part.calls.run()

    def all_calls(self, product: Product, tile: Tile, left: int) -> list[tuple[Kernel, KernelCall]]:
        """Returns the calls that compute the tile it was prepared for, see ``Finish.calls``."""
        self.move(product, tile)
        own, calls = self._workspace, []
        for squares in (own.row_squares, own.column_squares):
            calls.append((CLEAR, KernelCall(0, squares.ctypes.data, 0, self.geometry, 0, squares.size, own)))
        for depth in product.parts:
            calls += self._calls(product, tile, depth, left)[0]
        return calls

    def _calls(
        self, product: Product, tile: Tile, depth: slice, left_over: int = 0
    ) -> tuple[list[tuple[Kernel, KernelCall]], Unfolding | None]:
        """Returns the calls for part of the depth, and the window of ``UNFOLD`` among them."""
        own, columns, window = self._workspace, product.columns, None
        calls: list[tuple[Kernel, KernelCall]] = []
        if self._fixed is None:
            left_view = product.left.array[tile[:3]][:, :, depth]
            widen, left = widening(left_view, own.left, own.row_squares)
            calls.append((WIDEN[left_view.dtype.type], widen))
        else:
            left = self._fixed.numbers[(*tile[1:3], depth)]
        dtype = columns.source.array.dtype.type
        whole = columns.matrices(tile) if dtype in PACK else None
        matrices, adds = None if whole is None else whole[:, depth], depth.start > 0
        if matrices is not None and product.sizes.is_in_place:
            pitch = self._panels * WIDTH
            call = row_product(left[:, 0], matrices, own.sums, own.column_squares, pitch, adds=adds)
            calls.append((MULTIPLY_ROW[dtype], call._replace(kept=own)))
        else:
            if matrices is not None:
                calls.append((PACK[dtype], packing(matrices, own.right, own.column_squares)))
            else:
                window = self._unfolding(depth)
                places = columns.start(tile), own.addresses.right, own.addresses.column_squares
                calls.append((UNFOLD[dtype], KernelCall(*places, window, 0, self.matrices * window.count)))
            calls.append((MULTIPLY, multiplying(left, own.right, own.sums, self._panels, adds=adds)))
        if self._finish is not None and product.is_compiled and depth.stop == product.depth:
            calls += self._finish.calls(self.geometry, self.matrices * self.rows, own, left_over)
        return calls, window

    def _unfolding(self, depth: slice) -> Unfolding:
        count, buffer = depth.stop - depth.start, self._workspace.addresses.unfolded
        return Unfolding.of(self._window, first=depth.start, count=count, buffer=buffer)

    def finish(self, product: Product, tile: Tile, stop: Stop) -> None:
        """Writes what is left to write of a tile of the output."""
        finish = self._finish
        assert finish is not None  # otherwise the caller finishes the sums
        view = product.target.array[tile]
        if finish.is_compiled:
            finish.settle(self.geometry, self._workspace, product.find, stop)
        else:
            flat = (view if self._rounded is None else self._rounded).reshape(-1, self.columns)
            self._evaluate(product, finish, tile, flat, stop)
        if self._rounded is not None:
            view[...] = self._rounded.reshape(view.shape)

    def _evaluate(self, product: Product, finish: Finish, tile: Tile, target: Array, stop: Stop) -> None:
        own, lines, find, given = self._workspace, self.matrices * self.rows, product.find, product.addend
        addend = None if given is None else given.array[tile].reshape(self.matrices, self.rows, self.columns)

        def settle(rows: Array, columns: Array) -> None:
            matrix, row = np.divmod(rows, self.rows)
            own.undecided[0] = len(rows)
            own.undecided[1 : 1 + len(rows)] = (matrix * self.columns + columns) * self.rows + row
            finish.settle(self.geometry, own, find, stop)

        squares = own.column_squares[: self.matrices * self._panels * WIDTH].reshape(self.matrices, -1)
        row_bounds = np.sqrt(own.row_squares[:lines]) * finish.error
        column_bounds = np.sqrt(squares[:, : self.columns])
        SumsTile(self.sums, row_bounds, column_bounds, addend, target, settle).evaluate(finish.epilogue, stop)


class TileShapes:
    """What one thread needs for the tiles of a product besides its tensors, prepared on first use.

    It serves all products of the same kind whose tensors have the same layout.

    Args:
        product: the first of them.
        take: returns its memory.
    """

    def __init__(self, product: Product, take: Take) -> None:
        self.layout = product.layout
        self.workspace = Workspace(product.sizes, take)
        self._shapes: dict[tuple[int, ...], TileShape] = {}

    def of(self, product: Product, tile: Tile) -> TileShape:
        """Returns what tiles of a shape share."""
        sizes = tuple([part.stop - part.start for part in tile[1:]])
        if sizes not in self._shapes:
            self._shapes[sizes] = TileShape(product, tile, self.workspace)
        return self._shapes[sizes]

    def forget(self) -> None:
        """Forgets the tiles that it points at, because the tensors are others."""
        for shape in self._shapes.values():
            shape.forget()


def _flat(view: Array) -> Array | None:
    """Returns ``[matrices, rows, columns]`` of a part of an output whose places are contiguous, or None."""
    try:
        flat = view.reshape(*view.shape[:2], -1, copy=False)
    except ValueError:
        return None
    return flat if flat.shape[2] == 1 or flat.strides[2] == flat.itemsize else None
