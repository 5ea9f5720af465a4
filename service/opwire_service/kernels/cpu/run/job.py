"""A plan made ready for the kernels: which, on which geometry, in how many units. It serves any number of runs."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop, Stopped
from ..jit.compiler import Kernel
from .pool import Find, Pool, Task

PIECE = 1 << 17
"""Elements that a thread visits before it looks what else there is to do, if a unit has no more."""

ASKED = 1 << 20
"""Elements that the thread that calls visits between two questions whether to stop."""


class Job(Protocol):
    """What computes a plan.

    Attributes:
        kernels: those that it calls.
    """

    @property
    def kernels(self) -> tuple[Kernel, ...]: ...

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None: ...

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        """Does what can be done once for several runs on the same arrays, which the caller keeps; one at a time."""
        return partial(self.run, inputs, outputs, find, pool)


class Step(NamedTuple):
    """A kernel and its units.

    Attributes:
        kernel: what runs.
        geometry: its loops.
        units: how many there are.
        elements: of the input that a unit visits.
        reads_states: whether its input is what an earlier step left.
    """

    kernel: Kernel
    geometry: array[int]
    units: int
    elements: int
    reads_states: bool = False

    def run(self, source: int, target: int, states: int, find: Find, pool: Pool, stop: Stop) -> None:
        self.bind(source, target, states, find, pool)(stop)

    def bind(self, source: int, target: int, states: int, find: Find, pool: Pool) -> Bound:
        """What runs the step on memory at these addresses."""
        grain = max(1, PIECE // self.elements)
        if self.units > grain:
            asked = max(1, ASKED // (grain * self.elements))
            return pool.bind(Task(self.kernel, self.geometry, self.units, grain, asked), source, target, states, find)
        call = find(self.kernel).call
        geometry, _ = self.geometry.buffer_info()
        return partial(_at_once, partial(call, 0, source, target, states, geometry, 0, self.units), self.geometry)


def _at_once(units: Callable[[], None], geometry: array[int], stop: Stop) -> None:
    """Runs so few units that no other thread is worth a word, on a geometry that must not go away before."""
    if stop():
        raise Stopped
    units()


@dataclass(frozen=True, slots=True)
class StepsJob(Job):
    """Steps one after the other, on states that the first ones leave for the later ones.

    Attributes:
        steps: in their order.
        states: int64 that they share.
    """

    steps: tuple[Step, ...]
    states: int

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(step.kernel for step in self.steps)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        self.bind(inputs, outputs, find, pool)(stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        states = np.empty(self.states, np.int64) if self.states else None
        here, there, between = source.ctypes.data, target.ctypes.data, 0 if states is None else states.ctypes.data
        steps = [step.bind(between if step.reads_states else here, there, between, find, pool) for step in self.steps]
        return steps[0] if len(steps) == 1 and states is None else partial(_each, steps, states)


def _each(steps: Sequence[Bound], states: Array | None, stop: Stop) -> None:
    """Runs steps one after the other, on states that must not go away meanwhile."""
    for step in steps:
        step(stop)


@dataclass(frozen=True, slots=True)
class ArrayJob(Job):
    """A function of whole arrays, done in slices along the longest dimension; it needs no kernel of ours.

    Attributes:
        apply: takes a slice of the input and the same one of the output.
    """

    apply: Callable[[Array, Array], object]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return ()

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        axis = int(np.argmax(target.shape))
        source, target = np.moveaxis(source, axis, 0), np.moveaxis(target, axis, 0)
        inner = target.size // len(target)

        def piece(begin: int, end: int) -> None:
            self.apply(source[begin:end], target[begin:end])

        pool.run(piece, len(target), max(1, ASKED // inner), stop)
