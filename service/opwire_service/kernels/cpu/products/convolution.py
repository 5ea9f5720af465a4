"""CONVOLUTION: tiles of filters times unfolded input, or blocks of output lines where a group has few filters."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop, Stopped
from ...activation import activated
from ...convolutions import ConvolutionGeometry, PhaseDimension
from ...formulas.resolve import as_fused
from ...gaps import Gaps
from ...layout import coordinates
from ..jit.compiler import Kernel
from ..numbers.vectors import WIDTH
from ..run.job import PIECE, Job, KernelStep
from ..run.pool import Find, Pool
from .boxes import Boxes, halved
from .direct import DIRECT, MOST_DEPTH, TOGETHER, Block, DirectGeometry
from .epilogues import STRIP_BYTES, Epilogue
from .finishing import Finish
from .fixed_left import MOST_LEFT_BYTES
from .gemm import SMALL_FLOATS, GemmTiling, is_in_place
from .multiplying import summation_error
from .phases import MOST_SUMS, MOST_UNFOLDED, PhaseTiling, copied_filters, flat_view, grouped, visits_of_tiles
from .product import Columns, Located, Product, kernels_of
from .product_tiles import bound_tiles
from .tile_geometry import operand
from .window import SPATIAL

FEW, FEW_UNFOLDED = 8, 64 if TOGETHER > 1 else 16
"""Maximum numbers of filters in a group whose lines are summed without matrix products; the second one is for filters
of several taps, for which a matrix would have to be unfolded."""

LEAST_PIECE = 1 << 15
"""Products of them for which another thread is worth its while."""

FEW_PHASES = 64
"""Maximum number of phases for which each one's memory is computed in advance."""


class ConvolutionTensors(NamedTuple):
    """The tensors of a run.

    Attributes:
        source, target: ``[groups, channels, images, *spatial]``.
        kernel: filters, as given.
        bias: ``[groups, filters]``, or None.
        is_fixed: whether no run changes the filters.
        is_repeated: whether it runs again on the same tensors.
    """

    source: Array
    kernel: Array
    bias: Array | None
    target: Array
    is_fixed: bool = False
    is_repeated: bool = False


