"""GEMM: tiles of float64 sums, each rounded where its error bound decides it and summed exactly elsewhere."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.enums import MatrixTransform
from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop
from ..jit.compiler import Kernel
from ..numbers.vectors import WIDTH
from ..run.job import Job
from ..run.pool import Find, Pool
from ..run.scratch import lined
from . import blas
from .calls import CALLS
from .certified import EXACT_BYTES, Epilogue, SumsTile, finish
from .finishing import Finish, of_type
from .matrix_tiles import GemmRun, MatrixTile, MatrixTiles, Operand
from .multiplying import DEPTH, GATHER, MULTIPLY, summation_error
from .operands import padded
from .packing import PACK
from .shares import shares
from .softmax import SOFTMAX, Softmax
from .widening import WIDEN
from .workspace import Sizes, Workspace, Workspaces

TILE = 512
"""Maximum number of rows and columns in a tile."""

HEIGHT = 256
"""Maximum number of rows in a float tile, so that the left operand of a partial product stays in the cache."""

MOST_COPIED = 1 << 18
"""Elements of an operand copied at once, unless ``DEPTH`` elements of each row or column are more."""

LEAST_TILE = 64
"""Tiles are not cut below this number of rows and columns."""

SMALL = 1 << 15
"""Elements of a batch's small matrices that one thread computes at once."""

SMALL_FLOATS = 1 << 17
"""The same for float matrices."""


def paired(batch: list[int]) -> tuple[int, int]:
    """Returns the batch sizes as exactly two dimensions."""
    first, second = [1] * (2 - len(batch)) + batch
    return first, second


