"""AVERAGE_POOLING_GRAD and MAX_POOLING_GRAD."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop, Stopped
from ...exact import FORMATS
from ...reference.max_pooling import WindowWinners, max_gradient_of
from ...reference.pooling import average_gradient_of
from ...windows import dimensions_of
from ..job import MOST_UNDECIDED, TYPES, Card, CudaMemory, KernelLaunch, Program, SingleProgramJob, device_desc
from ..nests import coordinates_at, offsets, size_of, strided, write_nest
from ..structures import structure
from .averages import LAUNCH_READS, SPATIAL, THREADS, needs_64_bits, padded_dimensions, window_nest

_TENSORS = 3 + SPATIAL
_MEMBERS = ("size", "stride", "window", "start", "outputs", "step", "dilation", "pooled_step")

_GRADIENT = structure("Gradient", "nests", "pooling/gradient", TENSORS=_TENSORS)


class PoolingGradient(SingleProgramJob):
    """The job of a pooling gradient plan."""

    def __init__(self, plan: Plan, card: Card) -> None:
        self._plan, self._source = plan, plan.inputs["InputGradientTensor"]
        self._target = device_desc(plan.outputs["OutputGradientTensor"])
        self._room = min(self._target.element_count, MOST_UNDECIDED)
        self._dimensions = padded_dimensions(dimensions_of(plan.attributes, self._target.sizes, self._source.sizes))
        self._pooled = plan.inputs.get("InputTensor")
        self._nest = window_nest(self._source, self._target, self._pooled)
        kind = TYPES[self._source.data_type]
        wins = self._pooled is not None
        flags = {"WINS": int(wins), "MEAN": int(not wins), "MAGNITUDE": 0, "SQUARED": 0, "ROOT": 0, "LOGARITHM": 0}
        macros: tuple[tuple[str, str | int], ...] = (
            ("INPUT", kind),
            ("OUTPUT", kind),
            ("PASS", "ONLY"),
            ("HALF", int(self._source.data_type is DataType.FLOAT16)),
            ("POSITION", "i64" if needs_64_bits(self._dimensions) else "i32"),
            ("TENSORS", _TENSORS),
            ("THREADS", THREADS),
            *flags.items(),
        )
        self._program = Program(("scalars", "types", "rounding", "nests", "sums", "pooling/gradient"), macros)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (task,) = whole = np.zeros(1, _GRADIENT)
        task["source"], task["target"] = memory.inputs["InputGradientTensor"], memory.outputs["OutputGradientTensor"]
        task["undecided"], task["room"] = memory.undecided, self._room
        if self._pooled is not None:
            task["pooled"] = memory.inputs["InputTensor"]
        elif self._plan.attributes.IncludePadding:
            task["divisor"] = prod(dimension.window for dimension in self._dimensions)
        missing = SPATIAL - (self._source.rank - 2)
        for i, row in enumerate(self._dimensions):
            outputs, step, pooled_step = 1, 0, 0
            if i >= missing:
                outputs, step = self._source.sizes[2 + i - missing], self._source.element_strides[2 + i - missing]
                pooled_step = 0 if self._pooled is None else self._pooled.element_strides[2 + i - missing]
            members = row.size, row.stride, row.window, row.start, outputs, step, row.dilation, pooled_step
            task["dimension"][i] = members
        write_nest(self._nest, task["nest"])
        elements = self._target.element_count
        reads = prod(-(-dimension.dilated_window // dimension.stride) for dimension in self._dimensions)
        if self._pooled is not None:
            reads *= prod(dimension.window for dimension in self._dimensions)
        piece = max(1, LAUNCH_READS // reads)
        for first in range(0, elements, piece):
            part = whole.copy()
            count = min(piece, elements - first)
            part["first"], part["outputs"] = first, count
            yield KernelLaunch(self._program, "share_out", (-(-count // THREADS), 1), (THREADS, 1), part)

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.settle``; a place is the number of an output in memory order, and 0."""
        numbers = np.arange(size_of(self._nest)) if places is None else places[:, 0]
        to, target = FORMATS[self._source.data_type], outputs["OutputGradientTensor"]
        views = {name: strided(desc, inputs[name]) for name, desc in self._plan.inputs.items()}
        source, attributes = views["InputGradientTensor"], self._plan.attributes
        dimensions = dimensions_of(attributes, self._target.sizes)
        winners = None if self._pooled is None else WindowWinners(views["InputTensor"], dimensions, stop)
        for place in offsets(self._nest, numbers, 1).tolist():
            if stop():
                raise Stopped
            at = coordinates_at(self._target, place)
            if winners is None:
                target[place] = average_gradient_of(attributes, dimensions, source, at, stop).rounded(to)
            else:
                target[place] = max_gradient_of(winners, source, at, to)


JOBS = dict.fromkeys(("AVERAGE_POOLING_GRAD", "MAX_POOLING_GRAD"), PoolingGradient)
