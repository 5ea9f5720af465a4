"""What devices share that run a graph step by step in the memory of this process: where the bytes between steps lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    """

    graph: Plan

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
        lives = _lives(self.steps)
        sizes = [-(-size // ALIGNMENT) * ALIGNMENT for size in self.steps.between]
        offsets = [0] * len(sizes)
        placed: list[int] = []
        for number in sorted(range(len(sizes)), key=lambda each: -sizes[each]):
            first, last = lives[number]
            taken = sorted(
                (offsets[other], offsets[other] + sizes[other])
                for other in placed
                if lives[other][0] <= last and first <= lives[other][1]
            )
            offset = 0
            for begin, end in taken:
                if offset + sizes[number] <= begin:
                    break
                offset = max(offset, end)
            offsets[number] = offset
            placed.append(number)
        return tuple(offsets), max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0)

    def arrays(self, inputs: Arrays, outputs: Arrays) -> Tensors:
        """The tensors of all steps in one run."""
        # Zeros, since what a step leaves between the elements of its output the next one may read.
        return Tensors(self, inputs, outputs, np.zeros(self.size, np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class Tensors:
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
            self.outputs[name][...] = self._view(self.memory.graph.outputs[name], source)

    def _views(self, descs: Mapping[str, BufferTensorDesc], places: Mapping[str, Bytes]) -> dict[str, Array]:
        return {name: self._view(desc, places[name]) for name, desc in descs.items()}

    def _view(self, desc: BufferTensorDesc, at: Bytes) -> Array:
        if at.place is Place.BETWEEN:
            return desc.view(self.block, self.memory.offsets[int(at.name)])
        name = str(at.name)
        of_graph = self.memory.graph.inputs if at.place is Place.INPUT else self.memory.graph.outputs
        array = (self.inputs if at.place is Place.INPUT else self.outputs)[name]
        return array if _alike(of_graph[name], desc) else desc.view(of_graph[name].bytes_of(array))


def _alike(one: BufferTensorDesc, other: BufferTensorDesc) -> bool:
    return (one.data_type, one.sizes, one.strides) == (other.data_type, other.sizes, other.strides)


def _lives(steps: Steps) -> dict[int, tuple[int, int]]:
    """For the bytes of each number the first and the last step that needs them."""
    lives: dict[int, tuple[int, int]] = {}
    for at, step in enumerate(steps.steps):
        for found in (*step.outputs.values(), *step.inputs.values()):
            if found.place is Place.BETWEEN:
                first, _ = lives.get(int(found.name), (at, at))
                lives[int(found.name)] = (first, at)
    for found in steps.copies.values():
        if found.place is Place.BETWEEN:
            lives[int(found.name)] = (lives[int(found.name)][0], len(steps.steps))
    return lives
