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
from ..run.job import THREAD_BYTES, Job, KernelStep, ScratchBytes, StepsJob
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


class _FlaggedJob(StepsJob):
    """A reduction whose kernels may flag output elements, for exact arithmetic to compute."""

    def __init__(
        self, steps: tuple[KernelStep, ...], states: int, exact: Exact, work: ReductionTiling[FloatReduction]
    ) -> None:
        super().__init__(steps, states)
        self._exact, self._work = exact, work
        self._scratch = ScratchBytes(thread=THREAD_BYTES, shared=8 * states + _EXACT_BYTES)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target, states = inputs["InputTensor"], outputs["OutputTensor"], np.empty(self._states, np.int64)
        addresses = source.ctypes.data, target.ctypes.data, states.ctypes.data
        steps = [step.bind(*addresses, find, pool) for step in self._steps]
        return partial(self._run, steps, source, target, states.view(np.int8)[: self._work.outputs])

    def _run(self, steps: list[Bound], source: Array, target: Array, flags: Array, stop: Stop) -> None:
        flags.fill(0)
        for step in steps:
            step(stop)
        for start in range(0, flags.size, _FLAGS):
            if start and stop():
                raise Stopped
            for place in np.flatnonzero(flags[start : start + _FLAGS]).tolist():
                self._settle(start + place, source, target, stop)

    def _settle(self, output: int, source: Array, target: Array, stop: Stop) -> None:
        layout = self._work.layout
        place = np.unravel_index(output, [loop.size for loop in layout.kept]) if layout.kept else ()
        loops = list(zip(map(int, place), layout.kept, strict=True))
        elements = _view(source, sum(i * loop.source for i, loop in loops), layout.reduced)
        result = self._exact(Elements(elements, stop, _EXACT_CHUNK))
        _view(target, sum(i * loop.target for i, loop in loops), ())[...] = result


def _view(array: Array, offset: int, loops: tuple[Loop, ...]) -> Array:
    """Returns the elements that loops visit, starting ``offset`` elements into an array's memory."""
    item = array.itemsize
    first = as_strided(array, (offset + 1,), (item,))[offset:]
    return as_strided(first, [loop.size for loop in loops], [loop.source * item for loop in loops])
