"""TOP_K and TOP_K1 of short sequences, row by row in a kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array, DataType

from ....execution import Arrays, Bound, Stop, Stopped
from ..jit.compiler import Kernel
from ..jit.element import INT8, INT16, INT32, INT64
from ..run.blocks import Blocks
from ..run.job import Job, KernelStep, ScratchBytes
from ..run.pool import Find, Pool
from ..views.packing import Packing
from .kernels import CHOOSE, ENTER, MOST_KEPT, WRITE, ElementRows, chosen
from .top import CHUNK, SORTED_VISITS, TILE, TopJob

CHOSEN = {size: Kernel(chosen, element) for size, element in ((1, INT8), (2, INT16), (4, INT32), (8, INT64))}
"""Kernels by element size in bytes."""

COST = 4
"""Cost per element, relative to one element of MAX."""

SEQUENCE_VISITS, KEPT_VISITS = 8, 4
"""Costs of a sequence besides its elements, and of an element that is kept, in visits."""


class _Rows(NamedTuple):
    """Tensors whose last dimension is the selection axis."""

    source: Array
    values: Array
    indices: Array


class RowsJob(Job):
    """Selects the few best of each row, or sorts all of it, if elements have at most 32 bits.

    Args:
        plan: plan with sequences of at most ``CHUNK`` elements.
    """

    def __init__(self, plan: Plan) -> None:
        source, attributes = plan.inputs["InputTensor"], plan.attributes
        self._axis, self._count = attributes.Axis, attributes.K
        self._length, self._item = source.sizes[self._axis], source.data_type.bits // 8
        self._kernel = CHOSEN[self._item]
        self._is_few = self._count <= MOST_KEPT
        self._scratch = ScratchBytes(thread=32 * max(TILE, self._length))
        elements = source.element_count
        self._visits = SORTED_VISITS * elements * self._length.bit_length()
        if self._is_few:
            self._visits = elements + elements // self._length * (SEQUENCE_VISITS + KEPT_VISITS * self._count)
        greatest = getattr(attributes, "AxisDirection", AxisDirection.DECREASING) == AxisDirection.DECREASING
        self._keys = _keys(source.data_type, greatest=greatest)
        order = [*(i for i in range(source.rank) if i != self._axis), self._axis]
        sizes, steps = ([values[i] for i in order] for values in (source.sizes, source.element_strides))
        if source.rank == 1:
            sizes, steps = [1, *sizes], [self._length, *steps]
        self._blocks = Blocks.of(sizes, TILE, kept=1)
        cut = len(self._blocks.counts) - 1
        heights = {min(self._blocks.grain, sizes[cut]), sizes[cut] % self._blocks.grain} - {0}
        self._packing = Packing(heights, sizes[cut + 1 :], steps[cut:], self._item)
        self._kernels = (self._kernel, *self._packing.kernels)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        tensors = inputs["InputTensor"], outputs["OutputValueTensor"], outputs["OutputIndexTensor"]
        rows = _Rows(*(np.moveaxis(tensor, self._axis, -1) for tensor in tensors))
        if rows.source.ndim == 1:
            rows = _Rows(*(each[None] for each in rows))
        if self._is_few and all(each.flags.c_contiguous for each in rows):
            units = prod(rows.source.shape[:-1])
            step = KernelStep(self._kernel, self._geometry(CHOOSE, rows.indices), units, COST * self._length)
            return step.bind(rows.source.ctypes.data, rows.values.ctypes.data, 0, find, pool, rows)

        def block(number: int) -> Callable[[], None]:
            part = self._blocks.part(number)
            return self._bound(_Rows(*(each[part] for each in rows)), find)

        def piece(number: int) -> None:
            block(number)()

        if self._blocks.number == 1:
            return partial(_at_once, block(0))
        return partial(pool.each, piece, self._blocks.number)

    def _geometry(self, mode: int, indices: Array) -> ElementRows:
        geometry = self._keys.replaced(mode=mode, indices=indices.ctypes.data, index_bytes=indices.itemsize)
        geometry.count, geometry.length = self._count, self._length
        return geometry

    def _bound(self, block: _Rows, find: Find) -> Callable[[], None]:
        """Returns a function that selects the best of a block, copying what is not contiguous."""
        rows = _Rows(*map(_together, block))
        steps: list[Callable[[], object]] = []
        if rows.source is not block.source:
            steps.append(self._packing.bind(block.source, rows.source, find))
        if self._is_few:
            steps.append(self._step(CHOOSE, rows, None, find))
        else:
            entries = np.empty((rows.source.size // self._length, self._length), np.int64)
            steps.append(self._step(ENTER, rows, entries, find))
            steps.append(partial(self._sort, entries))
            steps.append(self._step(WRITE, rows, entries, find))
        results = (block.values, rows.values), (block.indices, rows.indices)
        steps += [partial(np.copyto, into, each) for into, each in results if into is not each]

        def run() -> None:
            for step in steps:
                step()

        return run

    def _sort(self, entries: Array) -> None:
        if self._count * 4 < self._length:
            entries.partition(self._count - 1, axis=-1)
            entries = entries[:, : self._count]
        entries.sort(axis=-1)

    def _step(self, mode: int, rows: _Rows, entries: Array | None, find: Find) -> Callable[[], None]:
        geometry, states = self._geometry(mode, rows.indices), 0 if entries is None else entries.ctypes.data
        addresses = rows.source.ctypes.data, rows.values.ctypes.data, states, geometry.buffer_info()[0]
        call, units = partial(find(self._kernel).call, 0, *addresses, 0), rows.source.size // self._length
        kept = geometry, rows, entries

        def run(_kept: object = kept) -> None:
            call(units)

        return run


def _at_once(run: Callable[[], None], stop: Stop) -> None:
    if stop():
        raise Stopped
    run()


def _together(array: Array) -> Array:
    """Returns the array itself if it is contiguous, else an uninitialized contiguous one like it."""
    return array if array.flags.c_contiguous else np.empty_like(array, order="C")


def _keys(data_type: DataType, *, greatest: bool) -> ElementRows:
    """Returns the fields by which the kernel converts elements to keys."""
    magnitude = (1 << (data_type.bits - 1)) - 1
    infinite = int(np.array(np.inf, data_type.dtype).view(f"<i{data_type.bits // 8}")) if data_type.is_float else 0
    # Bits of unsigned numbers order like signed ones if the highest bit and its sign extension are inverted.
    turned = (-1 if greatest else 0) ^ (0 if data_type.is_signed else ~magnitude)
    return ElementRows(turned=turned, is_float=data_type.is_float, magnitude=magnitude, infinite=infinite)


def prepare(plan: Plan) -> Job:
    """Returns a row job, or one for sequences that are longer or need sorting of wide elements."""
    source, count = plan.inputs["InputTensor"], plan.attributes.K
    is_taken = count <= MOST_KEPT or source.data_type.bits <= 32
    return RowsJob(plan) if source.sizes[plan.attributes.Axis] <= CHUNK and is_taken else TopJob(plan)
