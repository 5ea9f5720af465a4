"""AVERAGE_POOLING_GRAD."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop, Stopped
from ...exact import FORMATS
from ...reference.pooling import average_gradient_of
from ...windows import dimensions_of
from ..job import TYPES, CudaMemory, KernelLaunch, Program, device_desc
from ..nests import coordinates_at, nest_dtype, offsets, size_of, write_nest
from .averages import LAUNCH_READS, SPATIAL, THREADS, UNCERTAIN, needs_64_bits, padded_dimensions, window_nest

_TENSORS = 2 + SPATIAL
_DIMENSION = np.dtype([(name, "<u4") for name in ("size", "stride", "window", "start", "outputs", "step")])
_GRADIENT = np.dtype(
    [
        *((name, "<u8") for name in ("source", "target", "uncertain")),
        *((name, "<u4") for name in ("first", "outputs", "room", "divisor")),
        ("dimension", _DIMENSION, (SPATIAL,)),
        ("nest", nest_dtype(_TENSORS)),
    ]
)


class AverageGradient:
    """The job."""

    scratch_bytes = 0
    state_bytes = 0

    def __init__(self, plan: Plan, processors: int) -> None:
        self._plan, self._source = plan, plan.inputs["InputGradientTensor"]
        self._target = device_desc(plan.outputs["OutputGradientTensor"])
        self._dimensions = padded_dimensions(dimensions_of(plan.attributes, self._target.sizes))
        self._nest = window_nest(self._source, self._target)
        kind = TYPES[self._source.data_type]
        flags = {"MEAN": 1, "MAGNITUDE": 0, "SQUARED": 0, "ROOT": 0, "LOGARITHM": 0}
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

    @property
    def programs(self) -> tuple[Program, ...]:
        return (self._program,)

    @property
    def uncertain_bytes(self) -> int:
        return 8 + 8 * self._room

    @property
    def _room(self) -> int:
        return min(self._target.element_count, UNCERTAIN)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (task,) = whole = np.zeros(1, _GRADIENT)
        task["source"], task["target"] = memory.inputs["InputGradientTensor"], memory.outputs["OutputGradientTensor"]
        task["uncertain"], task["room"] = memory.uncertain, self._room
        if self._plan.attributes.IncludePadding:
            task["divisor"] = prod(dimension.window for dimension in self._dimensions)
        missing = SPATIAL - (self._source.rank - 2)
        for i, row in enumerate(self._dimensions):
            outputs, step = 1, 0
            if i >= missing:
                outputs, step = self._source.sizes[2 + i - missing], self._source.element_strides[2 + i - missing]
            task["dimension"][i] = (row.size, row.stride, row.window, row.start, outputs, step)
        write_nest(self._nest, task["nest"])
        elements = self._target.element_count
        reads = prod(-(-dimension.window // dimension.stride) for dimension in self._dimensions)
        piece = max(1, LAUNCH_READS // reads)
        for first in range(0, elements, piece):
            part = whole.copy()
            count = min(piece, elements - first)
            part["first"], part["outputs"] = first, count
            yield KernelLaunch(self._program, "share_out", (-(-count // THREADS), 1), (THREADS, 1), part)

    def recompute(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.recompute``; a place is the number of an output in the order of its memory, and 0."""
        numbers = np.arange(size_of(self._nest)) if places is None else places[:, 0]
        flat, to = inputs["InputGradientTensor"], FORMATS[self._source.data_type]
        strides = [step * flat.itemsize for step in self._source.element_strides]
        source = np.lib.stride_tricks.as_strided(flat, self._source.sizes, strides, writeable=False)
        dimensions = dimensions_of(self._plan.attributes, self._target.sizes)
        for place in offsets(self._nest, numbers, 1).tolist():
            if stop():
                raise Stopped
            at = coordinates_at(self._target, place)
            total = average_gradient_of(self._plan.attributes, dimensions, source, at, stop)
            outputs["OutputGradientTensor"][place] = total.rounded(to)


JOBS = {"AVERAGE_POOLING_GRAD": AverageGradient}
