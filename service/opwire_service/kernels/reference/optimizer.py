"""ADAM_OPTIMIZER: the documented formula over the reals, with every output rounded once.

Like DirectML, a step 0 leaves the moments uncorrected, and an infinite old moment gives NaN: the new one is
``old + (1 - weight) * (new - old)``.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from opwire.check import Plan

from ...execution import Arrays, Stop
from ..decimals import context, round_decimal
from ..exact import FORMATS
from .places import places

_REALS = context()

NAMES = ("Parameters", "FirstMoment", "SecondMoment")


class OptimizerStep(NamedTuple):
    """The quantities shared by all elements of a step.

    Attributes:
        beta1, beta2: weights of the old moments.
        rate: factor of the quotient of the moments.
        epsilon: added to the root.
    """

    beta1: Decimal
    beta2: Decimal
    rate: Decimal
    epsilon: Decimal

    @classmethod
    def of(cls, attributes: object, number: int) -> OptimizerStep:
        beta1, beta2, rate, epsilon = (
            Decimal(getattr(attributes, name)) for name in ("Beta1", "Beta2", "LearningRate", "Epsilon")
        )
        if number == 0:
            return cls(beta1, beta2, rate, epsilon)
        rest1, rest2 = (_REALS.subtract(1, _REALS.power(beta, number)) for beta in (beta1, beta2))
        corrected = _REALS.divide(_REALS.sqrt(rest2), rest1)
        return cls(beta1, beta2, _REALS.multiply(rate, corrected), epsilon)

    def apply(self, parameter: float, first: float, second: float, gradient: float) -> tuple[Decimal, Decimal, Decimal]:
        """Returns the new parameter and moments."""
        x, m, v, g = map(Decimal, (parameter, first, second, gradient))
        first_moment = self._mixed(self.beta1, m, g)
        second_moment = self._mixed(self.beta2, v, _REALS.multiply(g, g))
        divisor = _REALS.add(_REALS.sqrt(second_moment), self.epsilon)
        moved = _REALS.divide(_REALS.multiply(self.rate, first_moment), divisor)
        return _REALS.subtract(x, moved), first_moment, second_moment

    def _mixed(self, weight: Decimal, old: Decimal, new: Decimal) -> Decimal:
        if old.is_infinite():
            return Decimal("NaN")
        return _REALS.add(_REALS.multiply(weight, old), _REALS.multiply(_REALS.subtract(1, weight), new))


def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    step = OptimizerStep.of(plan.attributes, int(inputs["TrainingStepTensor"].flat[0]))
    of = FORMATS[plan.inputs["GradientTensor"].data_type]
    sources = [inputs[f"Input{name}Tensor"] for name in NAMES] + [inputs["GradientTensor"]]
    targets = [outputs[f"Output{name}Tensor"] for name in NAMES]
    for place in places(targets[0].shape, stop):
        results = step.apply(*(float(source[place]) for source in sources))
        for target, result in zip(targets, results, strict=True):
            target[place] = round_decimal(result, of)


KERNELS = {"ADAM_OPTIMIZER": run}
