"""DYNAMIC_QUANTIZE_LINEAR: finds the extremes, derives scale and zero point, then quantizes all elements."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from opwire.check import Plan
from opwire.formulas import InputElement
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop
from ...reference.quantization import dynamic_parameters
from ..elementwise.compiled import CompiledFormula
from ..run.arranged import Arrangement
from ..run.job import Job
from ..run.pool import Find, Pool
from ..run.tiles import TILE
from .linear import SCALE, SOURCE, ZERO_POINT, compiled, quantized
from .rounding import saturated


class DynamicJob(Job):
    """Makes two passes over the input."""

    def __init__(self, plan: Plan) -> None:
        self._source, self._target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        self._layout = Arrangement.of(self._source)
        self._limits = self._target.data_type.limits

    @cached_property
    def _compiled(self) -> CompiledFormula | None:
        """The kernel of the second pass."""
        source, target, once = self._source, self._target, (0,) * self._source.rank
        return compiled(
            quantized(source.data_type, target.data_type, InputElement(ZERO_POINT)),
            source.sizes,
            {
                SOURCE: (source.data_type, source.element_strides),
                SCALE: (DataType.FLOAT32, once),
                ZERO_POINT: (target.data_type, once),
                "": (target.data_type, target.element_strides),
            },
        )

    def scratch_bytes(self, threads: int) -> int:
        by_kernel = 0 if self._compiled is None else self._compiled.scratch_bytes(threads)
        return max(48 * TILE * min(threads, self._layout.tiles.count), by_kernel) + 16 * self._layout.tiles.count

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        order, tiles = self._layout.order, self._layout.tiles
        source, target = inputs["InputTensor"].transpose(order), outputs["OutputTensor"].transpose(order)
        extremes = np.zeros((2, tiles.count))

        def look(number: int) -> None:
            part = source[tiles.at(number)]
            found = part.min(), part.max()
            if np.isnan(found[0]):
                found = np.fmin.reduce(part, axis=None), np.fmax.reduce(part, axis=None)
            extremes[:, number] = found

        pool.each(look, tiles.count, stop)
        least, greatest = np.fmin.reduce(extremes[0], initial=0.0), np.fmax.reduce(extremes[1], initial=0.0)
        scale, zero_point = dynamic_parameters(float(least), float(greatest), self._limits)
        outputs["OutputScaleTensor"][...] = scale
        outputs["OutputZeroPointTensor"][...] = zero_point
        otherwise = partial(self._in_tiles, source, target, float(scale), float(zero_point), pool)
        if self._compiled is None:
            otherwise(stop)
            return
        given = {
            SOURCE: inputs["InputTensor"],
            SCALE: np.array(scale, np.float32),
            ZERO_POINT: np.array(zero_point, self._target.data_type.dtype),
        }
        self._compiled.bind_if_it_serves(given, outputs["OutputTensor"], pool, find, otherwise)(stop)

    def _in_tiles(self, source: Array, target: Array, scale: float, zero_point: float, pool: Pool, stop: Stop) -> None:
        """Makes the second pass with NumPy, on arranged tensors."""
        tiles = self._layout.tiles

        def quantize(number: int) -> None:
            at = tiles.at(number)
            x = np.array(source[at], np.float64, order="C")
            x /= scale
            np.copyto(target[at], saturated(x, zero_point, self._limits), casting="unsafe")

        pool.each(quantize, tiles.count, stop)
