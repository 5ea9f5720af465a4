"""Spreads a dense tensor to a layout with gaps, as kernels never write such outputs themselves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwire.check import Plan

from ..layout import Loop
from .job import CudaMemory, KernelLaunch, Program, SingleProgramJob
from .reduction import loops_parameter
from .structures import structure

THREADS = 256

LAUNCH_ELEMENTS = 2**28
"""Maximum number of elements per launch: some milliseconds."""

_WORDS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_TASK = structure("Task", "loops", "spread", LOOPS=8)


class Spread(SingleProgramJob):
    """The job of a plan that copies its only input, which is dense, to its only output."""

    def __init__(self, plan: Plan) -> None:
        ((self._source, source),) = plan.inputs.items()
        ((self._target, target),) = plan.outputs.items()
        self._count = source.element_count
        self._loops = [Loop(size, 0, step) for size, step in zip(target.sizes, target.element_strides, strict=True)]
        self._program = Program(("scalars", "loops", "spread"), (("WORD", _WORDS[target.data_type.dtype.itemsize]),))

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (task,) = whole = np.zeros(1, _TASK)
        task["source"], task["target"] = memory.inputs[self._source], memory.outputs[self._target]
        loops_parameter(self._loops, task["loops"])
        for first in range(0, self._count, LAUNCH_ELEMENTS):
            part = whole.copy()
            count = min(LAUNCH_ELEMENTS, self._count - first)
            part["first"], part["count"] = first, count
            yield KernelLaunch(self._program, "spread", (-(-count // THREADS), 1), (THREADS, 1), part)
