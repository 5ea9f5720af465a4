"""RESAMPLE_GRAD and RESAMPLE_GRAD1."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ...reference.resampling import gathered
from ...sampling import ResampledAxis, is_linear, resampled_axes, rounding_of
from ..job import MOST_UNDECIDED, TYPES, Card, CudaMemory, KernelLaunch, Program, SingleProgramJob, device_desc
from ..nests import Nest, NestLoop, coordinates_at, merged, offsets, size_of, strided, write_nest
from ..structures import structure
from .resample import LAUNCH_READS, RANK, THREADS, is_plain

_TENSORS = 2 + RANK
_TASK = structure("Task", "nests", "resampling/coordinates", "resampling/gradient", TENSORS=_TENSORS)


def _reads(axis: ResampledAxis) -> int:
    """Returns about how many outputs read an element."""
    return axis.outputs if axis.is_nowhere else -(-axis.outputs // axis.size) + 1


class ResamplingGradient(SingleProgramJob):
    """The job of a resampling gradient."""

    def __init__(self, plan: Plan, card: Card) -> None:
        self._plan, self._source = plan, plan.inputs["InputGradientTensor"]
        self._target = device_desc(plan.outputs["OutputGradientTensor"])
        self._room = min(self._target.element_count, MOST_UNDECIDED)
        self._axes = resampled_axes(plan, self._target.sizes, self._source.sizes)
        self._resampled = [i for i, axis in enumerate(self._axes) if axis.outputs != axis.size or not is_plain(axis)]
        self._reads = prod(map(_reads, (self._axes[i] for i in self._resampled)))
        self._nest = self._made_nest()
        macros: tuple[tuple[str, str | int], ...] = (
            ("ELEMENT", TYPES[self._source.data_type]),
            ("TENSORS", _TENSORS),
            ("RESAMPLED", len(self._resampled)),
            ("LINEAR", int(is_linear(plan.attributes))),
            ("ROUNDING", rounding_of(plan).name),
        )
        sources = ("scalars", "rounding", "nests", "resampling/coordinates", "resampling/weighted")
        self._program = Program((*sources, "resampling/gradient"), macros)

    def _made_nest(self) -> Nest:
        strides = self._target.element_strides
        axes = []
        for i in sorted(range(self._target.rank), key=strides.__getitem__, reverse=True):
            places = [int(i == other) for other in self._resampled] + [0] * (RANK - len(self._resampled))
            step = 0 if i in self._resampled else self._source.element_strides[i]
            axes.append(NestLoop(self._target.sizes[i], (step, strides[i], *places)))
        return merged(axes)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (task,) = whole = np.zeros(1, _TASK)
        task["source"], task["target"] = memory.inputs["InputGradientTensor"], memory.outputs["OutputGradientTensor"]
        task["undecided"], task["room"] = memory.undecided, self._room
        for number, i in enumerate(self._resampled):
            axis, step = self._axes[i], self._source.element_strides[i]
            task["outputs"][number] = axis.outputs
            task["axis"][number] = (
                axis.size,
                step,
                axis.scale,
                axis.input_offset,
                axis.output_offset,
                int(axis.is_usual),
            )
        write_nest(self._nest, task["nest"])
        elements = self._target.element_count
        piece = max(1, LAUNCH_READS // (32 * self._reads))
        for first in range(0, elements, piece):
            part = whole.copy()
            count = min(piece, elements - first)
            part["first"], part["count"] = first, count
            yield KernelLaunch(self._program, "gather", (-(-count // THREADS), 1), (THREADS, 1), part)

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.settle``; a place is the number of an output in memory order, and 0."""
        numbers = np.arange(size_of(self._nest)) if places is None else places[:, 0]
        flat, target = inputs["InputGradientTensor"], outputs["OutputGradientTensor"]
        source = strided(self._source, flat)
        for place in offsets(self._nest, numbers, 1).tolist():
            if stop():
                raise Stopped
            at = coordinates_at(self._target, place)
            target[place] = gathered(self._plan, self._axes, source, stop, at, target)


JOBS = dict.fromkeys(("RESAMPLE_GRAD", "RESAMPLE_GRAD1"), ResamplingGradient)
