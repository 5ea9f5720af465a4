"""VALUE_SCALE_2D: one factor for all elements and a bias for each channel, rounded once."""

from __future__ import annotations

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop
from ..jit.compiler import Kernel
from ..jit.element import FLOAT32, HALF
from ..run.blocks import Blocks
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from .scaling import Scaling, scale

BLOCK = 1 << 16
"""Elements scaled at once."""

SCALE = {DataType.FLOAT16: Kernel(scale, HALF), DataType.FLOAT32: Kernel(scale, FLOAT32)}


class PictureJob(Job):
    """Scales blocks of images, channel by channel."""

    _scratch = ScratchBytes(thread=8 * BLOCK)

    def __init__(self, plan: Plan) -> None:
        data_type = plan.outputs["OutputTensor"].data_type
        self._kernel = SCALE[data_type]
        self._kernels = (self._kernel,)
        factor, is_half = plan.attributes.Scale, data_type is DataType.FLOAT16
        self._geometries = [Scaling(scale=factor, bias=bias, is_half=is_half) for bias in plan.attributes.Bias]

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = (np.moveaxis(each, 1, 0) for each in (inputs["InputTensor"], outputs["OutputTensor"]))
        blocks = Blocks.of(source.shape[1:], BLOCK)

        def piece(unit: int) -> None:
            channel, number = divmod(unit, blocks.number)
            part = (channel, *blocks.part(number))
            self._scale(source[part], target[part], self._geometries[channel], find)

        pool.each(piece, source.shape[0] * blocks.number, stop)

    def _scale(self, source: Array, target: Array, geometry: Scaling, find: Find) -> None:
        numbers = np.ascontiguousarray(source)
        result = target if target.flags.c_contiguous else np.empty(target.shape, target.dtype)
        address, _ = geometry.buffer_info()
        find(self._kernel).call(0, numbers.ctypes.data, result.ctypes.data, 0, address, 0, numbers.size)
        if result is not target:
            target[...] = result
