"""Tiles of products on one thread: matrices times matrices, or filters times the columns of a convolution.

Calls and geometry are prepared once for all tiles of a shape, then moved from tile to tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from operator import mul
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from opwire.tensor import Array

from ....execution import Bound, Stop, Stopped
from ...convolutions import PhaseDimension
from ..jit.compiler import Kernel
from ..numbers.vectors import WIDTH
from ..run.pool import Find, Pool
from ..run.scratch import Take, lined
from .boxes import Box, Boxes
from .calls import CALLS, Calls, KernelCall
from .epilogues import SumsTile
from .finishing import Finish
from .multiplying import MULTIPLY
from .operands import multiplying, packing, padded, widening
from .packing import PACK
from .single_rows import MULTIPLY_ROW, row_product
from .tile_geometry import TileGeometry, operand
from .unfolding import UNFOLD, Unfolding
from .widening import WIDEN
from .window import SPATIAL, Window
from .workspace import Sizes, Workspace, Workspaces

Tile: TypeAlias = tuple[Any, ...]
"""First batch index, then slices: matrices, rows, images, and positions; those of a matrix are its columns."""


class Located(NamedTuple):
    """An array with its address, because NumPy is slow to return it."""

    array: Array
    address: int
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: Array) -> Located:
        return cls(array, array.ctypes.data, array.strides)

    def at(self, *place: int) -> int:
        """Returns the address of an element; omitted indices are 0."""
        return self.address + sum(map(mul, place, self.strides))


class Columns(NamedTuple):
    """The right operand: a matrix, or the columns of a convolution's input, as a window sees them.

    Attributes:
        source: ``[batch, matrices, channels, images, *spatial]``; a matrix has a channel per row and a single image.
        lines: its spatial dimensions; those of a matrix are its columns.
        zero_point: integer that stands for 0.
    """

    source: Located
    lines: tuple[PhaseDimension, ...]
    zero_point: int = 0

    @classmethod
    def of_matrices(cls, matrices: Array) -> Columns:
        """Returns the columns of ``[batch, matrices, rows, columns]``."""
        count = matrices.shape[3]
        line = PhaseDimension(count, 0, 1, count, 0, 1, 1, 0, 1, 0)
        return cls(Located.of(matrices[:, :, :, None]), (line,))

    def window(self, tile: Tile) -> Window:
        """Returns the window through which kernels read the columns of a tile."""
        source = self.source.array
        _, group, channel, image, *steps = (step // source.itemsize for step in source.strides)
        axes = [
            (step, line.taps, line.size, line.base + at.start * line.step, line.step, line.turn, at.stop - at.start)
            for step, line, at in zip(steps, self.lines, tile[4:], strict=True)
        ]
        axes = [(0, 1, 1, 0, 1, 0, 1)] * (SPATIAL - len(axes)) + axes
        images = tile[3].stop - tile[3].start
        return Window(group=group, channel=channel, image=image, images=images, zero_point=self.zero_point, axes=axes)

    def move(self, window: Window, tile: Tile) -> None:
        """Moves a window to another tile of the same shape."""
        for i, (line, place) in enumerate(zip(self.lines, tile[4:], strict=True)):
            window.axes[SPATIAL - len(self.lines) + i].base = line.base + place.start * line.step

    def start(self, tile: Tile) -> int:
        """Returns the address of the first image of a tile."""
        return self.source.at(tile[0], tile[1].start, 0, tile[3].start)

    def corner(self, tile: Tile, channel: int) -> int:
        """Returns the address of the first column of a matrix, in the row of a channel."""
        starts = (line.base + at.start * line.step for line, at in zip(self.lines, tile[4:], strict=True))
        return self.source.at(tile[0], tile[1].start, channel, tile[3].start, *starts)

    def matrices(self, tile: Tile) -> Array | None:
        """Returns the columns of a tile as a view ``[matrices, rows, columns]``, or None if there is no such view."""
        inner = []
        for line, at in zip(self.lines, tile[4:], strict=True):
            if line.taps > 1 or line.base < 0 or line.base + (line.length - 1) * line.step >= line.size:
                return None
            begin, last = (line.base + j * line.step for j in (at.start, at.stop - 1))
            inner.append(slice(begin, last + 1, line.step))
        view: Array = self.source.array[(tile[0], tile[1], slice(None), tile[3], *inner)]
        try:
            return view.reshape(*view.shape[:2], -1, copy=False)
        except ValueError:
            return None


class Product(NamedTuple):
    """The products of a run.

    Attributes:
        left: ``[batch, matrices, rows, depth]``.
        columns: the right operand.
        addend: what is added to the sums, broadcast to the shape of the target, or None.
        target: ``[batch, matrices, rows, images, *positions]``.
        sizes: workspace sizes of a tile.
        finish: how sums are finished, or None where the caller of ``sums`` does that.
        find: returns the kernels.
    """

    left: Located
    columns: Columns
    addend: Located | None
    target: Located
    sizes: Sizes
    finish: Finish | None
    find: Find

    @property
    def depth(self) -> int:
        """Number of products in a sum."""
        return self.left.array.shape[3]

    @property
    def is_compiled(self) -> bool:
        """Whether kernels finish the sums."""
        return self.finish is not None and self.finish.is_compiled


def kernels_of(dtype: np.dtype[Any], left: np.dtype[Any]) -> tuple[Kernel, ...]:
    """Returns the kernels that sum products, for types of the columns and of the left operand."""
    matrices = (PACK[dtype.type], MULTIPLY_ROW[dtype.type]) if dtype.type in PACK else ()
    return CALLS, WIDEN[left.type], *matrices, UNFOLD[dtype.type], MULTIPLY


@dataclass(slots=True)
class _Part:
    """The calls for part of the depth, the window of ``UNFOLD`` among them, and the tile they point at."""

    calls: Calls
    window: Unfolding | None
    tile: Tile | None = None


class _TileShape:
    """Calls and geometry shared by tiles of the same shape, prepared for ``tile``.

    Attributes:
        matrices, rows, columns: sizes of the sums.
        geometry: geometry of the kernels that finish them.
    """

    def __init__(self, product: Product, tile: Tile, workspace: Workspace) -> None:
        self._product, self._workspace, self._finish = product, workspace, product.finish
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
        self._parts: dict[int, _Part] = {}
        self._tile: Tile | None = None

    @property
    def sums(self) -> Array:
        """The sums of a tile, ``[matrices * rows, columns]``."""
        lines, pitch = self.matrices * self.rows, self._panels * WIDTH
        return self._workspace.sums[: lines * pitch].reshape(lines, pitch)[:, : self.columns]

    def move(self, tile: Tile) -> None:
        """Points the kernels that finish sums at a tile."""
        if tile is self._tile:
            return
        self._tile, product, geometry = tile, self._product, self.geometry
        batch, *starts = tile[0], *(part.start for part in tile[1:])
        product.columns.move(geometry, tile)
        geometry.left.address, geometry.right = product.left.at(batch, *starts[:2]), product.columns.start(tile)
        if product.is_compiled and self._rounded is None:
            geometry.target.address = product.target.at(batch, *starts)
        if product.addend is not None and geometry.addend.address:
            geometry.addend.address = product.addend.at(batch, *starts)

    def add(self, tile: Tile, depth: slice) -> None:
        """Adds some products to the sums; after the last ones, rounds them, if kernels do."""
        if depth.start not in self._parts:
            self._parts[depth.start] = self._part(tile, depth)
        part = self._parts[depth.start]
        if part.tile is not tile:
            part.tile, columns = tile, self._product.columns
            left = self._product.left.at(tile[0], tile[1].start, tile[2].start, depth.start)
            part.calls.move(0, left)
            part.calls.move(1, columns.corner(tile, depth.start) if part.window is None else columns.start(tile))
            if part.window is not None:
                columns.move(part.window, tile)
        part.calls.run()

    def _part(self, tile: Tile, depth: slice) -> _Part:
        product, own = self._product, self._workspace
        left_view, dtype = product.left.array[tile[:3]][:, :, depth], product.columns.source.array.dtype.type
        widen, left = widening(left_view, own.left, own.row_squares)
        whole, window = product.columns.matrices(tile) if dtype in PACK else None, None
        matrices, adds = None if whole is None else whole[:, depth], depth.start > 0
        calls: list[tuple[Kernel, KernelCall]] = [(WIDEN[left_view.dtype.type], widen)]
        if matrices is not None and product.sizes.is_in_place:
            pitch = self._panels * WIDTH
            call = row_product(left[:, 0], matrices, own.sums, own.column_squares, pitch, adds=adds)
            calls.append((MULTIPLY_ROW[dtype], call))
        else:
            if matrices is not None:
                calls.append((PACK[dtype], packing(matrices, own.right, own.column_squares)))
            else:
                window = self._unfolding(depth)
                places = 0, own.addresses.right, own.addresses.column_squares
                calls.append((UNFOLD[dtype], KernelCall(*places, window, 0, self.matrices * window.count)))
            calls.append((MULTIPLY, multiplying(left, own.right, own.sums, self._panels, adds=adds)))
        if self._finish is not None and product.is_compiled and depth.stop == product.depth:
            calls += self._finish.calls(self.geometry, self.matrices * self.rows, own)
        return _Part(Calls(calls, product.find), window)

    def _unfolding(self, depth: slice) -> Unfolding:
        count, buffer = depth.stop - depth.start, self._workspace.addresses.unfolded
        return Unfolding.of(self._window, first=depth.start, count=count, buffer=buffer)

    def finish(self, tile: Tile, stop: Stop) -> None:
        """Writes what is left to write of a tile of the output."""
        product, finish = self._product, self._finish
        assert finish is not None  # otherwise the caller finishes the sums
        view = product.target.array[tile]
        if finish.is_compiled:
            finish.settle(self.geometry, self._workspace, product.find, stop)
        else:
            flat = (view if self._rounded is None else self._rounded).reshape(-1, self.columns)
            self._evaluate(finish, tile, flat, stop)
        if self._rounded is not None:
            view[...] = self._rounded.reshape(view.shape)

    def _evaluate(self, finish: Finish, tile: Tile, target: Array, stop: Stop) -> None:
        own, lines, find = self._workspace, self.matrices * self.rows, self._product.find
        given = self._product.addend
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


class ProductTiles:
    """Computes tiles of a run one by one, in its own workspace."""

    def __init__(self, product: Product, take: Take = lined) -> None:
        self._product, self._workspace = product, Workspace(product.sizes, take)
        self._shapes: dict[tuple[int, ...], _TileShape] = {}

    def compute(self, tile: Tile, stop: Stop) -> None:
        """Computes a tile of the output.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        self._sum(tile, stop).finish(tile, stop)

    def sums(self, tile: Tile, stop: Stop) -> Array:
        """Returns the sums of a tile, ``[matrices, rows, columns]``.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        shape = self._sum(tile, stop)
        return shape.sums.reshape(shape.matrices, shape.rows, -1, copy=False)

    def _sum(self, tile: Tile, stop: Stop) -> _TileShape:
        product, own = self._product, self._workspace
        sizes = tuple(part.stop - part.start for part in tile[1:])
        if sizes not in self._shapes:
            self._shapes[sizes] = _TileShape(product, tile, own)
        shape = self._shapes[sizes]
        if product.finish is not None:
            shape.move(tile)
        own.row_squares.fill(0)
        own.column_squares.fill(0)
        for first in range(0, product.depth, product.sizes.depth):
            if stop():
                raise Stopped
            shape.add(tile, slice(first, min(first + product.sizes.depth, product.depth)))
        return shape


Compute: TypeAlias = Callable[[ProductTiles, Tile, Stop], object]
"""Computes a tile."""


def bound_tiles(product: Product, boxes: Boxes, pool: Pool, compute: Compute = ProductTiles.compute) -> Bound:
    """Returns a function that computes all tiles of a product, whose first dimension is the batch."""
    if len(boxes) == 1:
        take = lined if pool.scratch is None else pool.scratch.take(0)
        return partial(_run_alone, ProductTiles(product, take), _tile(boxes[0]), compute)
    return partial(_run, Workspaces(partial(ProductTiles, product), pool.scratch), boxes, compute, pool, product.find)


def _run_alone(tiles: ProductTiles, tile: Tile, compute: Compute, stop: Stop) -> None:
    with np.errstate(all="ignore"):
        compute(tiles, tile, stop)


def _run(spaces: Workspaces[ProductTiles], boxes: Boxes, compute: Compute, pool: Pool, find: Find, stop: Stop) -> None:
    def work(begin: int, end: int) -> None:
        with np.errstate(all="ignore"), spaces.one() as tiles:
            for box in boxes[begin:end]:
                compute(tiles, _tile(box), stop)

    pool.run(work, len(boxes), 1, stop, find)


def _tile(box: Box) -> Tile:
    batch, *inner = box
    return batch.start, *inner


def _flat(view: Array) -> Array | None:
    """Returns ``[matrices, rows, columns]`` of a part of an output whose places are contiguous, or None."""
    try:
        flat = view.reshape(*view.shape[:2], -1, copy=False)
    except ValueError:
        return None
    return flat if flat.shape[2] == 1 or flat.strides[2] == flat.itemsize else None
