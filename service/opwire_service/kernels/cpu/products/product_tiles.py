"""Tiles of products on one thread, and runs of all tiles on the threads of a pool."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from opwire.tensor import Array

from ....execution import Bound, Stop, Stopped
from ..run.pool import Find, Pool
from ..run.scratch import Take, lined
from ..run.shelf import MOST_BYTES
from .boxes import Box, Boxes
from .product import Product, Tile
from .tile_shapes import TileShape, TileShapes
from .workspace import Workspaces


class ProductTiles:
    """Computes tiles of a run one by one.

    Args:
        product: the product.
        shapes: what its tiles need, for this run alone.
        keeps_left: whether they are a single tile, which keeps its left operand for the next run.
    """

    def __init__(self, product: Product, shapes: TileShapes, *, keeps_left: bool = False) -> None:
        self._product, self._shapes, self._keeps_left = product, shapes, keeps_left
        self._is_left_known = False

    @classmethod
    def of(cls, product: Product, take: Take = lined) -> ProductTiles:
        """Returns those of a product, with a workspace of their own."""
        return cls(product, TileShapes(product, take))

    def compute(self, tile: Tile, stop: Stop) -> None:
        """Computes a tile of the output.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        self._sum(tile, stop).finish(self._product, tile, stop)

    def sums(self, tile: Tile, stop: Stop) -> Array:
        """Returns the sums of a tile, ``[matrices, rows, columns]``.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        shape = self._sum(tile, stop)
        return shape.sums.reshape(shape.matrices, shape.rows, -1, copy=False)

    def _sum(self, tile: Tile, stop: Stop) -> TileShape:
        product, own = self._product, self._shapes.workspace
        shape = self._shapes.of(product, tile)
        if product.finish is not None:
            shape.move(product, tile)
        if not self._is_left_known:
            own.row_squares.fill(0)
        own.column_squares.fill(0)
        for first in range(0, product.depth, product.sizes.depth):
            if stop():
                raise Stopped
            depth = slice(first, min(first + product.sizes.depth, product.depth))
            shape.add(product, tile, depth, is_left_known=self._is_left_known)
        self._is_left_known = self._keeps_left
        return shape


Compute: TypeAlias = Callable[[ProductTiles, Tile, Stop], object]
"""Computes a tile."""


def bound_tiles(
    product: Product, boxes: Boxes, pool: Pool, compute: Compute = ProductTiles.compute, owner: object = None
) -> Bound:
    """Returns a function that computes all tiles of a product, whose first dimension is the batch.

    Args:
        product: the product.
        boxes: its tiles.
        pool: the threads that share them.
        compute: computes a tile.
        owner: what all its products are alike, so that a short run leaves what it prepared to the next.
    """
    if len(boxes) > 1:
        spaces = Workspaces(partial(ProductTiles.of, product), pool.scratch)
        return partial(_run, spaces, boxes, compute, pool, product.find)
    if pool.scratch is None and owner is not None:
        return partial(_run_again, owner, product, boxes, compute, pool)
    take = lined if pool.scratch is None else pool.scratch.take(0)
    shapes = TileShapes(product, take, keeps_left=product.keeps_left)
    tiles = ProductTiles(product, shapes, keeps_left=product.keeps_left)
    return partial(_run_alone, tiles, _tile(boxes[0]), compute)


def _run_alone(tiles: ProductTiles, tile: Tile, compute: Compute, stop: Stop) -> None:
    with np.errstate(all="ignore"):
        compute(tiles, tile, stop)


class _Prepared(NamedTuple):
    """What a run leaves to the next one: its only tile, what that needs, and whether it is little enough to keep."""

    tile: Tile
    shapes: TileShapes
    is_little: bool


def _run_again(owner: object, product: Product, boxes: Boxes, compute: Compute, pool: Pool, stop: Stop) -> None:
    """Computes the only tile with what an earlier run has prepared, if it is there."""
    found: _Prepared | None = pool.shelf.take(owner)
    if found is None or found.shapes.layout != product.layout:
        found = _Prepared(_tile(boxes[0]), TileShapes(product, lined), product.sizes.bytes <= MOST_BYTES)
    found.shapes.forget()
    _run_alone(ProductTiles(product, found.shapes), found.tile, compute, stop)
    if found.is_little:
        pool.shelf.put(owner, found)


def _run(spaces: Workspaces[ProductTiles], boxes: Boxes, compute: Compute, pool: Pool, find: Find, stop: Stop) -> None:
    def work(begin: int, end: int) -> None:
        with np.errstate(all="ignore"), spaces.one() as tiles:
            for box in boxes[begin:end]:
                compute(tiles, _tile(box), stop)

    pool.run(work, len(boxes), 1, stop, find)


def _tile(box: Box) -> Tile:
    batch, *inner = box
    return batch.start, *inner
