"""VALUE_SCALE_2D: a factor for all elements and a summand for each channel."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ...execution import Arrays, Stop
from ..exact import FORMATS, round_ratio
from .moves import paced


def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    scale, biases = plan.attributes.Scale, plan.attributes.Bias
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    data_type = plan.outputs["OutputTensor"].data_type
    for coordinate in paced(target.shape, stop):
        target[coordinate] = scaled(source[coordinate].item(), scale, biases[coordinate[1]], data_type)


def scaled(number: float, scale: float, bias: float, data_type: DataType) -> Array:
    """``number * scale + bias``, rounded once: an array without dimensions."""
    if not all(map(math.isfinite, (number, scale, bias))):
        return np.array(number * scale + bias, data_type.dtype)
    exact = Fraction(number) * Fraction(scale) + Fraction(bias)
    if not exact:
        return np.array(number * scale + bias, data_type.dtype)  # which knows the sign of the zero
    return np.array(round_ratio(exact.numerator, exact.denominator, FORMATS[data_type]))


KERNELS = {"VALUE_SCALE_2D": run}
