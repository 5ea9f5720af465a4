"""CONVOLUTION_INTEGER and QUANTIZED_LINEAR_CONVOLUTION: filters times unfolded columns, exact in float64."""

from __future__ import annotations

from functools import partial

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop
from ...convolutions import ConvolutionGeometry
from ..jit.compiler import Kernel
from ..run.job import Job
from ..run.pool import Find, Pool
from .phases import PhaseTiling, copied_filters, grouped, visits_of_tiles
from .product import Columns, Located, Product, Tile, kernels_of
from .product_tiles import ProductTiles, bound_tiles
from .requantizing import FINISH_BYTES, Finishing, Quantized, WrappedFinish, strips


class IntegerConvolutionJob(Job):
    """Computes all tiles of groups, filters, images and positions."""

    def __init__(self, plan: Plan) -> None:
        self._dtype = plan.outputs["OutputTensor"].data_type.dtype
        self._source = plan.inputs["InputTensor"].data_type.dtype
        self._filter_elements = plan.inputs["FilterTensor"].element_count
        self._geometry = geometry = ConvolutionGeometry(plan)
        lines = geometry.phase(0)
        assert lines is not None  # a convolution that is not transposed has one phase
        self._lines = lines = tuple(line.met for line in lines)
        self._tiling = partial(PhaseTiling.of, geometry, lines)
        self._visits = visits_of_tiles(plan, geometry.filters, len(self._tiling(1).boxes(geometry)))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return kernels_of(self._source, np.dtype(np.float32))

    def scratch_bytes(self, threads: int) -> int:
        tiling = self._tiling(threads)
        tiles = min(threads, len(tiling.boxes(self._geometry)))
        return 4 * self._filter_elements + tiles * (tiling.sizes.bytes + FINISH_BYTES)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        geometry, tiling, zero = self._geometry, self._tiling(pool.threads), inputs.get("InputZeroPointTensor")
        source = Located.of(grouped(inputs["InputTensor"], geometry.groups)[None])
        columns = Columns(source, self._lines, 0 if zero is None else int(zero.reshape(-1)[0]))
        target = Located.of(grouped(outputs["OutputTensor"], geometry.groups)[None])
        filters = Located.of(self._filters(inputs, stop)[None])
        product = Product(filters, columns, None, target, tiling.sizes, None, find)
        bound_tiles(product, tiling.boxes(geometry), pool, partial(self._compute, inputs, target.array[0]))(stop)

    def _filters(self, inputs: Arrays, stop: Stop) -> Array:
        """Returns the filters minus their zero points, ``[groups, filters, depth]``."""
        filters = self._geometry.filters_of(inputs["FilterTensor"], self._lines)
        filters = filters.transpose(0, 1, filters.ndim - 1, *range(2, filters.ndim - 1))
        copy = copied_filters(filters, np.float32, stop)
        if "FilterZeroPointTensor" in inputs:
            copy -= self._of_filters(inputs["FilterZeroPointTensor"], slice(None), slice(None))[..., None]
        return copy

    def _of_filters(self, parameter: Array, groups: slice, filters: slice) -> Array:
        """Returns the parameters of some filters, ``[groups, filters]``: one for all, or one for each."""
        flat = parameter.reshape(-1)
        if flat.size == 1:
            return flat.reshape(1, 1)
        return flat.reshape(self._geometry.groups, self._geometry.filters)[groups, filters]

    def _compute(self, inputs: Arrays, target: Array, tiles: ProductTiles, tile: Tile, stop: Stop) -> None:
        sums = tiles.sums(tile, stop)
        _, groups, filters, *places = tile
        for strip in strips(sums.shape[1], sums.shape[0] * sums.shape[2]):
            some = slice(filters.start + strip.start, filters.start + strip.stop)
            part = target[(groups, some, *places)]
            part[...] = self._finished(inputs, groups, some, sums[:, strip]).reshape(part.shape)

    def _finished(self, inputs: Arrays, groups: slice, filters: slice, total: Array) -> Array:
        count, channels, places = total.shape
        if "BiasTensor" in inputs:
            total += self._of_filters(inputs["BiasTensor"], groups, filters)[..., None]
        finishing: Finishing = WrappedFinish()
        if "OutputScaleTensor" in inputs:
            scales = np.broadcast_to(self._of_filters(inputs["FilterScaleTensor"], groups, filters), (count, channels))
            finishing = Quantized(
                scales.astype(np.float64).reshape(-1, 1),
                _single(inputs, "InputScaleTensor"),
                _single(inputs, "OutputScaleTensor"),
                _single(inputs, "OutputZeroPointTensor"),
                self._dtype,
            )
        return finishing.finish(total.reshape(-1, places))


def _single(inputs: Arrays, name: str) -> Array:
    return inputs[name].astype(np.float64).reshape(1, 1) if name in inputs else np.zeros((1, 1))
