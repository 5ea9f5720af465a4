"""ADAM_OPTIMIZER by its formula, with many digits."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import isinf, nan
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer, Reals
from tests.oracles.elements import Number, add, number, over, times
from tests.oracles.normalization import mp, negative, root


def _power(base: float, exponent: int) -> Number:
    if exponent == 0:
        return Fraction(1)
    return number(base) if base in (0.0, 1.0) else mp.mpf(base) ** exponent


def _number_of(fraction: Fraction) -> Number:
    return fraction or 0.0


def _new(old: Number, weight: float, fresh: Number) -> Number:
    if isinstance(old, float) and isinf(old):
        return nan
    return add(times(number(weight), old), times(_number_of(1 - Fraction(weight)), fresh))


def _expected(plan: Plan, inputs: Mapping[str, Array]) -> Mapping[str, Answer]:
    a, step = plan.attributes, int(inputs["TrainingStepTensor"].reshape(-1)[0])
    rests = [add(Fraction(1), negative(_power(beta, step))) for beta in (a.Beta1, a.Beta2)]
    rate = number(a.LearningRate)
    if step:
        rate = times(rate, over(root(rests[1]), rests[0]))
    names = ("InputParametersTensor", "InputFirstMomentTensor", "InputSecondMomentTensor", "GradientTensor")
    found: dict[str, Any] = {
        f"Output{name}Tensor": np.empty(inputs["GradientTensor"].shape, object)
        for name in ("Parameters", "FirstMoment", "SecondMoment")
    }
    for place in np.ndindex(inputs["GradientTensor"].shape):
        x, m, v, g = (number(float(inputs[name][place])) for name in names)
        first, second = _new(m, a.Beta1, g), _new(v, a.Beta2, times(g, g))
        moved = over(times(rate, first), add(root(second), number(a.Epsilon)))
        for array, result in zip(found.values(), (add(x, negative(moved)), first, second), strict=True):
            array[place] = result
    return {name: Reals(numbers, Fraction(1)) for name, numbers in found.items()}


EXPECTED = {"ADAM_OPTIMIZER": _expected}
