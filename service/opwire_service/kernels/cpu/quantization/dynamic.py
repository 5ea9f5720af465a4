"""DYNAMIC_QUANTIZE_LINEAR: the extremes first, scale and zero point from them, then every element."""

from __future__ import annotations

import numpy as np

from opwire.check import Plan

from ....execution import Arrays, Stop
from ...reference.quantization import dynamic_parameters
from ..jit.compiler import Kernel
from ..run.arranged import Arrangement
from ..run.job import Job
from ..run.pool import Find, Pool
from ..run.tiles import TILE
from .rounding import saturated


class DynamicJob(Job):
    """Two passes over the input."""

    def __init__(self, plan: Plan) -> None:
        self._layout = Arrangement.of(plan.inputs["InputTensor"])
        self._limits = plan.outputs["OutputTensor"].data_type.limits

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return ()

    def scratch_bytes(self, threads: int) -> int:
        return 48 * TILE * min(threads, self._layout.tiles.count) + 16 * self._layout.tiles.count

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        order, tiles = self._layout.order, self._layout.tiles
        source, target = inputs["InputTensor"].transpose(order), outputs["OutputTensor"].transpose(order)
        extremes = np.zeros((2, tiles.count))

        def look(begin: int, end: int) -> None:
            with np.errstate(invalid="ignore"):
                for number in range(begin, end):
                    part = source[tiles.at(number)]
                    found = part.min(), part.max()
                    if np.isnan(found[0]):
                        found = np.fmin.reduce(part, axis=None), np.fmax.reduce(part, axis=None)
                    extremes[:, number] = found

        def quantize(begin: int, end: int) -> None:
            with np.errstate(all="ignore"):
                for number in range(begin, end):
                    at = tiles.at(number)
                    x = np.array(source[at], np.float64, order="C")
                    x /= np.float64(scale)
                    np.copyto(target[at], saturated(x, float(zero_point), self._limits), casting="unsafe")

        pool.run(look, tiles.count, 1, stop)
        least, greatest = np.fmin.reduce(extremes[0], initial=0.0), np.fmax.reduce(extremes[1], initial=0.0)
        scale, zero_point = dynamic_parameters(float(least), float(greatest), self._limits)
        outputs["OutputScaleTensor"][...] = scale
        outputs["OutputZeroPointTensor"][...] = zero_point
        pool.run(quantize, tiles.count, 1, stop)
