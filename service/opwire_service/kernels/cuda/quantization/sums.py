"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwire.check import Plan

from ..elementwise import input_walk
from ..job import TYPES, Card, CudaMemory, KernelLaunch, Program, SingleProgramJob, device_desc
from ..reduction import loops_parameter
from ..structures import structure
from .linear import LANES, LAUNCH_ELEMENTS, THREADS

_PARAMETERS = ("A", "B", "Output")
_TASK = structure("Task", "loops", "quantization/sums", LOOPS=16)


class CudaSumsJob(SingleProgramJob):
    """The job of a quantized addition."""

    def __init__(self, plan: Plan, card: Card) -> None:
        self._target = device_desc(plan.outputs["OutputTensor"])
        descs = [plan.inputs[name] for name in ("ATensor", "BTensor")]
        strides = self._target.element_strides
        order = sorted(range(self._target.rank), key=strides.__getitem__, reverse=True)
        order = [i for i in order if self._target.sizes[i] > 1]
        self._walks = [
            input_walk([(desc.sizes[i], desc.element_strides[i]) for i in order] or [(1, 0)], LANES) for desc in descs
        ]
        macros: tuple[tuple[str, str | int], ...] = (
            *((name, TYPES[desc.data_type]) for name, desc in zip("AB", descs, strict=True)),
            ("TARGET", TYPES[self._target.data_type]),
            ("LOOPS", 16),
            *((f"WALK{number}", walk.kind) for number, walk in enumerate(self._walks)),
        )
        self._program = Program(("scalars", "rounding", "loops", "quantization/lanes", "quantization/sums"), macros)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (task,) = whole = np.zeros(1, _TASK)
        task["a"], task["b"] = memory.inputs["ATensor"], memory.inputs["BTensor"]
        task["target"] = memory.outputs["OutputTensor"]
        task["scale"] = [memory.inputs[f"{name}ScaleTensor"] for name in _PARAMETERS]
        task["zero"] = [memory.inputs.get(f"{name}ZeroPointTensor", 0) for name in _PARAMETERS]
        task["least"], task["greatest"] = self._target.data_type.limits
        for number, walk in enumerate(self._walks):
            loops_parameter(walk.loops, task["loops"][number])
        elements = self._target.element_count
        for first in range(0, elements, LAUNCH_ELEMENTS):
            part = whole.copy()
            count = min(LAUNCH_ELEMENTS, elements - first)
            part["first"], part["count"] = first, count
            yield KernelLaunch(self._program, "add", (-(-count // (THREADS * LANES)), 1), (THREADS, 1), part)


JOBS = {"ELEMENT_WISE_QUANTIZED_LINEAR_ADD": CudaSumsJob}
