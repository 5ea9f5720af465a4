"""What devices share that run a graph step by step in the memory of this process: where the bytes between steps lie."""

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
"""Bytes: whole lines of the cache, so that no two tensors share one."""


@dataclass(frozen=True, eq=False)
class GraphMemory:
    """One block for all bytes between the steps of a graph; those share a place in it that are never needed together.

    Attributes:
        graph: the plan of a graph.
        groups: numbers of steps that run together, in their order; empty where each runs by itself.
        passing: numbers of bytes that are handed on within such a group, and need no place.
        shared: numbers of bytes that take the place of others, whatever the lives of both.
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
        """Where in the block the bytes of each number begin."""
        return self._layout[0]

    @cached_property
    def size(self) -> int:
        """Bytes of the block."""
        return self._layout[1]

    @cached_property
    def _layout(self) -> tuple[tuple[int, ...], int]:
        """Large ones choose first; each takes the lowest place that is free for as long as it is needed."""
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
        # By columns: the first and the last group, and where the bytes begin and end.
        placed = np.zeros((4, len(chosen)), np.int64)
        for count, number in enumerate(chosen):
            first, last = lives[number]
            begun, ended, begin, end = placed[:, :count]
            meets = np.flatnonzero((begun <= last) & (ended >= first))
            offsets[number] = _lowest(begin[meets], end[meets], sizes[number])
            placed[:, count] = first, last, offsets[number], offsets[number] + sizes[number]
        return tuple(offsets[owner] for owner in owners), int(placed[3].max(initial=0))

    def _owner(self, number: int) -> int:
        """The number of the bytes whose place these take."""
        while number in self.shared:
            number = self.shared[number]
        return number

    def _lives(self) -> dict[int, tuple[int, int]]:
        """For the bytes of each number the first and the last group that needs them."""
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
        """Whether a step may read bytes between steps that none has written."""
        written: dict[Bytes, int] = {}
        for step in self.steps.steps:
            for name, at in step.outputs.items():
                desc = step.plan.outputs[name]
                written[at] = desc.data_size_in_bytes if desc.extent == desc.element_count else 0
        read = [(at, step.plan.inputs[name]) for step in self.steps.steps for name, at in step.inputs.items()]
        read += [(at, self.graph.outputs[name]) for name, at in self.steps.copies.items()]
        return any(desc.data_size_in_bytes > written[at] for at, desc in read if at.place is Place.BETWEEN)

    def arrays(self, inputs: Arrays, outputs: Arrays) -> GraphTensors:
        """The tensors of all steps in one run."""
        # Else a step could read there what another request has left.
        return GraphTensors(self, inputs, outputs, (np.zeros if self.has_gaps else np.empty)(self.size, np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class GraphTensors:
    """The tensors of a graph's steps while it runs.

    Attributes:
        memory: where the bytes between steps lie.
        inputs, outputs: of the graph.
        block: for the bytes between steps.
    """

    memory: GraphMemory
    inputs: Arrays
    outputs: Arrays
    block: Array

    def of(self, step: Step) -> tuple[Arrays, Arrays]:
        """The inputs and outputs of a step."""
        return self._views(step.plan.inputs, step.inputs), self._views(step.plan.outputs, step.outputs)

    def copy(self) -> None:
        """Fills the outputs that no step writes."""
        for name, source in self.memory.steps.copies.items():
            self.outputs[name][...] = self.array(self.memory.graph.outputs[name], source)

    def _views(self, descs: Mapping[str, BufferTensorDesc], places: Mapping[str, Bytes]) -> dict[str, Array]:
        return {name: self.array(desc, places[name]) for name, desc in descs.items()}

    def array(self, desc: BufferTensorDesc, at: Bytes) -> Array:
        """The bytes of a tensor of a step, as its desc sees them."""
        if at.place is Place.BETWEEN:
            return desc.view(self.block, self.memory.offsets[int(at.name)])
        name = str(at.name)
        of_graph = self.memory.graph.inputs if at.place is Place.INPUT else self.memory.graph.outputs
        array = (self.inputs if at.place is Place.INPUT else self.outputs)[name]
        return array if _alike(of_graph[name], desc) else desc.view(of_graph[name].bytes_of(array))


def _alike(one: BufferTensorDesc, other: BufferTensorDesc) -> bool:
    return (one.data_type, one.sizes, one.strides) == (other.data_type, other.sizes, other.strides)


def _lowest(begin: Array, end: Array, size: int) -> int:
    """The lowest place for so many bytes beside pieces that are taken."""
    order = np.argsort(begin)
    free = np.append(0, np.maximum.accumulate(end[order]))  # where all that begin before each one have ended
    return int(free[np.argmax(free + size <= np.append(begin[order], np.iinfo(np.int64).max))])