class GemmTiling(NamedTuple):
    """A product cut into tiles.

    Attributes:
        rows, columns: sizes of a tile.
        down, across: tiles of a matrix in each direction.
        several: matrices in a tile, more than one only if they are small.
        groups: groups of that many matrices along the second batch dimension.
        units: total number of tiles.
    """

    rows: int
    columns: int
    down: int
    across: int
    several: int
    groups: int
    units: int

    @classmethod
    def of(
        cls,
        batch: tuple[int, int],
        rows: int,
        columns: int,
        depth: int,
        threads: int,
        tall: int = TILE,
        small: int = SMALL,
    ) -> GemmTiling:
        height, width = min(rows, tall), min(columns, TILE)
        several = min(batch[1], small // (rows * columns), 4 * small // ((rows + columns) * min(depth, blas.DEPTH)))
        if several > 1:
            groups = -(-batch[1] // several)
            return cls(rows, columns, 1, 1, several, groups, batch[0] * groups)
        least = shares(prod(batch) * rows * columns * depth, threads)
        while prod(batch) * -(-rows // height) * -(-columns // width) < least and max(height, width) > LEAST_TILE:
            if height >= width:
                height = -(-height // 2)
            else:
                width = -(-width // 2)
        down, across = -(-rows // height), -(-columns // width)
        return cls(height, width, down, across, 1, batch[1], prod(batch) * down * across)

    def place(self, unit: int) -> tuple[int, slice, slice, slice]:
        """Returns a tile's first batch index, its second batch indices, rows and columns."""
        unit, across = divmod(unit, self.across)
        unit, down = divmod(unit, self.down)
        first, group = divmod(unit, self.groups)
        return (
            first,
            slice(group * self.several, (group + 1) * self.several),
            slice(down * self.rows, (down + 1) * self.rows),
            slice(across * self.columns, (across + 1) * self.columns),
        )

    def sizes(self, depth: int) -> Sizes:
        """Returns the workspace sizes for a float tile."""
        columns = padded(self.columns)
        lines = self.several * max(self.rows, columns)
        at_once = min(depth, max(1, MOST_COPIED // lines // DEPTH) * DEPTH)
        return Sizes(self.several, self.rows, columns, at_once)


class GemmJob(Job):
    """Computes the products of all batches, by tiles."""

    def __init__(self, plan: Plan) -> None:
        attributes, target = plan.attributes, plan.outputs["OutputTensor"]
        self._transforms = attributes.TransA, attributes.TransB
        *batch, rows, columns = target.sizes
        pair = paired(batch)
        # Small matrices are grouped along the longer batch dimension.
        self._swapped = pair[0] > pair[1]
        self._batch = (pair[1], pair[0]) if self._swapped else pair
        self._depth = plan.inputs["ATensor"].sizes[-1 if attributes.TransA is MatrixTransform.NONE else -2]
        fused = attributes.FusedActivation
        self._softmax: Softmax | None = None
        if fused is not None and fused.name in SOFTMAX:
            axes = tuple(set(fused.values.get("Axes", (target.rank - 1,))))
            self._softmax, fused = Softmax(target.sizes, axes), None
        self._epilogue = Epilogue(attributes.Alpha, attributes.Beta, fused, self._softmax is not None)
        # With few columns a panel would be mostly empty, so the product is transposed.
        self._is_turned = columns < min(WIDTH, rows)
        if self._is_turned:
            rows, columns = columns, rows
        small = SMALL_FLOATS * columns // padded(columns)
        self._tiling = partial(GemmTiling.of, self._batch, rows, columns, self._depth, tall=HEIGHT, small=small)
        self._error = self._epilogue.error(summation_error(self._depth))
        dtype = plan.inputs["ATensor"].data_type.dtype
        self._widen, self._pack = of_type(WIDEN, dtype), of_type(PACK, dtype)
        self._finish = Finish(self._epilogue, self._error, self._depth, dtype)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return CALLS, self._widen, self._pack, MULTIPLY, GATHER, *self._finish.kernels

    def scratch_bytes(self, threads: int) -> int:
        tiling = self._tiling(threads)
        # The elements of a tile in the output type, and the memory of exact sums and activations.
        tile = 4 * tiling.several * tiling.rows * tiling.columns + EXACT_BYTES
        softmax = 0 if self._softmax is None else self._softmax.scratch_bytes(threads)
        return min(threads, tiling.units) * (tiling.sizes(self._depth).bytes + tile) + softmax

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        self.bind(inputs, outputs, find, pool)(stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        target = outputs["OutputTensor"]
        a, b = (
            self._batched(inputs[name] if transform is MatrixTransform.NONE else inputs[name].swapaxes(-1, -2))
            for name, transform in zip(("ATensor", "BTensor"), self._transforms, strict=True)
        )
        if self._is_turned:
            a, b = b, a
        addend = Operand.of(self._batched(inputs["CTensor"])) if "CTensor" in inputs else None
        tiling = self._tiling(pool.threads)
        sizes, output = tiling.sizes(self._depth), Operand.of(self._batched(target))
        product = GemmRun(
            Operand.of(a), Operand.of(b), addend, output, sizes, self._widen, self._pack, self._finish, find
        )
        if tiling.units > 1 or self._softmax is not None:
            return partial(
                self._run, product, Workspaces(partial(MatrixTiles, product), pool.scratch), tiling, target, pool
            )
        take = lined if pool.scratch is None else pool.scratch.take(0)
        return partial(self._run_alone, product, MatrixTiles(product, take), MatrixTile(*tiling.place(0)))

    def _run(
        self,
        product: GemmRun,
        spaces: Workspaces[MatrixTiles],
        tiling: GemmTiling,
        target: Array,
        pool: Pool,
        stop: Stop,
    ) -> None:
        softmax = self._softmax
        if softmax is None:
            pool.run(partial(self._tiles, product, spaces, tiling, stop), tiling.units, 1, stop, product.find)
            return
        sums = softmax.sums()
        product = product._replace(target=Operand.of(self._batched(sums)))
        spaces = Workspaces(partial(MatrixTiles, product), pool.scratch)
        pool.run(partial(self._tiles, product, spaces, tiling, stop), tiling.units, 1, stop, product.find)
        softmax.finish(sums, target, pool, stop)

    def _run_alone(self, product: GemmRun, tiles: MatrixTiles, place: MatrixTile, stop: Stop) -> None:
        with np.errstate(all="ignore"):
            self._compute(product, tiles, place, stop)

    def _batched(self, array: Array) -> Array:
        array = array[(None,) * (4 - array.ndim)]
        array = array.swapaxes(2, 3) if self._is_turned else array
        return array.swapaxes(0, 1) if self._swapped else array

    def _tiles(
        self,
        product: GemmRun,
        spaces: Workspaces[MatrixTiles],
        tiling: GemmTiling,
        stop: Stop,
        begin: int,
        end: int,
    ) -> None:
        with np.errstate(all="ignore"), spaces.one() as tiles:
            for unit in range(begin, end):
                self._compute(product, tiles, MatrixTile(*tiling.place(unit)), stop)

    def _compute(self, product: GemmRun, tiles: MatrixTiles, place: MatrixTile, stop: Stop) -> None:
        if self._finish.is_able:
            tiles.round(place, stop)
        else:
            self._evaluate(product, place, tiles.sum(place, stop), tiles.workspace, stop)

    def _evaluate(self, product: GemmRun, place: MatrixTile, sums: Array, workspace: Workspace, stop: Stop) -> None:
        """Finishes sums whose epilogue the kernels do not support."""
        count, height, width = sums.shape
        first, several, rows, columns = place

        def terms(places: Array, across: Array, part: slice) -> tuple[Array, Array]:
            matrices, down = several.start + places // height, rows.start + places % height
            left = product.a.array[first][matrices, down, part]
            right = product.b.array[first][matrices, part, columns.start + across]
            return left.astype(np.float64), right.astype(np.float64)

        target = product.target.array[place]
        addend = None if product.addend is None else product.addend.array[place].reshape(-1, width)
        rounded = target[0] if count == 1 else np.empty((count * height, width), target.dtype)
        row_bounds = np.sqrt(workspace.row_squares[: count * height]) * self._error
        column_bounds = np.sqrt(workspace.column_squares[: count * width]).reshape(count, width)
        tile = SumsTile(sums.reshape(-1, width), row_bounds, column_bounds, addend, rounded, terms, self._depth)
        finish(tile, self._epilogue, stop)
        if count > 1:
            target[...] = rounded.reshape(sums.shape)
