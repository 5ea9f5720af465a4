"""ADAM_OPTIMIZER: the formula in float64; sums that nearly cancel are settled exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ...decimals import FLOAT64, round_decimal
from ...error_free import two_product, two_sum
from ...exact import FORMATS
from ...reference.optimizer import NAMES, OptimizerStep
from ..jit.compiler import Kernel
from ..run.arranged import Arrangement
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from ..run.tiles import TILE, Slices

KERNELS: tuple[Kernel, ...] = ()


class AdamJob(Job):
    """Computes three outputs from four inputs, element by element."""

    def __init__(self, plan: Plan) -> None:
        self._layout = Arrangement.of(plan.inputs["InputParametersTensor"])
        self._scratch = ScratchBytes(thread=256 * TILE, units=self._layout.tiles.count)
        self._attributes = plan.attributes
        # Results smaller than this share of their terms may be off by more than half an ULP.
        self._share = 32 * 2.0**-53 * 2.0 ** (FORMATS[plan.inputs["GradientTensor"].data_type].fraction_bits + 2)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        order, tiles = self._layout.order, self._layout.tiles
        names = [*(f"Input{name}Tensor" for name in NAMES), "GradientTensor"]
        sources = [inputs[name].transpose(order) for name in names]
        targets = [outputs[f"Output{name}Tensor"].transpose(order) for name in NAMES]
        step = OptimizerStep.of(self._attributes, int(inputs["TrainingStepTensor"].flat[0]))

        def piece(number: int) -> None:
            self._tile(sources, targets, tiles.at(number), step, stop)

        pool.each(piece, tiles.count, stop)

    def _tile(self, sources: list[Array], targets: list[Array], at: Slices, step: OptimizerStep, stop: Stop) -> None:
        x, m, v, g = (np.array(source[at], np.float64, order="C") for source in sources)
        for moment in (m, v):
            moment[np.isinf(moment)] = np.nan
        beta1, beta2 = self._attributes.Beta1, self._attributes.Beta2
        fresh = (1 - beta1) * g
        m *= beta1
        undecided = _near_zero(m, fresh, self._share)
        g *= g
        g *= 1 - beta2
        v *= beta2
        undecided |= _near_zero(v, g, self._share)
        divisor = np.sqrt(v)
        divisor += self._attributes.Epsilon
        moved = np.divide(m, divisor, out=divisor)
        moved *= -float(step.rate)
        undecided |= _near_zero(x, moved, self._share)
        if undecided.any():
            self._settle([x, m, v], [source[at] for source in sources], undecided, step, stop)
        for target, result in zip(targets, (x, m, v), strict=True):
            target[at] = result

    def _settle(
        self, results: list[Array], sources: list[Array], undecided: Array, step: OptimizerStep, stop: Stop
    ) -> None:
        """Settles undecided elements: with the residues of the moments' sums, or exactly."""
        index = tuple(np.argwhere(undecided).T)
        taken = [source[index].astype(np.float64) for source in sources]
        found, is_settled = self._with_residues(step, *taken)
        for number in np.flatnonzero(~is_settled).tolist():
            if stop():
                raise Stopped
            exact = step.apply(*(float(each[number]) for each in taken))
            found[:, number] = [float(round_decimal(each, FLOAT64)) for each in exact]
        for result, row in zip(results, found, strict=True):
            result[index] = row

    def _with_residues(self, step: OptimizerStep, x: Array, m: Array, v: Array, g: Array) -> tuple[Array, Array]:
        m, is_settled = _mixed(self._attributes.Beta1, m, g)
        v, is_other = _mixed(self._attributes.Beta2, v, g * g)
        limit = self._share * np.abs(x)
        rate = float(step.rate)
        x = x - m / (np.sqrt(v) + self._attributes.Epsilon) * rate
        is_told = np.where(np.isnan(x), (v < 0) | np.isnan(rate), np.abs(x) >= limit)
        found = np.array([x, m, v])
        return found, is_settled & is_other & is_told & np.isfinite(found[1:]).all(axis=0) & ~np.isinf(x)


def _mixed(weight: float, old: Array, new: Array) -> tuple[Array, Array]:
    """Returns ``weight * old + (1 - weight) * new`` with the residues of all operations, and where that settles it.

    The first product is exact. The share ``1 - weight`` is the sum of two numbers.
    """
    share, rest = two_sum(1.0, -weight)
    kept, beyond = old * weight, new * rest
    added, residue = two_product(new, share)
    total, low = two_sum(kept, added)
    found = total + (low + (residue + beyond))
    is_exact = (total == 0) & ((residue == 0) | (beyond == 0))
    return found, is_exact | (np.abs(found) >= 2.0**-70 * np.abs(kept))


def _near_zero(a: Array, b: Array, share: float) -> Array:
    """Adds b to a in place; returns which sums are smaller than a share of a."""
    limit = np.abs(a)
    a += b
    limit *= share
    near: Array = np.abs(a) < limit
    return near


PREPARE: dict[str, Callable[[Plan], Job]] = {"ADAM_OPTIMIZER": AdamJob}