class ConvolutionJob(Job):
    """Computes all phases, one after the other, by tiles or by blocks of lines."""

    def __init__(self, plan: Plan) -> None:
        self._geometry = geometry = ConvolutionGeometry(plan)
        self._epilogue = Epilogue(1.0, 1.0, as_fused(plan.attributes.FusedActivation))
        self._gaps = Gaps(geometry) if Gaps(geometry).may_exist else None
        kernel = plan.inputs["FilterTensor"]
        self._filter_elements, self._dtype = kernel.element_count, kernel.data_type.dtype
        taps = prod(kernel.sizes[2:])
        self._depth = taps * geometry.channels
        is_few = geometry.filters <= (FEW if taps == 1 else FEW_UNFOLDED) and self._depth <= MOST_DEPTH
        self._is_direct = is_few and self._epilogue.is_rounded
        self._is_point = _is_point(geometry) and geometry.images < min(WIDTH, geometry.filters)
        sizes = (1, geometry.groups), geometry.images, geometry.filters, self._depth
        self._point_tiling = partial(GemmTiling.of, *sizes, small=SMALL_FLOATS)
        self._visits = visits_of_tiles(plan, geometry.filters, self._count_tiles())

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        if self._is_direct:
            return (DIRECT[self._dtype.type],)
        return *kernels_of(self._dtype, self._dtype), *self._finish_of(self._depth).kernels

    def _phase(self, number: int) -> tuple[PhaseDimension, ...] | None:
        """Returns the dimensions of a phase, or None if it has no outputs.

        Taps that only meet padding are left out if they are at least half: what is left may have to be copied.
        """
        lines = self._geometry.phase(number)
        if lines is None:
            return None
        met = tuple(line.met for line in lines)
        return met if 2 * prod(line.taps for line in met) <= prod(line.taps for line in lines) else lines

    def _count_tiles(self) -> int:
        """Returns the number of tiles of all phases, assuming that phases are of similar size."""
        geometry, lines = self._geometry, self._phase(0)
        if self._is_direct or lines is None:
            return geometry.phases
        if self._is_point:
            return len(self._point_tiling(1).boxes)
        return geometry.phases * len(PhaseTiling.of(geometry, lines, 1).boxes(geometry))

    def scratch_bytes(self, threads: int) -> int:
        gaps = 0 if self._gaps is None else self._gaps.scratch_bytes
        return 4 * self._filter_elements + gaps + threads * self._tile_bytes(threads)

    def _tile_bytes(self, threads: int) -> int:
        """Returns the maximum memory of a tile in bytes, of any phase or, if these are many, of any convolution."""
        if self._is_point:
            return self._point_tiling(threads).bytes(self._depth)
        if self._geometry.phases > FEW_PHASES:
            return TILE_BYTES
        phases = (self._phase(number) for number in range(self._geometry.phases))
        tilings = (PhaseTiling.of(self._geometry, lines, threads) for lines in phases if lines is not None)
        return max((tiling.bytes for tiling in tilings), default=0)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        geometry, tensors = self._geometry, self._tensors(inputs, outputs)
        if geometry.margins:
            self._fill_margins(outputs["OutputTensor"], stop)
        if not geometry.is_whole:
            self._fill(tensors.target, tensors.bias, stop)
        for number in range(geometry.phases):
            if stop():
                raise Stopped
            lines = self._phase(number)
            if lines is not None:
                filters = self._filters(tensors, lines)
                flat = flat_view(filters, is_apart=not self._is_direct)
                flat = copied_filters(filters, filters.dtype.type, stop) if flat is None else flat
                self._bound(lines, flat, tensors, find, pool)(stop)
        self._fill_gaps(inputs, outputs, stop)

    @property
    def fixed_bytes(self) -> int:
        return min(MOST_LEFT_BYTES, 16 * self._filter_elements)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        return self.bind_fixed((), inputs, outputs, find, pool)

    def bind_fixed(self, fixed: Collection[str], inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        tensors = self._tensors(inputs, outputs)
        tensors = tensors._replace(is_fixed="FilterTensor" in fixed, is_repeated=pool.scratch is not None)
        is_single = self._geometry.phases == 1 and self._geometry.is_whole and not self._geometry.margins
        lines = self._phase(0) if is_single else None
        flat = None if lines is None else flat_view(self._filters(tensors, lines), is_apart=not self._is_direct)
        if lines is None or flat is None:
            return super().bind(inputs, outputs, find, pool)
        compute = self._bound(lines, flat, tensors, find, pool)
        if self._gaps is None:
            return compute
        may_be_unusual = True

        def run(stop: Stop) -> None:
            nonlocal may_be_unusual
            compute(stop)
            if may_be_unusual:
                may_be_unusual = self._fill_gaps(inputs, outputs, stop) or not tensors.is_fixed

        return run

    def _tensors(self, inputs: Arrays, outputs: Arrays) -> ConvolutionTensors:
        groups, bias = self._geometry.groups, inputs.get("BiasTensor")
        source, target = grouped(inputs["InputTensor"], groups), grouped(outputs["OutputTensor"], groups)
        inner: tuple[Any, ...] = (..., *(slice(size) for size in self._geometry.inner))
        return ConvolutionTensors(
            source, inputs["FilterTensor"], None if bias is None else bias.reshape(groups, -1), target[inner]
        )

    def _filters(self, tensors: ConvolutionTensors, lines: tuple[PhaseDimension, ...]) -> Array:
        """Returns a view of the filters of a phase, ``[groups, filters, channels, *taps]``."""
        filters = self._geometry.filters_of(tensors.kernel, lines)
        return filters.transpose(0, 1, filters.ndim - 1, *range(2, filters.ndim - 1))

    def _finish_of(self, depth: int) -> Finish:
        return Finish(self._epilogue, summation_error(depth), depth, self._dtype)

    def _fill(self, target: Array, bias: Array | None, stop: Stop) -> None:
        """Writes the outputs that no input element reaches; like all sums, none of them is -0."""
        pieces = Boxes(target.shape[2:], halved(target.shape[2:], MOST_SUMS))
        with np.errstate(all="ignore"):
            for group, channel in coordinates(target.shape[:2]):
                value = np.zeros(1) if bias is None else bias[group, channel : channel + 1].astype(np.float64) + 0.0
                value = activated(self._epilogue.activation, value)
                for place in pieces:
                    if stop():
                        raise Stopped
                    target[(group, channel, *place)] = value[0]

    def _fill_margins(self, output: Array, stop: Stop) -> None:
        """Writes the padding of the output."""
        value = activated(self._epilogue.activation, np.zeros(1))[0]
        with np.errstate(all="ignore"):
            for margin in self._geometry.margins:
                whole: tuple[Any, ...] = (..., *margin)
                view = output[whole]
                for place in Boxes(view.shape, halved(view.shape, MOST_SUMS)):
                    if stop():
                        raise Stopped
                    view[place] = value

    def _fill_gaps(self, inputs: Arrays, outputs: Arrays, stop: Stop) -> bool:
        """Returns whether a weight is infinite or NaN, for which there may be gaps to fill."""
        if self._gaps is None:
            return False
        inner: tuple[Any, ...] = (..., *(slice(size) for size in self._geometry.inner))
        value = activated(self._epilogue.activation, np.full(1, np.nan))[0]
        return self._gaps.fill(inputs["FilterTensor"], outputs["OutputTensor"][inner], value, stop)

    def _bound(
        self, lines: tuple[PhaseDimension, ...], filters: Array, tensors: ConvolutionTensors, find: Find, pool: Pool
    ) -> Bound:
        """Returns a function that computes a phase."""
        place: tuple[Any, ...] = (..., *(line.outputs for line in lines))
        columns, target = Columns(Located.of(tensors.source[None]), lines), tensors.target[place]
        if self._is_direct:
            return self._bound_direct(columns, filters, tensors.bias, target, find, pool)
        if self._is_point:
            return self._bound_point(filters, tensors, target, find, pool)
        shared = tensors.is_repeated and self._epilogue.is_rounded
        tiling, addend = PhaseTiling.of(self._geometry, lines, pool.threads, shared=shared), None
        if tensors.bias is not None:
            over_places = tensors.bias[(None, ..., *(None,) * (target.ndim - 2))]
            addend = Located.of(np.broadcast_to(over_places, (1, *target.shape)))
        product = Product(
            Located.of(filters[None]), columns, addend, Located.of(target[None]), tiling.sizes,
            self._finish_of(filters.shape[2]), find, tensors.is_fixed, tensors.is_repeated,
        )  # fmt: skip
        owner = self if self._geometry.phases == 1 else None
        return bound_tiles(product, tiling.boxes(self._geometry), pool, owner=owner)

    def _bound_point(self, filters: Array, tensors: ConvolutionTensors, target: Array, find: Find, pool: Pool) -> Bound:
        """Like ``_bound`` for a single position: images are rows, and filters, of which there are more, columns."""

        def turned(array: Array) -> Array:
            return array.reshape(array.shape[:3]).swapaxes(1, 2)[np.newaxis]

        rows, columns, output = turned(tensors.source), turned(filters), turned(target)[:, :, :, np.newaxis]
        bias = None if tensors.bias is None else np.broadcast_to(tensors.bias[None, :, None, None], output.shape)
        tiling = self._point_tiling(pool.threads, is_in_place=is_in_place(rows, columns))
        product = Product(
            Located.of(rows), Columns.of_matrices(columns), None if bias is None else Located.of(bias),
            Located.of(output), tiling.sizes(self._depth), self._finish_of(self._depth), find,
            is_repeated=tensors.is_repeated,
        )  # fmt: skip
        return bound_tiles(product, tiling.boxes, pool, owner=self)

    def _bound_direct(
        self, columns: Columns, filters: Array, bias: Array | None, target: Array, find: Find, pool: Pool
    ) -> Bound:
        groups, count = target.shape[:2]
        depth, whole = filters.shape[2], (0, *(slice(0, size) for size in target.shape))
        window, steps = columns.window(whole), [step // target.itemsize for step in target.strides]
        block = Block.of(window, self._geometry.channels)
        geometry = DirectGeometry.of(
            window, rows=count, depth=depth, right=columns.start(whole), left=operand(filters), beta=1.0,
            target=operand(target), error=(depth + 16) * 2.0**-53, image_step=steps[2], block=block,
            steps=[0] * (SPATIAL - len(steps[3:])) + steps[3:],
        )  # fmt: skip
        if bias is not None:
            geometry.addend = operand(bias[..., None])
        units, products = block.units(window, groups), count * block.lines * block.length * depth
        threads = max(1, min(pool.threads, units * products // LEAST_PIECE))
        pieces = threads * -(-units * products // (threads * PIECE))
        elements = max(products, PIECE // -(-units // pieces))
        step = KernelStep(DIRECT[self._dtype.type], geometry, units, elements)
        return step.bind(0, 0, 0, find, pool, (columns, filters, bias, target))


def _is_point(geometry: ConvolutionGeometry) -> bool:
    """Whether there is a single input element and output for each channel, and they meet."""
    lines = geometry.phase(0) if geometry.phases == 1 and geometry.is_whole else None
    return lines is not None and all((line.size, line.taps, line.length, line.base) == (1, 1, 1, 0) for line in lines)


TILE_BYTES = 8 * (5 * MOST_UNFOLDED + 5 * MOST_SUMS) + STRIP_BYTES
"""Maximum memory of a tile on each thread, in bytes: operands, sums and their rounding."""
