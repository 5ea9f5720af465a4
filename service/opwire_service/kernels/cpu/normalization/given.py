"""BATCH_NORMALIZATION: by statistics that are given."""

from __future__ import annotations

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop
from ...activation import activated
from ...exact import FORMATS
from ...reference.normalization import normalized
from ...reference.reals import Real, add, real, root
from ..jit.compiler import Entry, Kernel
from ..run.arranged import Arrangement, part_of
from ..run.job import Job
from ..run.pool import Find, Pool
from ..run.tiles import TILE
from .affine import AFFINE, apply
from .exactly import PIECE_BYTES, exact_results, in_pieces

_NAMES = ("Mean", "Variance", "Scale", "Bias")


class GivenStatisticsJob(Job):
    """``Scale * (X - Mean) / sqrt(Variance + Epsilon) + Bias``, with parameters that repeat read once a tile."""

    def __init__(self, plan: Plan) -> None:
        self._layout = Arrangement.of(plan.inputs["InputTensor"])
        self._epsilon = plan.attributes.Epsilon + 0.0  # a zero has no sign
        self._activation = plan.attributes.FusedActivation
        # A result so much smaller than the bias may be off by more than half a unit.
        self._affine = AFFINE[plan.inputs["InputTensor"].data_type is DataType.FLOAT16]
        self._share = 16 * 2.0**-53 * 2.0 ** (FORMATS[plan.inputs["InputTensor"].data_type].fraction_bits + 2)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return () if self._activation else (self._affine,)

    def scratch_bytes(self, threads: int) -> int:
        return (80 * TILE + PIECE_BYTES) * min(threads, self._layout.tiles.count)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = (
            array.transpose(self._layout.order) for array in (inputs["InputTensor"], outputs["OutputTensor"])
        )
        parameters = [self._layout.arranged(inputs[f"{name}Tensor"]) for name in _NAMES]
        tiles = self._layout.tiles

        entry = None if self._activation else find(self._affine)

        def piece(begin: int, end: int) -> None:
            with np.errstate(all="ignore"):
                for number in range(begin, end):
                    at = tiles.at(number)
                    self._tile(source[at], target[at], [part_of(array, at) for array in parameters], entry, stop)

        pool.run(piece, tiles.count, 1, stop)

    def _tile(self, source: Array, target: Array, parameters: list[Array], entry: Entry | None, stop: Stop) -> None:
        mean, variance, scale, bias = (array.astype(np.float64) for array in parameters)
        factor, limit = scale / np.sqrt(variance + self._epsilon), np.abs(bias) * self._share
        if entry is not None:
            # A bound that is just above, as what equals the limit is near, too.
            above = np.where(limit > 0, np.nextafter(limit, np.inf), 0.0)
            if apply(entry, source, target, (mean, np.zeros((1,) * mean.ndim), factor, bias, above)):
                return
        x = np.array(source, np.float64, order="C")
        x -= mean
        x *= factor
        x += bias
        greatest = limit.max() if limit.size > 1 else limit.reshape(-1)[0]
        if np.abs(x).min(initial=np.inf) <= greatest:
            self._mend(x, limit, source, parameters, stop)
        target[...] = activated(self._activation, x)

    def _mend(self, x: Array, limit: Array, source: Array, parameters: list[Array], stop: Stop) -> None:
        """What is left of a difference is done exactly."""
        doubtful = np.flatnonzero((np.abs(x) <= limit) & (limit > 0))
        columns = [source, *(np.broadcast_to(array, x.shape) for array in parameters)]
        for part in in_pieces(doubtful.size, stop):
            index = np.unravel_index(doubtful[part], x.shape)
            x[index] = exact_results([column[index] for column in columns], self._exact)

    def _exact(self, value: float, mean: float, variance: float, scale: float, bias: float) -> Real:
        divisor = root(add(real(variance), real(self._epsilon)))
        return normalized(value, real(mean), divisor, real(scale), real(bias))
