"""VALUE_SCALE_2D: a factor for all elements and a summand for each channel, rounded once."""

from __future__ import annotations

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop
from ..casting.family import FLOATS, geometry_to
from ..jit.compiler import Kernel
from ..run.job import Job
from ..run.pool import Find, Pool
from .rounding import add_odd

TILE = 1 << 14
"""Elements, in whole rows."""


class PictureJob(Job):
    """Rows of all channels, some at a time."""

    def __init__(self, plan: Plan) -> None:
        self._scale, self._biases = plan.attributes.Scale, plan.attributes.Bias
        self._to = geometry_to(plan.outputs["OutputTensor"].data_type)
        self._is_half = plan.outputs["OutputTensor"].data_type is DataType.FLOAT16
        self._width = plan.outputs["OutputTensor"].sizes[-1]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (FLOATS[DataType.FLOAT64],) if self._is_half else ()

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        _, channels, height, width = source.shape
        rows, columns = max(1, TILE // width), min(width, TILE)
        down, across = -(-height // rows), -(-width // columns)

        def piece(begin: int, end: int) -> None:
            for unit in range(begin, end):
                rest, x = divmod(unit, across)
                rest, y = divmod(rest, down)
                image, channel = divmod(rest, channels)
                part = (
                    image,
                    channel,
                    slice(y * rows, (y + 1) * rows),
                    slice(x * columns, (x + 1) * columns),
                )
                self._scale_part(source[part], target[part], self._biases[channel], find)

        units = source.shape[0] * channels * down * across
        pool.run(piece, units, max(1, 4 * TILE // (min(rows, height) * columns)), stop)

    def scratch_bytes(self, threads: int) -> int:
        return threads * 8 * 8 * TILE

    def _scale_part(self, source: Array, target: Array, bias: float, find: Find) -> None:
        with np.errstate(all="ignore"):
            # The product of FLOAT32 numbers is exact in FLOAT64.
            product = np.multiply(source, self._scale, dtype=np.float64, order="C")
            scaled = add_odd(product, np.full_like(product, bias))
            if not self._is_half:
                target[...] = scaled
                return
        halves = np.empty(target.shape, np.float16)
        geometry, _ = self._to.buffer_info()
        kernel = find(FLOATS[DataType.FLOAT64])
        kernel.call(0, scaled.ctypes.data, halves.ctypes.data, 0, geometry, 0, halves.size)
        target[...] = halves
