"""VALUE_SCALE_2D: a factor for all elements and a summand for each channel, rounded once."""

from __future__ import annotations

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop
from ..casting.family import FLOATS, geometry_to
from ..jit.compiler import Kernel
from ..run.blocks import Blocks
from ..run.job import Job
from ..run.pool import Find, Pool
from .rounding import add_odd

TILE = 1 << 14
"""Elements that are scaled at a time."""


class PictureJob(Job):
    """Blocks of pictures."""

    def __init__(self, plan: Plan) -> None:
        self._scale = plan.attributes.Scale
        self._biases = np.array(plan.attributes.Bias, np.float64).reshape(-1, 1, 1)
        self._to = geometry_to(plan.outputs["OutputTensor"].data_type)
        self._is_half = plan.outputs["OutputTensor"].data_type is DataType.FLOAT16

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (FLOATS[DataType.FLOAT64],) if self._is_half else ()

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        biases = np.broadcast_to(self._biases, source.shape)
        blocks = Blocks.of(source.shape, TILE)

        def piece(begin: int, end: int) -> None:
            for number in range(begin, end):
                part = blocks.part(number)
                self._scale_part(source[part], target[part], biases[part], find)

        pool.run(piece, blocks.number, 4, stop)

    def scratch_bytes(self, threads: int) -> int:
        return threads * 8 * 8 * TILE

    def _scale_part(self, source: Array, target: Array, biases: Array, find: Find) -> None:
        with np.errstate(all="ignore"):
            # The product of FLOAT32 numbers is exact in FLOAT64.
            product = np.multiply(source, self._scale, dtype=np.float64, order="C")
            scaled = add_odd(product, biases)
            if not self._is_half:
                target[...] = scaled
                return
        halves = np.empty(target.shape, np.float16)
        geometry, _ = self._to.buffer_info()
        kernel = find(FLOATS[DataType.FLOAT64])
        kernel.call(0, scaled.ctypes.data, halves.ctypes.data, 0, geometry, 0, halves.size)
        target[...] = halves
