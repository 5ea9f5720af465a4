"""Jobs: plans prepared for the kernels, with kernel, geometry and number of units. A job serves any number of runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop, Stopped
from ..jit.compiler import Kernel
from .pool import Find, Pool, Task

PIECE = 1 << 17
"""Elements a thread visits per piece of work, unless a single unit has more."""

ASKED = 1 << 20
"""Elements the calling thread visits between two polls of ``stop``."""

THREAD_BYTES = 1 << 19
"""Maximum scratch memory of a kernel per thread for tiles of columns, in bytes, whatever the plan."""


class ScratchBytes(NamedTuple):
    """Maximum memory of a run besides inputs and outputs, in bytes.

    Attributes:
        thread: memory of each thread that works.
        shared: memory of the run as a whole.
        units: number of units of work, and so of threads that may work at once.
    """

    thread: int = 0
    shared: int = 0
    units: int = sys.maxsize

    def on(self, threads: int) -> int:
        return self.shared + min(threads, self.units) * self.thread


class Job:
    """Computes a plan: defines ``run``, or ``bind`` if runs on the same arrays can share work.

    Attributes:
        kernels: the kernels it calls.
        later: those among them that most runs do without.
    """

    _kernels: tuple[Kernel, ...] = ()
    _visits = 0
    _scratch = ScratchBytes(thread=THREAD_BYTES)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return self._kernels

    @property
    def later(self) -> tuple[Kernel, ...]:
        return ()

    @property
    def visits(self) -> int:
        """Cost of a run in element visits; 0 to use the plan's own estimate."""
        return self._visits

    @property
    def method(self) -> str:
        """Name of the algorithm, where plans with the same operator and layout may differ in speed."""
        return ""

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        self.bind(inputs, outputs, find, pool)(stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        """Does the work shared by several runs on the same arrays, which it keeps alive; runs must not overlap."""
        return partial(self.run, inputs, outputs, find, pool)

    def bind_fixed(self, fixed: Collection[str], inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        """Does what ``bind`` does, and prepares the inputs of these names, whose elements never change, only once."""
        return self.bind(inputs, outputs, find, pool)

    @property
    def fixed_bytes(self) -> int:
        """The maximum memory, in bytes, of what ``bind_fixed`` prepares of inputs that never change."""
        return 0

    def scratch_bytes(self, threads: int) -> int:
        """Returns the maximum memory of a run, in bytes, on this many threads, besides inputs and outputs."""
        return self._scratch.on(threads)


Kept = Sequence[object]
"""Owners of the memory whose addresses machine code uses."""


class KernelStep(NamedTuple):
    """One kernel launch over a number of units.

    Attributes:
        kernel: the kernel to run.
        geometry: its loops, a record or an array of int64.
        units: number of units.
        elements: input elements that a unit visits.
        called: a kernel that this one calls, with the field of its geometry that receives the address.
    """

    kernel: Kernel
    geometry: Any
    units: int
    elements: int
    called: tuple[str, Kernel] | None = None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (self.kernel,) if self.called is None else (self.kernel, self.called[1])

    def run(self, source: int, target: int, states: int, find: Find, pool: Pool, stop: Stop) -> None:
        self.bind(source, target, states, find, pool)(stop)

    def bind(self, source: int, target: int, states: int, find: Find, pool: Pool, kept: Kept = ()) -> Bound:
        """Returns a function that runs the step on memory at these addresses; ``kept`` owns that memory."""
        if self.called is not None:
            field, kernel = self.called
            setattr(self.geometry, field, find(kernel).address)
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
    """Runs a bound step while keeping its memory alive."""
    bound(stop)


def _at_once(units: Callable[[], object], kept: Kept, stop: Stop) -> None:
    """Runs a step too small to be shared with other threads, while keeping its memory alive."""
    if stop():
        raise Stopped
    units()


class StepsJob(Job):
    """Steps that run one after the other and pass on states.

    Args:
        steps: the steps in execution order.
        states: size of the shared states, in int64.
    """

    def __init__(self, steps: tuple[KernelStep, ...], states: int) -> None:
        self._steps, self._states = steps, states
        self._kernels = tuple([kernel for step in steps for kernel in step.kernels])
        self._scratch = ScratchBytes(thread=THREAD_BYTES, shared=8 * states)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        states = np.empty(self._states, np.int64) if self._states else None
        here, there, between = source.ctypes.data, target.ctypes.data, 0 if states is None else states.ctypes.data
        kept = source, target, states
        steps = [step.bind(here, there, between, find, pool, kept) for step in self._steps]
        return steps[0] if len(steps) == 1 else partial(_each, steps)


def _each(steps: Sequence[Bound], stop: Stop) -> None:
    for step in steps:
        step(stop)


@dataclass(frozen=True, slots=True)
class ArrayJob(Job):
    """Applies a NumPy function of whole arrays in slices; it needs no compiled kernel.

    Attributes:
        apply: takes a slice of the input and the matching slice of the output.
    """

    apply: Callable[[Array, Array], object]
    _scratch = ScratchBytes()

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        if target.size <= PIECE:
            return partial(_at_once, partial(self.apply, source, target), (source, target))
        order = np.argsort(target.shape)[::-1]
        source, target = source.transpose(order), target.transpose(order)
        # Slice the longest dimension, or the next ones too where its slices would still be too large.
        outer = next(i for i in range(target.ndim) if prod(target.shape[i + 1 :]) <= PIECE)
        grain = max(1, PIECE // prod(target.shape[outer + 1 :]))
        slices = *target.shape[:outer], -(-target.shape[outer] // grain)

        def piece(unit: int) -> None:
            *place, number = map(int, np.unravel_index(unit, slices))
            part: tuple[Any, ...] = (*place, slice(number * grain, (number + 1) * grain))
            self.apply(source[part], target[part])

        return partial(pool.each, piece, prod(slices))
