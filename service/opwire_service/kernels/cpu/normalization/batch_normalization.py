"""BATCH_NORMALIZATION: normalization by given statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop
from ...activation import activated
from ...exact import FORMATS
from ...formulas.resolve import as_fused
from ...reference.normalization import normalized
from ...reference.reals import Real, add, real, root
from ..run.arranged import part_of
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from ..run.tiles import TILE, Slices
from .lines import Lines, anew, layout_of, lines_of
from .settling import PIECE_BYTES, settle_each

_NAMES = ("Mean", "Variance", "Scale", "Bias")

_ABOVE = 1 + 2.0**-50
"""Factor slightly above 1 that raises limits, because results equal to a limit are undecided too."""


def _are_single(arrays: Sequence[Array]) -> bool:
    return all(array.size == 1 for array in arrays)


class GivenStatisticsJob(Job):
    """``Scale * (X - Mean) / sqrt(Variance + Epsilon) + Bias``; broadcast parameters are read once per tile."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._layout = layout_of(plan.inputs["InputTensor"], plan.outputs["OutputTensor"])
        self._epsilon = plan.attributes.Epsilon + 0.0  # removes the sign of zero
        self._activation = as_fused(plan.attributes.FusedActivation)
        # Results smaller than this share of the bias may be off by more than half an ULP.
        self._share = 16 * 2.0**-53 * 2.0 ** (FORMATS[plan.inputs["InputTensor"].data_type].fraction_bits + 2)
        self._lines = lines = self._cut()
        by_lines = 0 if lines is None else lines.scratch_bytes
        self._kernels = () if lines is None else lines.kernels
        tiles = self._layout.tiles
        self._scratch = ScratchBytes(thread=80 * TILE + PIECE_BYTES, shared=by_lines, units=tiles.count)

    def _cut(self) -> Lines | None:
        plan, order = self._plan, self._layout.order
        if self._activation is not None:
            return None
        descs = (plan.inputs[f"{name}Tensor"] for name in _NAMES)
        mean, variance, scale, bias = (
            tuple(1 if desc.element_strides[i] == 0 else desc.sizes[i] for i in order) for desc in descs
        )
        both = tuple(map(max, variance, scale))
        parameters = (mean, both, bias, (1,) * len(order), bias)
        return lines_of(self._layout, plan.inputs["InputTensor"], plan.outputs["OutputTensor"], parameters)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target = (
            array.transpose(self._layout.order) for array in (inputs["InputTensor"], outputs["OutputTensor"])
        )
        parameters = [self._layout.arranged(inputs[f"{name}Tensor"]) for name in _NAMES]
        tiles = self._layout.tiles

        def part(at: Slices, stop: Stop) -> None:
            self._tile(source[at], target[at], [part_of(array, at) for array in parameters], stop)

        def by_tiles(stop: Stop) -> None:
            def piece(number: int) -> None:
                part(tiles.at(number), stop)

            pool.each(piece, tiles.count, stop)

        if self._lines is None:
            return by_tiles
        mean, variance, scale, bias = (array.shape for array in parameters)
        shapes = mean, np.broadcast_shapes(variance, scale), bias, (1,), bias
        numbers = [np.zeros(shape) for shape in shapes]
        bound = self._lines.bind(source, target, numbers, part, find, pool)
        renew = partial(self._renew, numbers, parameters)
        return partial(anew, bound, self._renew_one(numbers, parameters, renew) if _are_single(numbers) else renew)

    def _renew_one(
        self, numbers: list[Array], parameters: list[Array], usual: Callable[[], None]
    ) -> Callable[[], None]:
        """Returns a function that writes single parameters in plain Python, which avoids NumPy's overhead."""
        mean, variance, scale, bias = (array.item for array in parameters)
        of_mean, factor, of_bias, _, limit = (array.reshape(-1).data for array in numbers)
        share = self._share * _ABOVE

        def renew() -> None:
            total = variance() + self._epsilon
            if not total > 0:  # Python raises an error where NumPy returns infinity or NaN
                usual()
                return
            shift = bias()
            of_mean[0], of_bias[0], limit[0] = mean(), shift, abs(shift) * share
            factor[0] = scale() / sqrt(total)

        return renew

    def _renew(self, numbers: list[Array], parameters: list[Array]) -> None:
        """Writes the kernel's parameters."""
        mean, variance, scale, bias = parameters
        of_mean, factor, of_bias, _, limit = numbers
        with np.errstate(all="ignore"):
            of_mean[...], of_bias[...] = mean, bias
            np.add(variance, self._epsilon, out=factor, dtype=np.float64)
            np.sqrt(factor, out=factor)
            np.divide(scale, factor, out=factor)
            np.multiply(np.abs(of_bias, out=limit), self._share * _ABOVE, out=limit)

    @np.errstate(all="ignore")
    def _tile(self, source: Array, target: Array, parameters: list[Array], stop: Stop) -> None:
        mean, variance, scale, bias = (array.astype(np.float64) for array in parameters)
        factor, limit = scale / np.sqrt(variance + self._epsilon), np.abs(bias) * (self._share * _ABOVE)
        x = np.array(source, np.float64, order="C")
        x -= mean
        x *= factor
        x += bias
        # Element by element: with minima and maxima, a NaN in one channel would decide about the others.
        settle_each(x, np.abs(x) < limit, [source, *parameters], self._exact, stop)
        target[...] = activated(self._activation, x)

    def _exact(self, value: float, mean: float, variance: float, scale: float, bias: float) -> Real:
        divisor = root(add(real(variance), real(self._epsilon)))
        return normalized(value, real(mean), divisor, real(scale), real(bias))
