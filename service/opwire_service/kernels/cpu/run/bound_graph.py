"""Graphs that run repeatedly on the same constants, with everything their runs share prepared once."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.graph import CONSTANT, Place
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from .graph import GraphJob, GraphPart
from .pool import Find, Pool
from .scratch import Scratch

KEPT_BYTES = 256 << 20
"""Maximum total memory of the graphs that a device keeps bound."""

_ALIGNMENT = 8
"""Alignment in bytes of a constant that any step can read in place, whatever the data type of its desc."""

Addresses = dict[str, int]
"""The addresses of a graph's constants."""


class BoundGraph:
    """A graph bound to the addresses of its constants, and to memory of its own for everything between its steps.

    Parts that read other inputs or write outputs of the graph are prepared in each run. Constants are not kept alive:
    whoever runs the graph holds arrays at the same addresses.
    """

    def __init__(self, job: GraphJob, plan: Plan, inputs: Arrays, find: Find, pool: Pool) -> None:
        self.addresses = addresses_of(plan, inputs)
        self._find, self._pool, self._free = find, pool, Lock()
        constants = {name: _borrowed(inputs[name]) for name in self.addresses}
        self._tensors = job.memory.arrays(constants, {})
        sharing = pool.with_scratch(Scratch())
        self._parts = [
            (part, part.bind(self._tensors, find, sharing) if self._is_fixed(part) else None) for part in job.parts
        ]

    def _is_fixed(self, part: GraphPart) -> bool:
        """Returns whether all tensors of a part have the same addresses in each run."""
        for at in (*part.step.inputs.values(), *part.step.outputs.values()):
            if at.place is Place.OUTPUT or (at.place is Place.INPUT and at.name not in self.addresses):
                return False
        return True

    def run(self, inputs: Arrays, outputs: Arrays, stop: Stop) -> bool:
        """Runs the graph, unless another run is in progress; returns whether it has.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        if not self._free.acquire(blocking=False):
            return False
        try:
            tensors = replace(self._tensors, inputs=inputs, outputs=outputs)
            if tensors.memory.has_gaps:
                tensors.block.fill(0)
            for part, bound in self._parts:
                if stop():
                    raise Stopped
                if bound is None:
                    part.run(tensors, self._find, self._pool, stop)
                else:
                    bound(stop)
            tensors.copy()
            return True
        finally:
            self._free.release()


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
            if found is not None and found[0].addresses == addresses_of(plan, inputs):
                self._kept.move_to_end(plan)
                return found[0]
        size = job.scratch_bytes(self._pool.threads)
        if size > self._most:
            return None
        bound = BoundGraph(job, plan, inputs, self._find, self._pool)
        with self._lock:
            self._kept[plan] = bound, size
            self._kept.move_to_end(plan)
            while sum(size for _, size in self._kept.values()) > self._most:
                self._kept.popitem(last=False)
        return bound


def addresses_of(plan: Plan, inputs: Arrays) -> Addresses:
    """Returns the addresses of the constants that steps can read in place."""
    found = {name: _address(inputs[name]) for name in plan.inputs if name.startswith(CONSTANT)}
    return {name: address for name, address in found.items() if address % _ALIGNMENT == 0}


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _borrowed(array: Array) -> Array:
    """Returns a view of the memory of an array that does not keep it alive."""
    extent = array.itemsize + sum((size - 1) * step for size, step in zip(array.shape, array.strides, strict=True))
    memory: Any = (ctypes.c_char * extent).from_address(_address(array))
    return np.ndarray(array.shape, array.dtype, memory, 0, array.strides)
