"""ADAM_OPTIMIZER: the formula in float64; sums that nearly cancel are recomputed exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop
from ...decimals import FLOAT64, round_decimal
from ...exact import FORMATS
from ...reference.optimizer import NAMES, OptimizerStep
from ..jit.compiler import Kernel
from ..run.arranged import Arrangement
from ..run.job import Job
from ..run.pool import Find, Pool
from ..run.tiles import TILE, Slices

KERNELS: tuple[Kernel, ...] = ()


class AdamJob(Job):
    """Computes three outputs from four inputs, element by element."""

    def __init__(self, plan: Plan) -> None:
        self._layout = Arrangement.of(plan.inputs["InputParametersTensor"])
        self._attributes = plan.attributes
        # Results smaller than this share of their terms may be off by more than half an ULP.
        self._share = 32 * 2.0**-53 * 2.0 ** (FORMATS[plan.inputs["GradientTensor"].data_type].fraction_bits + 2)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return ()

    def scratch_bytes(self, threads: int) -> int:
        return 96 * TILE * min(threads, self._layout.tiles.count)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        order, tiles = self._layout.order, self._layout.tiles
        names = [*(f"Input{name}Tensor" for name in NAMES), "GradientTensor"]
        sources = [inputs[name].transpose(order) for name in names]
        targets = [outputs[f"Output{name}Tensor"].transpose(order) for name in NAMES]
        step = OptimizerStep.of(self._attributes, int(inputs["TrainingStepTensor"].flat[0]))

        def piece(begin: int, end: int) -> None:
            with np.errstate(all="ignore"):
                for number in range(begin, end):
                    self._tile(sources, targets, tiles.at(number), step)

        pool.run(piece, tiles.count, 1, stop)

    def _tile(self, sources: list[Array], targets: list[Array], at: Slices, step: OptimizerStep) -> None:
        x, m, v, g = (np.array(source[at], np.float64, order="C") for source in sources)
        for moment in (m, v):
            moment[np.isinf(moment)] = np.nan
        beta1, beta2 = self._attributes.Beta1, self._attributes.Beta2
        fresh = (1 - beta1) * g
        m *= beta1
        doubtful = _near_zero(m, fresh, self._share)
        g *= g
        g *= 1 - beta2
        v *= beta2
        doubtful |= _near_zero(v, g, self._share)
        divisor = np.sqrt(v)
        divisor += self._attributes.Epsilon
        moved = np.divide(m, divisor, out=divisor)
        moved *= -float(step.rate)
        doubtful |= _near_zero(x, moved, self._share)
        if doubtful.any():
            self._mend([x, m, v], [source[at] for source in sources], doubtful, step)
        for target, result in zip(targets, (x, m, v), strict=True):
            target[at] = result

    @staticmethod
    def _mend(results: list[Array], sources: list[Array], doubtful: Array, step: OptimizerStep) -> None:
        index = tuple(np.argwhere(doubtful).T)
        rows = zip(*(source[index].tolist() for source in sources), strict=True)
        exact = np.array([[float(round_decimal(each, FLOAT64)) for each in step.apply(*row)] for row in rows])
        for result, column in zip(results, exact.T, strict=True):
            result[index] = column


def _near_zero(a: Array, b: Array, share: float) -> Array:
    """Adds b to a in place; returns which sums are smaller than a share of a."""
    limit = np.abs(a)
    a += b
    limit *= share
    near: Array = np.abs(a) < limit
    return near


PREPARE: dict[str, Callable[[Plan], Job]] = {"ADAM_OPTIMIZER": AdamJob}
