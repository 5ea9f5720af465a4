"""Placement of the intermediates of a graph that a device runs step by step in this process's memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from opwire.check import Plan
from opwire.graph import Bytes, Place, Step, Steps
from opwire.tensor import Array, BufferTensorDesc

from ..execution import Arrays

ALIGNMENT = 64
"""Alignment in bytes: a full cache line, so that no two tensors share one."""


@dataclass(frozen=True, eq=False)
class GraphMemory:
    """One memory block for all intermediates of a graph; those that are never live together may overlap.

    Attributes:
        graph: the plan of the graph.
        groups: ranges of steps that run together, in order; empty if every step runs by itself.
        passing: numbers of the intermediates that stay within a group and need no memory.
        shared: maps the number of an intermediate to that of the one it overwrites, regardless of their lifetimes.
    """

    graph: Plan
    groups: tuple[range, ...] = ()
    passing: frozenset[int] = frozenset()
    shared: Mapping[int, int] = field(default_factory=dict)

    @property
    def steps(self) -> Steps:
        steps: Steps = self.graph.attributes
        return steps

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The offset in the block of each intermediate, in bytes."""
        return self._layout[0]

    @cached_property
    def size(self) -> int:
        """Size of the block in bytes."""
        return self._layout[1]

    @cached_property
    def _layout(self) -> tuple[tuple[int, ...], int]:
        """Places the largest first, each at the lowest offset that is free throughout its lifetime."""
        owners = [self._owner(number) for number in range(len(self.steps.between))]
        lives: dict[int, tuple[int, int]] = {}
        for number, (first, last) in self._lives().items():
            begin, end = lives.get(owners[number], (first, last))
            lives[owners[number]] = (min(first, begin), max(last, end))
        sizes = {
            number: 0 if number in self.passing else -(-self.steps.between[number] // ALIGNMENT) * ALIGNMENT
            for number in lives
        }
        offsets = dict.fromkeys(sizes, 0)
        chosen = sorted((number for number in sizes if sizes[number]), key=lambda each: -sizes[each])
        # Columns: first and last group, begin and end in the block.
        placed = np.zeros((4, len(chosen)), np.int64)
        for count, number in enumerate(chosen):
            first, last = lives[number]
            begun, ended, begin, end = placed[:, :count]
            meets = np.flatnonzero((begun <= last) & (ended >= first))
            offsets[number] = _lowest(begin[meets], end[meets], sizes[number])
            placed[:, count] = first, last, offsets[number], offsets[number] + sizes[number]
        return tuple(offsets[owner] for owner in owners), int(placed[3].max(initial=0))

    def _owner(self, number: int) -> int:
        """Returns the number of the intermediate whose memory this one uses."""
        while number in self.shared:
            number = self.shared[number]
        return number

    def _lives(self) -> dict[int, tuple[int, int]]:
        """Returns the first and the last group that use each intermediate."""
        steps = self.steps.steps
        groups = self.groups or tuple(range(i, i + 1) for i in range(len(steps)))
        lives: dict[int, tuple[int, int]] = {}
        for at, group in enumerate(groups):
            for step in steps[group.start : group.stop]:
                for found in (*step.outputs.values(), *step.inputs.values()):
                    if found.place is Place.BETWEEN:
                        first, _ = lives.get(int(found.name), (at, at))
                        lives[int(found.name)] = (first, at)
        for found in self.steps.copies.values():
            if found.place is Place.BETWEEN:
                lives[int(found.name)] = (lives[int(found.name)][0], len(groups))
        return lives

    @cached_property
    def has_gaps(self) -> bool:
        """Whether a step may read bytes of an intermediate that no step has written."""
        written: dict[Bytes, int] = {}
        for step in self.steps.steps:
            for name, at in step.outputs.items():
                desc = step.plan.outputs[name]
                written[at] = desc.data_size_in_bytes if desc.extent == desc.element_count else 0
        read = [(at, step.plan.inputs[name]) for step in self.steps.steps for name, at in step.inputs.items()]
        read += [(at, self.graph.outputs[name]) for name, at in self.steps.copies.items()]
        return any(desc.data_size_in_bytes > written[at] for at, desc in read if at.place is Place.BETWEEN)

    def arrays(self, inputs: Arrays, outputs: Arrays, apart: Mapping[int, Array] | None = None) -> GraphTensors:
        """Returns the tensors of all steps for one run; ``apart`` see there."""
        # Zeroed where there are gaps, so that no step reads leftovers of another request.
        block = (np.zeros if self.has_gaps else np.empty)(self.size, np.uint8)
        return GraphTensors(self, inputs, outputs, block, apart or {})


@dataclass(frozen=True, slots=True, eq=False)
class GraphTensors:
    """The tensors of a graph's steps during one run.

    Attributes:
        memory: the placement of the intermediates.
        inputs, outputs: the arrays of the graph.
        block: memory for the intermediates.
        apart: bytes of the intermediates that have memory of their own instead, by number.
    """

    memory: GraphMemory
    inputs: Arrays
    outputs: Arrays
    block: Array
    apart: Mapping[int, Array] = field(default_factory=dict)

    def of(self, step: Step) -> tuple[Arrays, Arrays]:
        """Returns the inputs and outputs of a step."""
        return self._views(step.plan.inputs, step.inputs), self._views(step.plan.outputs, step.outputs)

    def copy(self) -> None:
        """Fills the outputs that are copies of inputs or of intermediates rather than outputs of a step."""
        for name in self.memory.steps.copies:
            self.outputs[name][...] = self.copied(name)

    def copied(self, output: str) -> Array:
        """Returns what an output is a copy of."""
        return self.array(self.memory.graph.outputs[output], self.memory.steps.copies[output])

    def _views(self, descs: Mapping[str, BufferTensorDesc], places: Mapping[str, Bytes]) -> dict[str, Array]:
        return {name: self.array(desc, places[name]) for name, desc in descs.items()}

    def array(self, desc: BufferTensorDesc, at: Bytes) -> Array:
        """Returns a view of a step's tensor as its desc describes it."""
        if at.place is Place.BETWEEN:
            own = self.apart.get(int(at.name))
            return desc.view(self.block, self.memory.offsets[int(at.name)]) if own is None else desc.view(own)
        name = str(at.name)
        of_graph = self.memory.graph.inputs if at.place is Place.INPUT else self.memory.graph.outputs
        array = (self.inputs if at.place is Place.INPUT else self.outputs)[name]
        if _alike(of_graph[name], desc):
            return array
        data = of_graph[name].bytes_of(array)
        view = desc.view(data)
        # An input may be anywhere in the body of a request, aligned only for elements of its own size.
        return view if view.flags.aligned else desc.view(data.copy())


def _alike(one: BufferTensorDesc, other: BufferTensorDesc) -> bool:
    return (one.data_type, one.sizes, one.strides) == (other.data_type, other.sizes, other.strides)


def _lowest(begin: Array, end: Array, size: int) -> int:
    """Returns the lowest offset where ``size`` bytes fit between the occupied ranges."""
    order = np.argsort(begin)
    free = np.append(0, np.maximum.accumulate(end[order]))  # end of everything that begins earlier
    return int(free[np.argmax(free + size <= np.append(begin[order], np.iinfo(np.int64).max))])
