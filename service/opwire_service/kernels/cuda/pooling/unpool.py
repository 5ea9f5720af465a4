"""MAX_UNPOOLING: determines first which element is the last to write each output place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwire.check import Plan

from ..job import TYPES, Card, CudaMemory, KernelLaunch, Program, SingleProgramJob, device_desc
from ..nests import Nest, NestLoop, merged, write_nest
from ..structures import structure

THREADS = 256

LAUNCH_ELEMENTS = 2**28
"""Maximum number of elements per launch: some milliseconds."""

_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_TENSORS = 2
_TASK = structure("Task", "nests", "pooling/unpool", TENSORS=_TENSORS)


class Unpooling(SingleProgramJob):
    """The job of a MAX_UNPOOLING plan."""

    def __init__(self, plan: Plan, card: Card) -> None:
        source, indices = plan.inputs["InputTensor"], plan.inputs["IndicesTensor"]
        self._target = device_desc(plan.outputs["OutputTensor"])
        self._elements = source.element_count
        self.state_bytes = 4 * self._target.element_count
        self._from = _rows(source.sizes, source.element_strides, indices.element_strides)
        self._to = _rows(self._target.sizes, self._target.element_strides, (0,) * self._target.rank)
        macros: tuple[tuple[str, str | int], ...] = (
            ("ELEMENT", _UNSIGNED[source.data_type.dtype.itemsize]),
            ("INDEX", TYPES[indices.data_type]),
            ("TENSORS", _TENSORS),
        )
        self._program = Program(("scalars", "nests", "pooling/unpool"), macros)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (task,) = whole = np.zeros(1, _TASK)
        task["source"], task["indices"] = memory.inputs["InputTensor"], memory.inputs["IndicesTensor"]
        task["target"], task["owner"] = memory.outputs["OutputTensor"], memory.state
        task["elements"] = self._target.element_count
        write_nest(self._from, task["from"])
        write_nest(self._to, task["to"])
        for entry, elements in (("find_owners", self._elements), ("put_elements", self._target.element_count)):
            for first in range(0, elements, LAUNCH_ELEMENTS):
                part = whole.copy()
                part["first"], part["count"] = first, min(LAUNCH_ELEMENTS, elements - first)
                blocks = -(-int(part["count"][0]) // THREADS)
                yield KernelLaunch(self._program, entry, (blocks, 1), (THREADS, 1), part)


def _rows(sizes: tuple[int, ...], *strides: tuple[int, ...]) -> Nest:
    """Returns row-major loops over tensors of equal sizes."""
    return merged(NestLoop(size, tuple(each[i] for each in strides)) for i, size in enumerate(sizes))


JOBS = {"MAX_UNPOOLING": Unpooling}
