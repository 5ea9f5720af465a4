"""Fills the outputs of a convolution for which infinite or NaN weights meet a 0 of padding or of gaps."""

from __future__ import annotations

from math import gcd, prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import BufferTensorDesc

from ...activation import activated
from ...convolutions import ConvolutionGeometry
from ...formulas.resolve import as_fused
from ..job import CudaMemory, KernelLaunch, Program
from ..structures import structure
from .tiles import SPATIAL

THREADS = 256

SHARE = 1 << 14
"""Outputs of a channel that justify another block."""

MOST_BLOCKS = 64
"""Maximum number of blocks of a channel, each of which looks at all its weights."""

_SIZES = ("size", "window", "target", "stride", "dilation", "start", "period", "weight_step", "target_step")
_NUMBERS = ("inputs", "outputs", "images", "value", "group_step", "output_step", "input_step", "image_step")
_TASK = structure("Task", "products/gaps")


class GapFilling:
    """A launch after those of a convolution whose weights meet zeros."""

    def __init__(self, plan: Plan, geometry: ConvolutionGeometry, target: BufferTensorDesc) -> None:
        item_bytes = target.data_type.dtype.itemsize
        macros: tuple[tuple[str, str | int], ...] = (
            ("ELEMENT", f"u{8 * item_bytes}"),
            ("EXPONENT", "0x7c00" if item_bytes == 2 else "0x7f800000"),
            ("TRANSPOSED", int(geometry.is_transposed)),
            ("MIRRORED", int(geometry.is_mirrored)),
        )
        self.program = Program(("scalars", "products/gaps"), macros)
        self._task = np.zeros(1, _TASK)
        self._set_numbers(plan, geometry, target)
        self._set_lines(plan, geometry, target)
        outputs = geometry.images * prod(line.target for line in geometry.lines)
        self._grid = geometry.groups * geometry.filters, max(1, min(outputs // SHARE, MOST_BLOCKS))

    def _set_numbers(self, plan: Plan, geometry: ConvolutionGeometry, target: BufferTensorDesc) -> None:
        outer, inner, *_ = plan.inputs["FilterTensor"].element_strides
        own = (outer, inner) if geometry.is_transposed else (inner, outer)
        filled = activated(as_fused(plan.attributes.FusedActivation), np.full(1, np.nan))
        values = {
            "inputs": geometry.channels,
            "outputs": geometry.filters,
            "images": geometry.images,
            "value": filled.astype(target.data_type.dtype).view(f"u{target.data_type.dtype.itemsize}")[0],
            "group_step": outer * (geometry.channels if geometry.is_transposed else geometry.filters),
            "input_step": own[0],
            "output_step": own[1],
            "image_step": target.element_strides[0],
            "channel_step": target.element_strides[1],
        }
        for name, value in values.items():
            self._task[name] = value

    def _set_lines(self, plan: Plan, geometry: ConvolutionGeometry, target: BufferTensorDesc) -> None:
        lines = self._task["line"][0]
        for name in ("size", "window", "target", "stride", "dilation", "period"):
            lines[name] = 1
        steps = zip(plan.inputs["FilterTensor"].element_strides[2:], target.element_strides[2:], strict=True)
        for number, (line, both) in enumerate(zip(geometry.lines, steps, strict=True), SPATIAL - len(geometry.lines)):
            lines[number] = (*line, line.stride // gcd(line.stride, line.dilation), *both)

    def launch(self, memory: CudaMemory) -> KernelLaunch:
        """Returns the launch."""
        task = self._task.copy()
        task["weights"], task["target"] = memory.inputs["FilterTensor"], memory.outputs["OutputTensor"]
        return KernelLaunch(self.program, "fill_gaps", self._grid, (THREADS, 1), task)
