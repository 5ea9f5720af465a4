"""Tiles of products on one thread, and runs of all tiles on the threads of a pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from opwire.tensor import Array

from ....execution import Bound, Stop, Stopped
from ..run.pool import Find, Pool
from ..run.scratch import Take, lined
from ..run.shelf import MOST_BYTES
from .boxes import Box, Boxes
from .lanes import bound_lanes
from .product import Product, Tile, tile_of
from .tile_shapes import TileShape, TileShapes
from .workspace import Workspaces


class ProductTiles:
    """Computes tiles of a run one by one.

    Args:
        product: the product.
        shapes: what its tiles need, for this run alone.
    """

    def __init__(self, product: Product, shapes: TileShapes) -> None:
        self._product, self._shapes = product, shapes

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
        own.row_squares.fill(0)
        own.column_squares.fill(0)
        for depth in product.parts:
            if stop():
                raise Stopped
            shape.add(product, tile, depth)
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
    if len(boxes) == 1 and pool.scratch is None and owner is not None:
        return partial(_run_again, owner, product, boxes, compute, pool)
    spaces = Workspaces(partial(ProductTiles.of, product), pool.scratch)
    some, lanes = partial(_run, spaces, compute, pool, product.find), None
    if product.is_repeated and pool.scratch is not None:
        lanes = bound_lanes(product, boxes, pool, pool.scratch, some)
    return partial(some, boxes) if lanes is None else lanes


class _Prepared(NamedTuple):
    """What a run leaves to the next one: its only tile, what that needs, and whether it is little enough to keep."""

    tile: Tile
    shapes: TileShapes
    is_little: bool


def _run_again(owner: object, product: Product, boxes: Boxes, compute: Compute, pool: Pool, stop: Stop) -> None:
    """Computes the only tile with what an earlier run has prepared, if it is there."""
    found: _Prepared | None = pool.shelf.take(owner)
    if found is None or found.shapes.layout != product.layout:
        found = _Prepared(tile_of(boxes[0]), TileShapes(product, lined), product.sizes.bytes <= MOST_BYTES)
    found.shapes.forget()
    with np.errstate(all="ignore"):
        compute(ProductTiles(product, found.shapes), found.tile, stop)
    if found.is_little:
        pool.shelf.put(owner, found)


def _run(
    spaces: Workspaces[ProductTiles], compute: Compute, pool: Pool, find: Find, boxes: Sequence[Box], stop: Stop
) -> None:
    def work(begin: int, end: int) -> None:
        with np.errstate(all="ignore"), spaces.one() as tiles:
            for box in boxes[begin:end]:
                compute(tiles, tile_of(box), stop)

    pool.run(work, len(boxes), 1, stop, find)
