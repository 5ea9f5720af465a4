"""UPSAMPLE_2D, RESAMPLE to RESAMPLE3, and the gradients of resampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, BufferTensorDesc, DataType

from ....execution import Arrays, Bound, Stop
from ...reference.resampling import gathered, interpolated
from ...sampling import ResampledAxis, is_linear, resampled_axes
from ..jit.compiler import Kernel
from ..jit.element import FLOAT32, HALF, INT8, INT16, INT32
from ..run.job import Job, KernelStep, ScratchBytes
from ..run.pool import Find, Pool
from ..run.reference import ReferenceJob
from . import rows
from .boxes import CAPACITY, TILE, BoxDimension, Compute, OutputBox, settle_places
from .tables import TAPS, WeightTable, nearest_table, table_of, transposed_table

FLOATS = {DataType.FLOAT32: FLOAT32, DataType.FLOAT16: HALF, DataType.INT8: HALF, DataType.UINT8: HALF}
"""Element types of weighted sums: 8-bit integers are exact in FLOAT16."""

MOVED = {8: INT8, 16: INT16, 32: INT32}
"""Element types of moves, by bits."""

KERNELS = (
    *(Kernel(rows.weighted, element) for element in (FLOAT32, HALF)),
    *(Kernel(rows.nearest, element) for element in MOVED.values()),
)

SPAN = 1 << 14
"""Maximum outputs of a box along one dimension."""

LONGEST = 1 << 20
"""Maximum number of elements of a line that a tile may read."""

LINE_VISITS = 64
"""Overhead of a line of outputs, in visits."""

MOVED_LINE_VISITS = 32
"""The same where elements are only moved."""


def table_bytes(plan: Plan, source: Sequence[int], target: Sequence[int], *, backward: bool = False) -> int:
    """Returns the memory of a box's tables, in bytes: all that are kept, and one while it is made."""
    kept = making = 0
    for size, outputs in zip(source, target, strict=True):
        most = min(outputs, SPAN)
        taps = 2 * size if backward else (size if getattr(plan.attributes, "Antialiased", False) else 2) * most
        kept += 8 * (6 * most + 2 * min(taps, TAPS))
        making = max(making, 16 * 8 * (most + min(taps, TAPS)))
    return kept + making


def _pieces(sizes: Sequence[int], span: int) -> Iterator[tuple[range, ...]]:
    """Yields the boxes of an output."""
    return product(*([range(at, min(at + span, size)) for at in range(0, size, span)] for size in sizes))


def _place(desc: BufferTensorDesc, box: Sequence[range]) -> int:
    """Returns the offset, in bytes, of the first element of a box in a tensor."""
    steps = zip(box, desc.element_strides, strict=True)
    return sum(part.start * step for part, step in steps) * desc.data_type.bits // 8


