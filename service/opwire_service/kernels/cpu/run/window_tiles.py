"""Jobs of poolings: one kernel launch, whose units are tiles of outputs."""

from __future__ import annotations

from typing import Any

from ....execution import Arrays, Bound
from .job import Job, KernelStep, ScratchBytes
from .pool import Find, Pool

_SMALL = 1 << 13
"""Memory of a thread that is not worth counting, in bytes."""


class WindowTilesJob(Job):
    """A single step whose units are tiles of outputs.

    Args:
        step: the kernel launch.
        room: the function with which the kernel counts the memory of a thread, in numbers, or None for some KiB.
        visits: cost of a run, in element visits.
        place: bytes of each number that the kernel uses.
        source, target: names of the tensors; indices go to ``OutputIndicesTensor``, if the plan has it.
    """

    def __init__(
        self,
        step: KernelStep,
        room: Any,
        visits: int,
        source: str = "InputTensor",
        target: str = "OutputTensor",
        place: int = 8,
    ) -> None:
        self._step = step
        self._kernels = (step.kernel,)
        memory = _SMALL if room is None else place * room.py_func(step.geometry)
        self._scratch = ScratchBytes(thread=memory, units=step.units)
        self._visits = visits
        self._source = source
        self._target = target

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, values = inputs[self._source], outputs[self._target]
        indices = outputs.get("OutputIndicesTensor")
        positions = 0 if indices is None else indices.ctypes.data
        kept = source, values, indices
        return self._step.bind(source.ctypes.data, values.ctypes.data, positions, find, pool, kept)
