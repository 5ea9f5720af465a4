"""GEMM: tiles of float64 sums, rounded where an error bound decides the result, and summed exactly elsewhere."""

from __future__ import annotations

from functools import cache, partial
from math import prod
from typing import NamedTuple

from opwire.check import Plan
from opwire.enums import MatrixTransform
from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop
from ..jit.compiler import Kernel
from ..numbers.vectors import WIDTH
from ..run.job import Job
from ..run.pool import Find, Pool
from . import blas
from .boxes import Boxes, least_tiles
from .epilogues import STRIP_BYTES, Epilogue
from .finishing import Finish
from .multiplying import DEPTH, summation_error
from .operands import padded
from .product import Columns, Located, Product, kernels_of
from .product_tiles import bound_tiles
from .softmax import SOFTMAX, Softmax
from .workspace import Sizes

TILE = 512
"""Maximum number of rows and columns in a tile."""

HEIGHT = 256
"""Maximum number of rows in a float tile, so that the left operand of a partial product stays in the cache."""

MOST_COPIED = 1 << 18
"""Elements of an operand copied at once, unless ``DEPTH`` elements of each row or column are more."""

WIDE = 1 << 12
"""Maximum number of columns in a tile of a single row."""

MOST_READ = 1 << 22
"""Elements of an operand read in place at once."""

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


def is_in_place(left: Array, right: Array) -> bool:
    """Whether the right operand need not be copied: a single row is multiplied by contiguous columns."""
    return left.shape[-2] == 1 and right.strides[-2] == right.itemsize


class GemmTiling(NamedTuple):
    """A product cut into tiles.

    Attributes:
        rows, columns: sizes of a tile.
        several: matrices in a tile along the second batch dimension, more than one only if they are small.
        boxes: the tiles: boxes of both batch dimensions, rows, images of which there is one, and columns.
        is_in_place: whether the right operand is not copied.
    """

    rows: int
    columns: int
    several: int
    boxes: Boxes
    is_in_place: bool = False

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
        *,
        is_in_place: bool = False,
        shared: bool = False,
    ) -> GemmTiling:
        extents, wide = (*batch, rows, 1, columns), WIDE if is_in_place else TILE
        height, width = min(rows, tall), min(columns, wide)
        several = min(batch[1], small // (rows * columns), 4 * small // ((rows + columns) * min(depth, blas.DEPTH)))
        if several > 1:
            return cls(rows, columns, several, Boxes(extents, (1, several, rows, 1, columns)), is_in_place)
        least = least_tiles(prod(batch) * rows * columns * depth, threads, shared=shared)
        while prod(batch) * -(-rows // height) * -(-columns // width) < least and max(height, width) > LEAST_TILE:
            if height >= width:
                height = -(-height // 2)
            else:
                width = -(-width // 2)
        return cls(height, width, 1, Boxes(extents, (1, 1, height, 1, width)), is_in_place)

    def sizes(self, depth: int) -> Sizes:
        """Returns the workspace sizes for a float tile."""
        columns = padded(self.columns)
        lines, most = self.several * max(self.rows, columns), MOST_READ if self.is_in_place else MOST_COPIED
        at_once = min(depth, max(1, most // lines // DEPTH) * DEPTH)
        return Sizes(self.several, self.rows, columns, at_once, self.is_in_place)

    def bytes(self, depth: int) -> int:
        """Returns the memory of a float tile, in bytes: also its elements in the output type, and its epilogue's."""
        return self.sizes(depth).bytes + 4 * self.several * self.rows * self.columns + STRIP_BYTES


class GemmJob(Job):
    """Computes the products of all batches, by tiles."""

    def __init__(self, plan: Plan) -> None:
        attributes, target = plan.attributes, plan.outputs["OutputTensor"]
        self._transforms = attributes.TransA, attributes.TransB
        *batch, rows, columns = target.sizes
        pair = paired(batch)
        # Small matrices are grouped along the longer batch dimension.
        self._swapped = pair[0] > pair[1]
        batches = (pair[1], pair[0]) if self._swapped else pair
        self._depth = plan.inputs["ATensor"].sizes[-1 if attributes.TransA is MatrixTransform.NONE else -2]
        fused = attributes.FusedActivation
        self._softmax: Softmax | None = None
        if fused is not None and fused.name in SOFTMAX:
            axes = tuple(set(fused.values.get("Axes", (target.rank - 1,))))
            self._softmax, fused = Softmax(target.sizes, axes), None
        epilogue = Epilogue(attributes.Alpha, attributes.Beta, fused, self._softmax is not None)
        # With few columns a panel would be mostly empty, so the product is transposed.
        self._is_turned = columns < min(WIDTH, rows)
        if self._is_turned:
            rows, columns = columns, rows
        small = SMALL_FLOATS * columns // padded(columns)
        tiling = partial(GemmTiling.of, batches, rows, columns, self._depth, tall=HEIGHT, small=small)
        self._tiling = cache(tiling)
        self._dtype = plan.inputs["ATensor"].data_type.dtype
        self._finish = Finish(epilogue, summation_error(self._depth), self._depth, self._dtype)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return *kernels_of(self._dtype, self._dtype), *self._finish.kernels

    def scratch_bytes(self, threads: int) -> int:
        tiling = self._tiling(threads)  # an operand that is read in place takes less
        softmax = 0 if self._softmax is None else self._softmax.scratch_bytes(threads)
        return min(threads, len(tiling.boxes)) * tiling.bytes(self._depth) + softmax

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        a, b = (
            self._batched(inputs[name] if transform is MatrixTransform.NONE else inputs[name].swapaxes(-1, -2))
            for name, transform in zip(("ATensor", "BTensor"), self._transforms, strict=True)
        )
        if self._is_turned:
            a, b = b, a
        addend, is_repeated = inputs.get("CTensor"), pool.scratch is not None
        shared = is_repeated and self._finish.is_compiled
        tiling = self._tiling(pool.threads, is_in_place=is_in_place(a, b), shared=shared)
        product = Product(
            Located.of(a), Columns.of_matrices(b), None if addend is None else self._output(addend),
            self._output(outputs["OutputTensor"]), tiling.sizes(self._depth), self._finish, find,
            is_repeated=is_repeated,
        )  # fmt: skip
        if self._softmax is None:
            return bound_tiles(product, tiling.boxes, pool, owner=self)
        return partial(self._run_softmax, self._softmax, product, tiling.boxes, outputs["OutputTensor"], pool)

    def _run_softmax(
        self, softmax: Softmax, product: Product, boxes: Boxes, target: Array, pool: Pool, stop: Stop
    ) -> None:
        sums = softmax.sums()
        bound_tiles(product._replace(target=self._output(sums)), boxes, pool, owner=self)(stop)
        softmax.finish(sums, target, pool, stop)

    def _batched(self, array: Array) -> Array:
        array = array[(None,) * (4 - array.ndim)]
        array = array.swapaxes(2, 3) if self._is_turned else array
        return array.swapaxes(0, 1) if self._swapped else array

    def _output(self, array: Array) -> Located:
        """Returns ``[batch, matrices, rows, images, columns]`` of the output or the addend; there is one image."""
        return Located.of(self._batched(array)[:, :, :, None])