class NearestJob(Job):
    """Moves elements: each output from the index in a table for each of its coordinates."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._source, self._target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        self._axes = resampled_axes(plan, self._source.sizes, self._target.sizes)
        self._kernel = Kernel(rows.nearest, MOVED[self._source.data_type.bits])
        self._kernels = (self._kernel,)
        self._only: OutputBox | None = None
        self._scratch = ScratchBytes(thread=8 * TILE, shared=table_bytes(plan, self._source.sizes, self._target.sizes))
        self._visits = plan.work + MOVED_LINE_VISITS * prod(self._target.sizes[:-1])

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        for piece in _pieces(self._target.sizes, SPAN):
            self._bound(self._kept(piece), piece, source, target, find, pool)(stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        if max(self._target.sizes) > TILE:
            return super().bind(inputs, outputs, find, pool)
        piece = tuple(map(range, self._target.sizes))
        return self._bound(self._kept(piece), piece, inputs["InputTensor"], outputs["OutputTensor"], find, pool)

    def _kept(self, piece: tuple[range, ...]) -> OutputBox:
        """Returns a box, cached if it is the only one and small."""
        if max(self._target.sizes) > TILE:
            return self._box(piece)
        self._only = self._only or self._box(piece)
        return self._only

    def _bound(
        self, box: OutputBox, piece: tuple[range, ...], source: Array, target: Array, find: Find, pool: Pool
    ) -> Bound:
        step = KernelStep(self._kernel, box.geometry, box.units, box.visits)
        here = target.ctypes.data + _place(self._target, piece)
        return step.bind(source.ctypes.data, here, 0, find, pool, (box, source, target))

    def _box(self, piece: tuple[range, ...]) -> OutputBox:
        axes = []
        for axis, part, source, target in zip(
            self._axes, piece, self._source.element_strides, self._target.element_strides, strict=True
        ):
            first = nearest_table(self._plan, axis, part.start, part.stop)
            ones = np.ones(first.size, np.int64)
            axes.append(BoxDimension(WeightTable(first, ones, ones, np.ones(first.size + 2), True), source, target))
        box, across = OutputBox(axes), axes[-1].table.first
        box.geometry.twice = bool((across == across[0] + np.arange(across.size) // 2).all())
        return box


class WeightedJob(Job):
    """Computes weighted sums; outputs that float64 leaves undecided are settled."""

    def __init__(self, plan: Plan, axes: tuple[ResampledAxis, ...], *, backward: bool) -> None:
        names = ("InputGradientTensor", "OutputGradientTensor") if backward else ("InputTensor", "OutputTensor")
        self._plan, self._axes, self._backward, self._names = plan, axes, backward, names
        self._source, self._target = plan.inputs[names[0]], plan.outputs[names[1]]
        self._kernel = Kernel(rows.weighted, FLOATS[self._source.data_type])
        self._kernels = (self._kernel,)
        self._only: OutputBox | None = None
        self._otherwise = ReferenceJob(plan)
        converted = 0 if self._source.data_type.is_float else 2 * self._source.element_count
        tables = table_bytes(plan, self._source.sizes, self._target.sizes, backward=backward)
        line = min(LONGEST, self._source.sizes[-1]) + 4 * TILE
        self._scratch = ScratchBytes(thread=8 * line, shared=tables + 8 * CAPACITY + converted)
        self._visits = plan.work + LINE_VISITS * prod(self._target.sizes[:-1])

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = inputs[self._names[0]], outputs[self._names[1]]
        element_strides = self._source.element_strides
        halves = source
        if not self._source.data_type.is_float:
            halves = _halves(source, pool, stop)
            element_strides = tuple(step // 2 for step in halves.strides)
        for piece in _pieces(self._target.sizes, SPAN):
            box = self._kept(piece, element_strides)
            compute = None if box is None else self._bound(box, piece, halves, target, find, pool)
            if compute is None or not self._settled(compute(stop), piece, source, target, stop):
                self._otherwise.run(inputs, outputs, find, pool, stop)
                return

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        piece = tuple(map(range, self._target.sizes))
        box = self._kept(piece, self._source.element_strides) if self._is_small else None
        if box is None:
            return super().bind(inputs, outputs, find, pool)
        source, target = inputs[self._names[0]], outputs[self._names[1]]
        compute = self._bound(box, piece, source, target, find, pool)

        def run(stop: Stop) -> None:
            if not self._settled(compute(stop), piece, source, target, stop):
                self._otherwise.run(inputs, outputs, find, pool, stop)

        return run

    @property
    def _is_small(self) -> bool:
        """Whether all outputs are in a single box small enough to cache."""
        return max(self._target.sizes) <= TILE and self._source.data_type.is_float

    def _kept(self, piece: tuple[range, ...], strides: Sequence[int]) -> OutputBox | None:
        if not self._is_small:
            return self._box(piece, strides)
        self._only = self._only or self._box(piece, strides)
        return self._only

    def _bound(
        self, box: OutputBox, piece: tuple[range, ...], source: Array, target: Array, find: Find, pool: Pool
    ) -> Compute:
        here = target.ctypes.data + _place(self._target, piece)
        return box.bind(self._kernel, source.ctypes.data, here, find, pool, (source, target))

    def _settled(
        self, left: list[tuple[int, ...]] | None, piece: tuple[range, ...], source: Array, target: Array, stop: Stop
    ) -> bool:
        """Settles undecided outputs; returns False if there are too many."""
        if left:
            settle = partial(gathered if self._backward else interpolated, self._plan, self._axes, source, stop)
            begin = tuple(part.start for part in piece)
            moved = [tuple(map(sum, zip(begin, place[-len(begin) :], strict=True))) for place in left]
            settle_places(moved, target, lambda place: settle(place, target), stop)
        return left is not None

    def _box(self, piece: tuple[range, ...], strides: Sequence[int]) -> OutputBox | None:
        axes = []
        for axis, part, source, target in zip(self._axes, piece, strides, self._target.element_strides, strict=True):
            if self._backward:
                table = transposed_table(self._plan, axis, part.start, part.stop)
            else:
                table = table_of(self._plan, axis, part.start, part.stop)
            if table is None:
                return None
            axes.append(BoxDimension(table, source, target))
        integers = None
        if not self._target.data_type.is_float:
            limits = np.iinfo(self._target.data_type.dtype)
            integers = int(limits.min), int(limits.max)
        box = OutputBox(axes, integers)
        return box if box.line <= LONGEST and box.visits <= 1 << 24 else None


def _halves(source: Array, pool: Pool, stop: Stop) -> Array:
    """Returns 8-bit integers as contiguous FLOAT16; broadcast dimensions stay broadcast."""
    kept = source[tuple(slice(0, 1) if step == 0 else slice(None) for step in source.strides)]
    result = np.empty(kept.shape, np.float16)
    flat = result.reshape(-1)
    rows_of = prod(kept.shape[:-1])
    width = kept.shape[-1]

    def piece(begin: int, end: int) -> None:
        for row in range(begin, end):
            place = tuple(int(i) for i in np.unravel_index(row, kept.shape[:-1])) if kept.ndim > 1 else ()
            flat[row * width : (row + 1) * width] = kept[place]

    pool.run(piece, rows_of, max(1, (1 << 18) // width), stop)
    return np.broadcast_to(result, source.shape)


def prepare(plan: Plan) -> Job:
    if not is_linear(plan.attributes):
        return NearestJob(plan)
    axes = resampled_axes(plan, plan.inputs["InputTensor"].sizes, plan.outputs["OutputTensor"].sizes)
    return WeightedJob(plan, axes, backward=False) if all(axis.is_usual for axis in axes) else ReferenceJob(plan)


def prepare_gradient(plan: Plan) -> Job:
    source, target = plan.inputs["InputGradientTensor"], plan.outputs["OutputGradientTensor"]
    return WeightedJob(plan, resampled_axes(plan, target.sizes, source.sizes), backward=True)


PREPARE = {
    **dict.fromkeys(("UPSAMPLE_2D", "RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3"), prepare),
    **dict.fromkeys(("RESAMPLE_GRAD", "RESAMPLE_GRAD1"), prepare_gradient),
}
