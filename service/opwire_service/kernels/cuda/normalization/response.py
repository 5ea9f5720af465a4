"""LOCAL_RESPONSE_NORMALIZATION."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop, Stopped
from ...exact import FORMATS
from ...reference.local_response import response_of
from ..job import MOST_UNDECIDED, TYPES, Card, CudaMemory, KernelLaunch, Program, SingleProgramJob, device_desc
from ..nests import NestLoop, coordinates_at, merged, offsets, size_of, strided, write_nest
from ..structures import structure

THREADS = 128

READS_PER_THREAD = 64
"""Minimum elements of a region per thread where several threads share it."""

LAUNCH_READS = 2**30
"""Maximum reads per launch, so that it takes only a few milliseconds."""


_TENSORS = 4
_TASK = structure("Task", "nests", "normalization/response", TENSORS=_TENSORS)


class Response(SingleProgramJob):
    """Job that computes LOCAL_RESPONSE_NORMALIZATION."""

    def __init__(self, plan: Plan, card: Card) -> None:
        self._plan, self._source = plan, plan.inputs["InputTensor"]
        self._target = device_desc(plan.outputs["OutputTensor"])
        self._room = min(self._target.element_count, MOST_UNDECIDED)
        self._along = (1,) if plan.attributes.CrossChannel else (2, 3)
        self._region = prod(min(plan.attributes.LocalSize, self._source.sizes[i]) for i in self._along)
        strides = self._target.element_strides
        axes = []
        for i in sorted(range(self._target.rank), key=strides.__getitem__, reverse=True):
            places = [int(number < len(self._along) and self._along[number] == i) for number in range(2)]
            axes.append(NestLoop(self._target.sizes[i], (self._source.element_strides[i], strides[i], *places)))
        self._nest = merged(axes)
        is_half = self._source.data_type is DataType.FLOAT16
        error = (self._region + 16) * 2.0**-53
        macros: tuple[tuple[str, str | int], ...] = (
            ("ELEMENT", TYPES[self._source.data_type]),
            ("TENSORS", _TENSORS),
            ("THREADS", THREADS),
            ("ENOUGH", float(2.0**-13 if is_half else 2.0**-26).hex()),
            ("ERROR", error.hex()),
        )
        sources = ("scalars", "nests", "normalization/numbers", "normalization/response")
        self._program = Program(sources, macros)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (task,) = whole = np.zeros(1, _TASK)
        attributes, outputs = self._plan.attributes, self._target.element_count
        task["source"], task["target"] = memory.inputs["InputTensor"], memory.outputs["OutputTensor"]
        task["undecided"], task["room"] = memory.undecided, self._room
        task["share"] = attributes.Alpha / attributes.LocalSize
        task["beta"], task["bias"] = attributes.Beta, attributes.Bias
        task["before"], task["after"] = (attributes.LocalSize - 1) // 2, attributes.LocalSize // 2
        task["size"] = 1
        for number, i in enumerate(self._along):
            task["size"][number], task["step"][number] = self._source.sizes[i], self._source.element_strides[i]
        write_nest(self._nest, task["nest"])
        sharing = min(THREADS, 1 << (max(1, self._region // READS_PER_THREAD).bit_length() - 1))
        block = sharing, THREADS // sharing
        piece = max(1, LAUNCH_READS // self._region)
        for first in range(0, outputs, piece):
            part = whole.copy()
            count = min(piece, outputs - first)
            part["first"], part["outputs"] = first, count
            yield KernelLaunch(self._program, "respond", (-(-count // block[1]), 1), block, part)

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.settle``; a place is the index of an output element in memory order, and 0."""
        numbers = np.arange(size_of(self._nest)) if places is None else places[:, 0]
        flat, to = inputs["InputTensor"], FORMATS[self._source.data_type]
        source = strided(self._source, flat)
        found = response_of(self._plan, source, to, stop)
        for place in offsets(self._nest, numbers, 1).tolist():
            if stop():
                raise Stopped
            outputs["OutputTensor"][place] = found(coordinates_at(self._target, place))


JOBS = {"LOCAL_RESPONSE_NORMALIZATION": Response}
