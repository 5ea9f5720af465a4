"""CONVOLUTION_INTEGER and QUANTIZED_LINEAR_CONVOLUTION: filters times unfolded columns, exact in FLOAT32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ...convolutions import ConvolutionGeometry, PhaseDimension
from ..jit.compiler import Kernel
from ..run.job import Job
from ..run.pool import Find, Pool
from . import blas
from .integer_products import BYTES_DEPTH
from .phases import grouped, visits_of_tiles
from .requantizing import FINISH_BYTES, Finishing, Quantized, WrappedFinish, strips
from .unfolding import CHANNELS, WASTE, Box, Boxes, Columns, UnfoldingTiling

GATHERED = 12 * 4
"""Bytes per element of columns that are gathered one by one, including their positions."""


def tile_bytes(tiling: UnfoldingTiling, geometry: ConvolutionGeometry, lines: tuple[PhaseDimension, ...]) -> int:
    """Returns the memory of a tile in bytes: columns and their source, weights, products and sums, and finishing."""
    places, depth, filters = prod(tiling.places), prod(tiling.depths), min(geometry.filters, CHANNELS)
    *taps, channels = tiling.depths
    elements, images = places * depth, tiling.places[0]
    spans = (
        1 + (extent - 1) * abs(line.step) + (count - 1) * abs(line.turn)
        for line, extent, count in zip(lines, tiling.places[1:], taps, strict=True)
    )
    copied = channels * images * prod(spans)
    # A smaller tile at the end is gathered only if its columns have less than 1 / WASTE of the elements copied.
    read = GATHERED * elements if copied > WASTE * elements else GATHERED // WASTE * copied
    total = geometry.channels * prod(line.taps for line in lines)
    columns = read + (4 if depth == total else 8) * elements
    return tiling.groups * (columns + 8 * filters * depth + 12 * filters * places) + FINISH_BYTES


class IntegerConvolutionJob(Job):
    """Computes all tiles of filters, images and positions."""

    def __init__(self, plan: Plan) -> None:
        self._dtype = plan.outputs["OutputTensor"].data_type.dtype
        self._geometry = geometry = ConvolutionGeometry(plan)
        lines = geometry.phase(0)
        assert lines is not None  # a convolution that is not transposed has one phase
        self._lines, self._tiling = lines, partial(UnfoldingTiling.of, geometry, lines)
        self._visits = visits_of_tiles(plan, geometry.filters, len(self._units(self._tiling(1))))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return ()

    @property
    def visits(self) -> int:
        return self._visits

    def scratch_bytes(self, threads: int) -> int:
        tiling = self._tiling(threads)
        return min(threads, len(self._units(tiling))) * tile_bytes(tiling, self._geometry, self._lines)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        blas.single_threaded()
        zero = inputs.get("InputZeroPointTensor")
        source = grouped(inputs["InputTensor"], self._geometry.groups)
        point = 0 if zero is None else int(zero.reshape(-1)[0])
        columns = Columns(source, self._lines, np.float32, point)
        target = grouped(outputs["OutputTensor"], self._geometry.groups)
        tiling = self._tiling(pool.threads)
        units = self._units(tiling)
        work = partial(self._run_units, units, partial(self._unit, columns, inputs, target, tiling.depths), stop)
        if len(units) == 1:
            work(0, 1)
        else:
            pool.run(work, len(units), 1, stop)

    def _units(self, tiling: UnfoldingTiling) -> Boxes:
        geometry = self._geometry
        extents = (geometry.groups, geometry.images, *(line.length for line in self._lines))
        return Boxes(extents, [tiling.groups, *tiling.places])

    def _run_units(
        self, units: Boxes, compute: Callable[[slice, Box, Stop], None], stop: Stop, begin: int, end: int
    ) -> None:
        with np.errstate(all="ignore"):
            for groups, *places in units[begin:end]:
                compute(groups, tuple(places), stop)

    def _unit(
        self, columns: Columns, inputs: Arrays, target: Array, sizes: list[int], groups: slice, places: Box, stop: Stop
    ) -> None:
        """Computes a tile; ``sizes`` are those of a box of taps and input channels."""
        geometry = self._geometry
        kernel = geometry.filters_of(inputs["FilterTensor"], self._lines)
        depths = Boxes(kernel.shape[2:], sizes)
        kept = columns.unfold(groups, places, depths[0]) if len(depths) == 1 else None
        for first in range(0, geometry.filters, CHANNELS):
            filters = slice(first, min(first + CHANNELS, geometry.filters))
            total: Array | None = None
            for depth in depths:
                unfolded = columns.unfold(groups, places, depth) if kept is None else kept
                weights = self._weights(inputs, kernel, groups, filters, depth)
                total = _add_product(total, weights, unfolded, stop)
            assert total is not None
            for strip in strips(filters.stop - first, total.shape[0] * total.shape[2]):
                some = slice(first + strip.start, first + strip.stop)
                part = target[(groups, some, *places)]
                part[...] = self._finished(inputs, groups, some, total[:, strip]).reshape(part.shape)

    def _weights(self, inputs: Arrays, kernel: Array, groups: slice, filters: slice, depth: Box) -> Array:
        weights = kernel[(groups, filters, *depth)].astype(np.float32)
        weights = weights.reshape(*weights.shape[:2], -1)
        if "FilterZeroPointTensor" in inputs:
            weights -= self._of_filters(inputs["FilterZeroPointTensor"], groups, filters).astype(np.float32)[..., None]
        return weights

    def _of_filters(self, parameter: Array, groups: slice, filters: slice) -> Array:
        """Returns the parameters of some filters, ``[groups, filters]``: one for all, or one for each."""
        flat = parameter.reshape(-1)
        if flat.size == 1:
            return flat.reshape(1, 1)
        return flat.reshape(self._geometry.groups, self._geometry.filters)[groups, filters]

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


def _add_product(total: Array | None, weights: Array, columns: Array, stop: Stop) -> Array:
    """Adds the product of filters and columns to the sums, with as many products at once as FLOAT32 sums exactly."""
    for first in range(0, weights.shape[-1], BYTES_DEPTH):
        if stop():
            raise Stopped
        part = slice(first, first + BYTES_DEPTH)
        found = np.matmul(weights[..., part], columns[:, part])
        total = found.astype(np.float64) if total is None else np.add(total, found, out=total)
    assert total is not None
    return total
