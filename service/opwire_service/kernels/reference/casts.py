"""CAST: floats to integers toward zero and no further than the type goes; all else as in C."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ...execution import Arrays, Stop
from ..exact import FORMATS, FloatFormat, round_ratio
from .moves import bits, paced

DOUBLE = FloatFormat(DataType.FLOAT64, 52)


def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    data_type = plan.outputs["OutputTensor"].data_type
    if data_type is plan.inputs["InputTensor"].data_type:
        source, target = bits(source), bits(target)
        for coordinate in paced(target.shape, stop):
            target[coordinate] = source[coordinate]
        return
    for coordinate in paced(target.shape, stop):
        target[coordinate] = converted(source[coordinate].item(), data_type)


def converted(number: float, to: DataType) -> Array:
    """A number as the nearest one of a type: an array without dimensions."""
    if to.is_float:
        rounded: Array = _as_float(number, FORMATS.get(to, DOUBLE))
        return rounded
    integer = number if isinstance(number, int) else saturated(number, to)
    wrapped: Array = np.array(integer % (1 << to.bits), f"<u{to.bits // 8}").view(to.dtype)
    return wrapped


def saturated(number: float, to: DataType) -> int:
    """A float without its fraction, or the end of the integers of a type that it lies beyond; 0 for NaN."""
    least = -(1 << (to.bits - 1)) if to.is_signed else 0
    greatest = least + (1 << to.bits) - 1
    if math.isnan(number):
        return 0
    if math.isinf(number):
        return greatest if number > 0 else least
    return max(least, min(int(number), greatest))


def _as_float(number: float, to: FloatFormat) -> Any:
    if number == 0 or not math.isfinite(number):
        return np.array(number, to.dtype)
    return np.array(round_ratio(*number.as_integer_ratio(), to), to.dtype)


KERNELS = {"CAST": run}
