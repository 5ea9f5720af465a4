"""Jobs of float reductions: the steps of the kernels, and exact arithmetic for what these flag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop, Stopped
from ...layout import Loop
from ...reference.elements import Elements
from ..jit.compiler import Kernel
from ..numbers.vectors import WIDTH
from ..run.job import THREAD_BYTES, Job, KernelStep, StepsJob
from ..run.pool import Find, Pool
from ..run.tiling import ReductionTiling
from .geometry import FloatReduction

Exact = Callable[[Elements], Any]
"""Computes the exact result of some elements, however long it takes."""

_EXACT_CHUNK = 4096
"""Elements that exact arithmetic processes between two polls of ``stop``."""

_EXACT_BYTES = 1 << 20
"""Maximum memory of exact arithmetic on one such chunk, in bytes."""

_FLAGS = 1 << 16
"""Flags of output elements scanned at once."""


@dataclass(frozen=True, slots=True)
class FamilyKernels:
    """The kernels of a family of float reductions, see ``blocks``.

    Attributes:
        rows, columns, finish, settle: the kernels.
        parts: parts of a state.
        settled: number of elements up to which ``settle`` leaves nothing undecided.
    """

    rows: Any
    columns: Any
    finish: Any
    settle: Any
    parts: int
    settled: int

    @property
    def functions(self) -> tuple[Any, ...]:
        return self.rows, self.columns, self.finish, self.settle


def float_job(family: FamilyKernels, work: ReductionTiling[FloatReduction], element: Any, exact: Exact | None) -> Job:
    """Returns the job of a reduction that has been cut into units; ``exact`` computes what the kernels flag."""
    settle = ("settle", Kernel(family.settle, element))
    function = family.columns if work.by_columns else family.rows
    steps = [KernelStep(Kernel(function, element), work.geometry, work.units, work.elements)]
    states = -(-work.outputs // 8)  # the flags
    if work.segments > 1:
        steps.append(KernelStep(Kernel(family.finish, element), work.whole, work.outputs, work.segments))
        # Vector loads may reach past the last state.
        states += work.outputs * work.segments * family.parts + WIDTH
    steps[-1] = steps[-1]._replace(called=settle)
    if exact is None or work.layout.reduced_count <= family.settled:
        return StepsJob(tuple(steps), states if work.segments > 1 else 0)
    return _FlaggedJob(tuple(steps), states, exact, work)


@dataclass(frozen=True, slots=True)
class _FlaggedJob(Job):
    """A reduction whose kernels may flag output elements, for exact arithmetic to compute."""

    steps: tuple[KernelStep, ...]
    states: int
    exact: Exact
    work: ReductionTiling[FloatReduction]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple([kernel for step in self.steps for kernel in step.kernels])

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target, states = inputs["InputTensor"], outputs["OutputTensor"], np.empty(self.states, np.int64)
        addresses = source.ctypes.data, target.ctypes.data, states.ctypes.data
        steps = [step.bind(*addresses, find, pool) for step in self.steps]
        return partial(self._run, steps, source, target, states.view(np.int8)[: self.work.outputs])

    def _run(self, steps: list[Bound], source: Array, target: Array, flags: Array, stop: Stop) -> None:
        flags.fill(0)
        for step in steps:
            step(stop)
        for start in range(0, flags.size, _FLAGS):
            if start and stop():
                raise Stopped
            for place in np.flatnonzero(flags[start : start + _FLAGS]).tolist():
                self._compute_exactly(start + place, source, target, stop)

    def _compute_exactly(self, output: int, source: Array, target: Array, stop: Stop) -> None:
        layout = self.work.layout
        place = np.unravel_index(output, [loop.size for loop in layout.kept]) if layout.kept else ()
        loops = list(zip(map(int, place), layout.kept, strict=True))
        elements = _view(source, sum(i * loop.source for i, loop in loops), layout.reduced)
        result = self.exact(Elements(elements, stop, _EXACT_CHUNK))
        _view(target, sum(i * loop.target for i, loop in loops), ())[...] = result

    def scratch_bytes(self, threads: int) -> int:
        return 8 * self.states + _EXACT_BYTES + threads * THREAD_BYTES


def _view(array: Array, offset: int, loops: tuple[Loop, ...]) -> Array:
    """Returns the elements that loops visit, starting ``offset`` elements into an array's memory."""
    item = array.itemsize
    first = as_strided(array, (offset + 1,), (item,))[offset:]
    return as_strided(first, [loop.size for loop in loops], [loop.source * item for loop in loops])
