"""A plan made ready for the kernels: which, on which geometry, in how many units. It serves any number of runs."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop, Stopped
from ..jit.compiler import Kernel
from .pool import Find, Pool, Task

PIECE = 1 << 17
"""Elements that a thread visits before it looks what else there is to do, if a unit has no more."""

ASKED = 1 << 20
"""Elements that the thread that calls visits between two questions whether to stop."""

THREAD_BYTES = 1 << 19
"""The most that a kernel takes on each thread for tiles of columns, whatever the plan."""


class Job(Protocol):
    """What computes a plan.

    Attributes:
        kernels: those that it calls.
        later: those among them that most runs do without.
    """

    @property
    def kernels(self) -> tuple[Kernel, ...]: ...

    @property
    def later(self) -> tuple[Kernel, ...]:
        return ()

    @property
    def visits(self) -> int:
        """The element visits that a run costs; 0 where those of the plan tell."""
        return 0

    @property
    def method(self) -> str:
        """How it computes, where plans of an operator and a layout may be computed in ways that differ in speed."""
        return ""

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None: ...

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        """Does what can be done once for several runs on the same arrays, one at a time; it keeps the arrays alive."""
        return partial(self.run, inputs, outputs, find, pool)

    def scratch_bytes(self, threads: int) -> int:
        """The most memory that a run on so many threads takes besides its inputs and outputs."""
        return threads * THREAD_BYTES


Kept = Sequence[object]
"""What owns memory whose addresses machine code works on."""


class KernelStep(NamedTuple):
    """A kernel and its units.

    Attributes:
        kernel: what runs.
        geometry: its loops.
        units: how many there are.
        elements: of the input that a unit visits.
        reads_states: whether its input is what an earlier step left.
        called: a kernel that this one calls, and the slot of the geometry where it finds its address.
    """

    kernel: Kernel
    geometry: array[int]
    units: int
    elements: int
    reads_states: bool = False
    called: tuple[int, Kernel] | None = None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (self.kernel,) if self.called is None else (self.kernel, self.called[1])

    def run(self, source: int, target: int, states: int, find: Find, pool: Pool, stop: Stop) -> None:
        self.bind(source, target, states, find, pool)(stop)

    def bind(self, source: int, target: int, states: int, find: Find, pool: Pool, kept: Kept = ()) -> Bound:
        """What runs the step on memory at these addresses, which ``kept`` owns."""
        if self.called is not None:
            slot, kernel = self.called
            self.geometry[slot] = find(kernel).address
        grain = max(1, PIECE // self.elements)
        if self.units > grain:
            asked = max(1, ASKED // (grain * self.elements))
            task = Task(find(self.kernel).address, self.kernel.is_float, self.geometry, self.units, grain, asked)
            return partial(_run_kept, pool.bind(task, source, target, states, find), kept)
        call = find(self.kernel).call
        geometry, _ = self.geometry.buffer_info()
        units = partial(call, 0, source, target, states, geometry, 0, self.units)
        return partial(_at_once, units, (self.geometry, kept))


def _run_kept(bound: Bound, kept: Kept, stop: Stop) -> None:
    """Runs what was bound to memory that must not go away before."""
    bound(stop)


def _at_once(units: Callable[[], object], kept: Kept, stop: Stop) -> None:
    """Runs so few units that no other thread is worth a word, on memory that must not go away before."""
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

    steps: tuple[KernelStep, ...]
    states: int

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple([kernel for step in self.steps for kernel in step.kernels])

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        self.bind(inputs, outputs, find, pool)(stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        states = np.empty(self.states, np.int64) if self.states else None
        here, there, between = source.ctypes.data, target.ctypes.data, 0 if states is None else states.ctypes.data
        kept = source, target, states
        steps = [
            step.bind(between if step.reads_states else here, there, between, find, pool, kept) for step in self.steps
        ]
        return steps[0] if len(steps) == 1 else partial(_each, steps)

    def scratch_bytes(self, threads: int) -> int:
        return 8 * self.states + threads * THREAD_BYTES


def _each(steps: Sequence[Bound], stop: Stop) -> None:
    for step in steps:
        step(stop)


@dataclass(frozen=True, slots=True)
class ArrayJob(Job):
    """A function of whole arrays, done in slices; it needs no kernel of ours.

    Attributes:
        apply: takes a slice of the input and the same one of the output.
    """

    apply: Callable[[Array, Array], object]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return ()

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        self.bind(inputs, outputs, find, pool)(stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        if target.size <= PIECE:
            return partial(_at_once, partial(self.apply, source, target), (source, target))
        order = np.argsort(target.shape)[::-1]
        source, target = source.transpose(order), target.transpose(order)
        # Slices of one dimension, the longest ones, or of the next one where those are too large still.
        outer = next(i for i in range(target.ndim) if prod(target.shape[i + 1 :]) <= PIECE)
        grain = max(1, PIECE // prod(target.shape[outer + 1 :]))
        slices = *target.shape[:outer], -(-target.shape[outer] // grain)

        def piece(begin: int, end: int) -> None:
            for unit in range(begin, end):
                *place, number = map(int, np.unravel_index(unit, slices))
                part: tuple[Any, ...] = (*place, slice(number * grain, (number + 1) * grain))
                self.apply(source[part], target[part])

        return partial(pool.run, piece, prod(slices), 1)

    def scratch_bytes(self, threads: int) -> int:
        return 0
