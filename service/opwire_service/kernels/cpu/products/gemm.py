"""GEMM: tiles of float64 sums, each rounded where its bound decides the rounding and summed exactly elsewhere."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.enums import MatrixTransform
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ..jit.compiler import Kernel
from ..run.job import Job
from ..run.pool import Find, Pool
from . import blas
from .certified import EXACT_BYTES, Expression, Tile, finish
from .rounding import ROWS, Round, rounding
from .softmax import SOFTMAX, Softmax

MOST_CONVERTED = 64 << 20
"""Bytes of operands in float64 that all threads share; of larger ones each thread converts what a tile needs."""

TILE = 512
"""Rows and columns of a tile, at most."""

LEAST_TILE = 64

UNITS = 4
"""Tiles that a product is cut into, if they do not get too small, for threads to share."""

SMALL = 1 << 15
"""Elements of small matrices of a batch that are computed at a time by one thread."""


def paired(batch: list[int]) -> tuple[int, int]:
    """The sizes of the batch as two."""
    first, second = [1] * (2 - len(batch)) + batch
    return first, second


class Cut(NamedTuple):
    """A product cut into tiles.

    Attributes:
        rows, columns: of a tile.
        down, across: tiles of a matrix.
        several: matrices of a tile, more than one only if they are small.
        groups: groups of so many matrices along the second dimension of the batch.
        units: tiles in all.
    """

    rows: int
    columns: int
    down: int
    across: int
    several: int
    groups: int
    units: int

    @classmethod
    def of(cls, batch: tuple[int, int], rows: int, columns: int, depth: int) -> Cut:
        height, width = min(rows, TILE), min(columns, TILE)
        several = min(batch[1], SMALL // (rows * columns), 4 * SMALL // ((rows + columns) * min(depth, blas.DEPTH)))
        if several > 1:
            groups = -(-batch[1] // several)
            return cls(rows, columns, 1, 1, several, groups, batch[0] * groups)
        while prod(batch) * -(-rows // height) * -(-columns // width) < UNITS and max(height, width) > LEAST_TILE:
            if height >= width:
                height = -(-height // 2)
            else:
                width = -(-width // 2)
        down, across = -(-rows // height), -(-columns // width)
        return cls(height, width, down, across, 1, batch[1], prod(batch) * down * across)

    def place(self, unit: int) -> tuple[int, slice, slice, slice]:
        """The first index of the batch, the second ones, rows and columns."""
        unit, across = divmod(unit, self.across)
        unit, down = divmod(unit, self.down)
        first, group = divmod(unit, self.groups)
        return (
            first,
            slice(group * self.several, (group + 1) * self.several),
            slice(down * self.rows, (down + 1) * self.rows),
            slice(across * self.columns, (across + 1) * self.columns),
        )


class Operand(NamedTuple):
    """The matrices of one side, ``[batch, batch, rows, columns]``.

    Attributes:
        view: as they are given, transposed where the plan says so.
        doubles: the same in float64, or None where tiles convert them.
        norms: of the rows of the left side, the columns of the right one; None where tiles compute them.
    """

    view: Array
    doubles: Array | None = None
    norms: Array | None = None

    def part(self, place: tuple[Any, ...]) -> Array:
        """Some rows and columns in float64."""
        return blas.doubles(self.view[place]) if self.doubles is None else self.doubles[place]


class Product(NamedTuple):
    """The tensors of a run, all with two dimensions of batch."""

    a: Operand
    b: Operand
    addend: Array | None
    target: Array


class GemmJob(Job):
    """The products of all batches, by tiles."""

    def __init__(self, plan: Plan) -> None:
        attributes, target = plan.attributes, plan.outputs["OutputTensor"]
        self._transforms = attributes.TransA, attributes.TransB
        *batch, rows, columns = target.sizes
        pair = paired(batch)
        # Small matrices are taken together along the longer dimension of the batch.
        self._swapped = pair[0] > pair[1]
        self._batch = (pair[1], pair[0]) if self._swapped else pair
        self._depth = plan.inputs["ATensor"].sizes[-1 if attributes.TransA is MatrixTransform.NONE else -2]
        fused = attributes.FusedActivation
        self._softmax: Softmax | None = None
        if fused is not None and fused.name in SOFTMAX:
            self._softmax, fused = Softmax(target.sizes, fused.values.get("Axes", (target.rank - 1,))), None
        self._expression = Expression(attributes.Alpha, attributes.Beta, fused, self._softmax is not None)
        self._operands = 8 * prod(batch) * (rows + columns) * (self._depth + 1)
        self._whole = self._operands <= MOST_CONVERTED
        self._cut = Cut.of(self._batch, rows, columns, self._depth)
        self._error = self._expression.error(blas.summation_error(self._depth))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (ROWS,)

    def scratch_bytes(self, threads: int) -> int:
        cut = self._cut
        elements = cut.several * cut.rows * cut.columns
        tile = 8 * (4 * elements + 2 * cut.several * (cut.rows + cut.columns)) + EXACT_BYTES
        if not self._whole:
            tile += 16 * (cut.rows + cut.columns) * min(self._depth, blas.DEPTH)
        softmax = 0 if self._softmax is None else self._softmax.scratch_bytes(threads)
        return min(threads, cut.units) * tile + (self._operands if self._whole else 0) + softmax

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        blas.single_threaded()
        target = outputs["OutputTensor"]
        sums = target if self._softmax is None else self._softmax.sums()
        a, b = (
            self._batched(inputs[name] if transform is MatrixTransform.NONE else inputs[name].swapaxes(-1, -2))
            for name, transform in zip(("ATensor", "BTensor"), self._transforms, strict=True)
        )
        addend = self._batched(inputs["CTensor"]) if "CTensor" in inputs else None
        with np.errstate(all="ignore"):
            product = Product(self._left(a), self._right(b), addend, self._batched(sums))
        work = partial(self._tiles, product, rounding(find(ROWS).call), stop)
        if self._cut.units == 1:
            work(0, 1)
        else:
            pool.run(work, self._cut.units, 1, stop)
        if self._softmax is not None:
            self._softmax.finish(sums, target, pool, stop)

    def _batched(self, array: Array) -> Array:
        array = array[(None,) * (4 - array.ndim)]
        return array.swapaxes(0, 1) if self._swapped else array

    def _left(self, view: Array) -> Operand:
        if not self._whole:
            return Operand(view)
        doubles = blas.doubles(view)
        return Operand(view, doubles, blas.row_norms(doubles))

    def _right(self, view: Array) -> Operand:
        if not self._whole:
            return Operand(view)
        doubles = blas.doubles(view)
        return Operand(view, doubles, blas.column_norms(doubles))

    def _tiles(self, product: Product, round_rows: Round, stop: Stop, begin: int, end: int) -> None:
        with np.errstate(all="ignore"):
            for unit in range(begin, end):
                self._tile(product, *self._cut.place(unit), round_rows, stop)

    def _tile(
        self, product: Product, first: int, several: slice, rows: slice, columns: slice, round_rows: Round, stop: Stop
    ) -> None:
        sums, row_norms, column_norms = self._sums(product, first, several, rows, columns, stop)
        count, height, width = sums.shape
        row_bounds = row_norms.reshape(-1) * self._error

        def terms(places: Array, across: Array, part: slice) -> tuple[Array, Array]:
            if count == 1:
                left = product.a.view[first, several.start][rows.start + places, part]
                right = product.b.view[first, several.start][part, columns.start + across].T
                return left.astype(np.float64), right.astype(np.float64)
            matrices, down = several.start + places // height, rows.start + places % height
            left = product.a.view[first][matrices, down, part]
            right = product.b.view[first][matrices, part, columns.start + across]
            return left.astype(np.float64), right.astype(np.float64)

        target = product.target[first, several, rows, columns]
        addend = None if product.addend is None else product.addend[first, several, rows, columns]
        if addend is not None:
            addend = addend[0] if count == 1 else addend.reshape(-1, width)
        rounded = target[0] if count == 1 else np.empty((count * height, width), target.dtype)
        flat = sums.reshape(-1, width)
        tile = Tile(flat, row_bounds, column_norms, addend, rounded, terms, self._depth)
        finish(tile, self._expression, round_rows, stop)
        if count > 1:
            target[...] = rounded.reshape(sums.shape)

    def _sums(
        self, product: Product, first: int, several: slice, rows: slice, columns: slice, stop: Stop
    ) -> tuple[Array, Array, Array]:
        """The sums of a tile, the norms of its rows and those of its columns."""
        total: Array | None = None
        squares = [np.zeros(()), np.zeros(())]
        for begin in range(0, self._depth, blas.DEPTH):
            if stop():
                raise Stopped
            part = slice(begin, begin + blas.DEPTH)
            left = product.a.part((first, several, rows, part))
            right = product.b.part((first, several, part, columns))
            if not self._whole:
                squares[0] = squares[0] + blas.row_norms(left) ** 2
                squares[1] = squares[1] + blas.column_norms(right) ** 2
            found = np.matmul(left, right)
            total = found if total is None else np.add(total, found, out=total)
        assert total is not None
        if product.a.norms is None or product.b.norms is None:
            return total, np.sqrt(squares[0]), np.sqrt(squares[1])
        return total, product.a.norms[first, several, rows], product.b.norms[first, several, columns]
