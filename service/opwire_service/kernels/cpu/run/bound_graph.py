"""Graphs that run repeatedly on the same constants, with everything their runs share prepared once."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple, Self
from weakref import ReferenceType, ref

import numpy as np

from opwire.check import Plan
from opwire.graph import CONSTANT, Bytes, Place
from opwire.tensor import Array, BufferTensorDesc

from ....execution import Arrays, Bound, FixedMemory, Stop, Stopped
from .graph import GraphJob, GraphPart
from .pool import Find, Pool
from .scratch import Scratch

KEPT_BYTES = 256 << 20
"""Maximum total memory of the graphs that a device keeps bound."""

COPIED_BYTES = 1 << 20
"""Maximum size of an input or output that is copied, in bytes: preparing a step takes about as long."""

ONCE_BYTES = 64 << 20
"""Maximum total size of the results of steps that read nothing but constants and therefore run once, in bytes."""

_ALIGNMENT = 8
"""Alignment in bytes of a constant that any step can read in place, whatever the data type of its desc."""


class Constant(NamedTuple):
    """Where a constant lies.

    Attributes:
        address: its address.
        owner: its memory if that is fixed: while it lives, the constant stays the same.
    """

    address: int
    owner: ReferenceType[FixedMemory] | None

    @classmethod
    def of(cls, array: Array) -> Self:
        owner = FixedMemory.under(array)
        return cls(array.__array_interface__["data"][0], None if owner is None else ref(owner))

    @property
    def is_fixed(self) -> bool:
        return self.owner is not None

    def is_same(self, other: Constant) -> bool:
        """Returns whether two constants are the same."""
        # An object has a single plain reference, while references that are compared compare what they refer to.
        return self.address == other.address and self.owner is other.owner


class BoundGraph:
    """A graph bound to its constants, and to memory of its own for everything else but large inputs and outputs.

    Small inputs and outputs are copied to and from its memory, so that all steps that use them are prepared once. Steps
    that read nothing but constants run once. Constants are not kept alive: whoever runs the graph holds them.
    """

    def __init__(self, job: GraphJob, plan: Plan, inputs: Arrays, find: Find, pool: Pool) -> None:
        self._constants = _constants_of(plan, inputs)
        self._given = {name: ref(inputs[name]) for name in plan.inputs if name.startswith(CONSTANT)}
        self._plan = plan
        self._find, self._pool, self._free = find, pool, Lock()
        others = {name: desc for name, desc in plan.inputs.items() if name not in self._constants}
        self._inputs, self._outputs = _copies(others), _copies(plan.outputs)
        borrowed = {name: _borrowed(inputs[name]) for name in self._constants}
        fixed = {Bytes(Place.INPUT, name) for name, each in self._constants.items() if each.is_fixed}
        apart = _alone(job, fixed)
        self._tensors = job.memory.arrays({**borrowed, **self._inputs}, self._outputs, apart)
        sharing = pool.with_scratch(Scratch())
        self._once: list[Bound] = []
        self._parts: list[tuple[GraphPart, Bound | None]] = []
        for part in job.parts:
            bound = part.bind(self._tensors, fixed, find, sharing) if self._is_at_home(part) else None
            if bound is not None and fixed.issuperset(part.step.outputs.values()):
                self._once.append(bound)
            else:
                self._parts.append((part, bound))
        self._fixed_bytes = sum(part.job.fixed_bytes for part in job.parts)
        self._is_at_rest = not plan.attributes.copies and all(bound is not None for _, bound in self._parts)

    def is_bound_to(self, inputs: Arrays) -> bool:
        """Returns whether these inputs have the constants that the graph is bound to."""
        if all(given() is inputs[name] for name, given in self._given.items()):
            return True
        found = _constants_of(self._plan, inputs)
        return found.keys() == self._constants.keys() and all(
            each.is_same(found[name]) for name, each in self._constants.items()
        )

    @property
    def own_bytes(self) -> int:
        """The memory it takes besides that of the job."""
        own = self._tensors.apart, self._inputs, self._outputs
        return self._fixed_bytes + sum(array.nbytes for arrays in own for array in arrays.values())

    def _is_at_home(self, part: GraphPart) -> bool:
        """Returns whether all tensors of a part have the same addresses in each run."""
        known = {Place.INPUT: self._tensors.inputs, Place.OUTPUT: self._outputs}
        used = (*part.step.inputs.values(), *part.step.outputs.values())
        return all(at.place is Place.BETWEEN or at.name in known[at.place] for at in used)

    def run(self, inputs: Arrays, outputs: Arrays, stop: Stop) -> bool:
        """Runs the graph, unless another run is in progress; returns whether it has.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        if not self._free.acquire(blocking=False):
            return False
        try:
            self._run(inputs, outputs, stop)
            return True
        finally:
            self._free.release()

    def _run(self, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        tensors = self._tensors
        if not self._is_at_rest:
            tensors = replace(tensors, inputs={**inputs, **self._inputs}, outputs={**outputs, **self._outputs})
        if tensors.memory.has_gaps:
            tensors.block.fill(0)
        for name, own in self._inputs.items():
            own[...] = inputs[name]
        while self._once:
            self._once[0](stop)
            del self._once[0]
        for part, bound in self._parts:
            if stop():
                raise Stopped
            if bound is None:
                part.run(tensors, self._find, self._pool, stop)
            else:
                bound(stop)
        tensors.copy()
        for name, own in self._outputs.items():
            outputs[name][...] = own


class BoundGraphs:
    """The graphs that a device keeps bound: those that ran last, as far as their memory fits into ``most`` bytes."""

    def __init__(self, find: Find, pool: Pool, most: int = KEPT_BYTES) -> None:
        self._find, self._pool, self._most = find, pool, most
        self._kept: OrderedDict[Plan, tuple[BoundGraph, int]] = OrderedDict()
        self._lock = Lock()

    def of(self, plan: Plan, job: GraphJob, inputs: Arrays) -> BoundGraph | None:
        """Returns a graph bound to the constants among its inputs; None if it takes too much memory."""
        with self._lock:
            found = self._kept.get(plan)
            if found is not None and found[0].is_bound_to(inputs):
                self._kept.move_to_end(plan)
                return found[0]
        size = job.scratch_bytes(self._pool.threads)
        if size > self._most:
            return None
        bound = BoundGraph(job, plan, inputs, self._find, self._pool)
        with self._lock:
            self._kept[plan] = bound, size + bound.own_bytes
            self._kept.move_to_end(plan)
            while sum(size for _, size in self._kept.values()) > self._most:
                self._kept.popitem(last=False)
        return bound


def _constants_of(plan: Plan, inputs: Arrays) -> dict[str, Constant]:
    """Returns the constants that steps can read in place."""
    found = {name: Constant.of(inputs[name]) for name in plan.inputs if name.startswith(CONSTANT)}
    return {name: each for name, each in found.items() if each.address % _ALIGNMENT == 0}


def _copies(descs: Mapping[str, BufferTensorDesc]) -> dict[str, Array]:
    """Returns memory for copies of the small tensors among some; what lies between the elements is not copied."""
    return {
        name: desc.allocate()[1]
        for name, desc in descs.items()
        if desc.data_size_in_bytes <= COPIED_BYTES and desc.extent == desc.element_count
    }


def _alone(job: GraphJob, fixed: set[Bytes]) -> dict[int, Array]:
    """Returns memory for the results of the parts that read nothing but fixed buffers, and adds these to them."""
    between, left = job.memory.steps.between, ONCE_BYTES
    found: dict[int, Array] = {}
    for part in job.parts:
        written = part.step.outputs.values()
        if not fixed.issuperset(part.step.inputs.values()) or any(at.place is not Place.BETWEEN for at in written):
            continue
        sizes = {int(at.name): between[int(at.name)] for at in written}
        if sum(sizes.values()) <= left:
            left -= sum(sizes.values())
            found |= {number: np.zeros(size, np.uint8) for number, size in sizes.items()}
            fixed.update(written)
    return found


def _borrowed(array: Array) -> Array:
    """Returns a view of the memory of an array that does not keep it alive."""
    extent = array.itemsize + sum((size - 1) * step for size, step in zip(array.shape, array.strides, strict=True))
    memory: Any = (ctypes.c_char * extent).from_address(Constant.of(array).address)
    return np.ndarray(array.shape, array.dtype, memory, 0, array.strides)
