"""Quantization and dequantization by element, by block, or with dynamic parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from opwire.check import Plan
from opwire.enums import QuantizationType
from opwire.tensor import BufferTensorDesc, DataType

from ..elementwise import InputWalk, input_walk
from ..job import TYPES, Card, CudaMemory, KernelLaunch, Program, SingleProgramJob, device_desc
from ..reduction import loops_parameter
from ..structures import structure

THREADS = 256
LANES = 8

LAUNCH_ELEMENTS = 2**28
"""Maximum number of elements per launch: some milliseconds."""

_TYPES = {**TYPES, DataType.INT4: "i4", DataType.UINT4: "u4"}
_TASK = structure("Task", "loops", "quantization/linear", LOOPS=16)
_NOTHING = InputWalk("NOTHING", ())


class Linear(SingleProgramJob):
    """The job of a quantization or dequantization.

    Args:
        plan: the plan.
        scale, zero_point: names of the parameters; None if they are derived from the extremes.
        quantizes: whether to quantize rather than dequantize.
    """

    def __init__(self, plan: Plan, card: Card, *, scale: str | None, zero_point: str, quantizes: bool) -> None:
        self._is_dynamic = scale is None
        self.state_bytes = 8 if self._is_dynamic else 0  # the extremes
        self._source, self._target = plan.inputs["InputTensor"], device_desc(plan.outputs["OutputTensor"])
        names = ("InputTensor", *((scale, zero_point) if scale else ()))
        self._names = tuple(name for name in names if name in plan.inputs)
        descs = [plan.inputs[name] for name in self._names]
        self._walks = self._walked(descs)
        integers = (self._target if quantizes else self._source).data_type
        kind = getattr(plan.attributes, "QuantizationType", None)
        is_middle = kind is QuantizationType.SCALE and not integers.is_signed
        self._middle = 1 << (integers.bits - 1) if is_middle else 0
        types = [_TYPES[desc.data_type] for desc in descs] + ["u8"] * (3 - len(descs))
        macros: tuple[tuple[str, str | int], ...] = (
            *zip(("SOURCE", "SCALE", "ZERO"), types, strict=True),
            ("TARGET", _TYPES[self._target.data_type]),
            ("LOOPS", 16),
            ("QUANTIZES", int(quantizes)),
            ("DYNAMIC", int(self._is_dynamic)),
            *((f"WALK{number}", walk.kind) for number, walk in enumerate(self._walks)),
        )
        parts = (f"quantization/{each}" for each in ("lanes", "rounded", "linear"))
        self._program = Program(("scalars", "rounding", "loops", *parts), macros)

    def _walked(self, descs: Sequence[BufferTensorDesc]) -> tuple[InputWalk, ...]:
        """Returns how each input is walked: for each dimension, a loop over blocks and a loop within a block."""
        sizes, target = self._target.sizes, self._target.element_strides
        counts = _blocks(descs[1].sizes if len(descs) > 1 else (), sizes)
        order = sorted(range(len(sizes)), key=target.__getitem__, reverse=True)
        walks = []
        for desc in descs:
            axes = []
            for i in order:
                inner = sizes[i] // counts[i]
                step = desc.element_strides[i] if desc.sizes[i] > 1 else 0
                is_blocked = desc.sizes[i] != sizes[i]
                axes += [(counts[i], step if is_blocked else step * inner), (inner, 0 if is_blocked else step)]
            walks.append(input_walk([axis for axis in axes if axis[0] > 1] or [(1, 0)], LANES))
        return (*walks, *(_NOTHING,) * (3 - len(walks)))

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (task,) = whole = np.zeros(1, _TASK)
        for field, name in zip(("source", "scale", "zero"), self._names, strict=False):
            task[field] = memory.inputs[name]
        task["target"], task["extremes"] = memory.outputs["OutputTensor"], memory.state
        task["found_scale"] = memory.outputs.get("OutputScaleTensor", 0)
        task["found_zero"] = memory.outputs.get("OutputZeroPointTensor", 0)
        if not self._target.data_type.is_float:
            task["least"], task["greatest"] = self._target.data_type.limits
        task["middle"] = self._middle
        for number, walk in enumerate(self._walks):
            loops_parameter(walk.loops, task["loops"][number])
        for entry in ("find_extremes", "convert") if self._is_dynamic else ("convert",):
            for first in range(0, self._target.element_count, LAUNCH_ELEMENTS):
                part = whole.copy()
                count = min(LAUNCH_ELEMENTS, self._target.element_count - first)
                part["first"], part["count"] = first, count
                yield KernelLaunch(self._program, entry, (-(-count // (THREADS * LANES)), 1), (THREADS, 1), part)


def _blocks(parameter: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Returns the number of blocks along each dimension."""
    if not parameter:
        return [1] * len(sizes)
    return [count if count != size else 1 for count, size in zip(parameter, sizes, strict=True)]


_BY_ELEMENT = partial(Linear, scale="ScaleTensor", zero_point="ZeroPointTensor")
_BY_BLOCK = partial(Linear, scale="QuantizationTensors[0]", zero_point="QuantizationTensors[1]")

JOBS = {
    "ELEMENT_WISE_QUANTIZE_LINEAR": partial(_BY_ELEMENT, quantizes=True),
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": partial(_BY_ELEMENT, quantizes=False),
    "QUANTIZE": partial(_BY_BLOCK, quantizes=True),
    "DEQUANTIZE": partial(_BY_BLOCK, quantizes=False),
    "DYNAMIC_QUANTIZE_LINEAR": partial(Linear, scale=None, zero_point="", quantizes=True),
}
