"""Formulas that feed each other, tile by tile: what one leaves for the next stays in the cache of a core.

Each is computed as it is alone, and rounded to the type of its tensor: no bit of a result depends on where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from opwire.tensor import Array

from ....execution import Stop, Stopped
from ...chains import Member
from ...graph import Tensors
from ..jit.compiler import Kernel
from ..run.graph import Part
from ..run.pool import Find, Pool
from .family import TABLE_BYTES, Compute, ElementsJob, byte_strides
from .walk import walk_of

TILE = 1 << 16
"""Elements of a tile: with those of an intermediate result or two it fits the second cache."""

Formulas = Sequence[Member[ElementsJob]]
"""The formulas of a chain, in their order."""


class _Source(NamedTuple):
    """Where a formula finds a tensor on a tile: among what members have left, or among the arrays."""

    name: str
    is_left: bool
    number: int


class Chain(Part):
    """Members in their order, on tensors of the same sizes."""

    def __init__(self, members: Formulas) -> None:
        self._members = members
        self._shape = members[0].job.target.sizes
        inputs = [
            (member, name) for member in members for name in member.job.computation.tensors if name not in member.links
        ]
        outputs = [(member, member.job.output) for member in members if member.is_kept]
        self._tensors = (*inputs, *outputs)
        numbers = {(member.step.name, name): number for number, (member, name) in enumerate(self._tensors)}
        strides = {str(i): self._strides(*tensor) for i, tensor in enumerate(self._tensors)}
        tile = min(TILE, *(member.job.computation.tile for member in members))
        self._walk = walk_of(self._shape, strides, tile)
        self._units = self._walk.units
        self._elements = prod(self._walk.tile)
        self._slots = _slots(members)
        self._sources = [
            [
                _Source(name, name in member.links, member.links.get(name, numbers.get((member.step.name, name), 0)))
                for name in member.job.computation.tensors
            ]
            for member in members
        ]
        self._targets = [numbers[member.step.name, member.job.output] if member.is_kept else -1 for member in members]
        self._computes = [_compute_of(member.job) for member in members]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return ()

    @property
    def later(self) -> tuple[Kernel, ...]:
        return ()

    def _strides(self, member: Member[ElementsJob], name: str) -> tuple[int, ...]:
        if name in member.job.channels:
            return np.broadcast_to(member.job.channels[name], self._shape).strides
        plan = member.step.plan
        return byte_strides(plan.outputs[name] if name == member.job.output else plan.inputs[name])

    def run(self, tensors: Tensors, find: Find, pool: Pool, stop: Stop) -> None:
        """See ``Part``."""
        if stop():
            raise Stopped
        arrays = [_array(tensors, *tensor, self._shape) for tensor in self._tensors]
        if self._units == 1:
            with np.errstate(all="ignore"):
                self._compute(arrays, {}, stop)
            return
        walk, views = self._walk, self._walk.views(arrays)
        spare: list[dict[int, Array]] = []

        def piece(begin: int, end: int) -> None:
            buffers = spare.pop() if spare else {}
            with np.errstate(all="ignore"):
                for unit in range(begin, end):
                    place = walk.place(unit)
                    self._compute([view[place] for view in views], buffers, stop)
            spare.append(buffers)

        pool.run(piece, self._units, 1, stop)

    def _compute(self, arrays: Sequence[Array], buffers: dict[int, Array], stop: Stop) -> None:
        """Computes a tile of all members."""
        left: list[Array] = []
        for number, sources in enumerate(self._sources):
            kept = self._targets[number]
            is_direct = kept >= 0 and not self._members[number].in_place
            target = arrays[kept] if is_direct else self._buffer(number, arrays[0].shape, buffers)
            given = {
                source.name: left[source.number] if source.is_left else arrays[source.number] for source in sources
            }
            self._computes[number](given, target, stop)
            if kept >= 0 and not is_direct:  # a formula may look at its inputs again after it has begun to write
                arrays[kept][...] = target
            left.append(target)

    def _buffer(self, number: int, shape: tuple[int, ...], buffers: dict[int, Array]) -> Array:
        """Room for what a member leaves of a tile for the next ones."""
        slot = self._slots[number]
        if slot not in buffers:
            buffers[slot] = np.empty(self._elements, np.int64)  # no element is longer
        return np.ndarray(shape, self._members[number].job.target.data_type.dtype, buffers[slot])

    def scratch_bytes(self, threads: int) -> int:
        """See ``Part``."""
        jobs = [member.job for member in self._members]
        tables = sum(TABLE_BYTES for job in jobs if job.computation.table is not None)
        left = 8 * (1 + max(self._slots.values(), default=-1))
        widest = max(job.computation.bytes for job in jobs)
        return min(threads, self._units) * self._elements * (widest + left) + tables


def _array(tensors: Tensors, member: Member[ElementsJob], name: str, shape: tuple[int, ...]) -> Array:
    channel = member.job.channels.get(name)
    if channel is not None:
        return np.broadcast_to(channel, shape)
    step = member.step
    if name == member.job.output:
        return tensors.array(step.plan.outputs[name], step.outputs[name])
    return tensors.array(step.plan.inputs[name], step.inputs[name])


def _compute_of(job: ElementsJob) -> Compute:
    table = job.computation.table
    return table.compute if table is not None and table.serves(job.target.element_count) else job.computation.compute


def _slots(members: Formulas) -> dict[int, int]:
    """For each member that does not write to memory one of a few buffers, which is free again after its last reader."""
    last = {number: i for i, member in enumerate(members) for number in member.links.values()}
    slots: dict[int, int] = {}
    for i, member in enumerate(members):
        if member.in_place or not member.is_kept:
            taken = {slot for number, slot in slots.items() if last.get(number, number) >= i}
            slots[i] = next(slot for slot in range(len(members)) if slot not in taken)
    return slots
