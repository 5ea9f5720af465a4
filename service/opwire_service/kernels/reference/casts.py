"""CAST: floats to integers truncate and saturate, integers to 8 bits too; all other conversions follow C."""

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
        target[coordinate] = _cast(source[coordinate].item(), data_type)


def _cast(number: float, to: DataType) -> Array:
    """Converts an element. Integers of 8 bits are those of 32 bits, saturated."""
    if isinstance(number, int) and not to.is_float and to.bits == 8:
        number = int(converted(number, DataType.INT32 if to.is_signed else DataType.UINT32))
        return converted(saturated(number, to), to)
    return converted(number, to)


def converted(number: float, to: DataType) -> Array:
    """Converts a number to a type, rounding to nearest, as a 0-dimensional array."""
    if to.is_float:
        rounded: Array = _as_float(number, FORMATS.get(to, DOUBLE))
        return rounded
    integer = number if isinstance(number, int) else saturated(number, to)
    wrapped: Array = np.array(integer % (1 << to.bits), f"<u{to.bits // 8}").view(to.dtype)
    return wrapped


def stored(number: float, to: DataType) -> Array:
    """Converts an attribute to the type that it is stored in, as a 0-dimensional array.

    Like DirectML, which runs on x86, this takes floats to integers of 32 bits, those of UINT32 and wider types to 64.
    Of these it keeps the low bits; NaN and numbers that do not fit become the least one.
    """
    if to.is_float or isinstance(number, int):
        return converted(number, to)
    least = -(1 << 31) if to.bits < 32 or to is DataType.INT32 else -(1 << 63)
    beyond = 1 << 64 if to is DataType.UINT64 else -least
    fits = math.isfinite(number) and least <= int(number) < beyond
    return converted(int(number) if fits else least, to)


def saturated(number: float, to: DataType) -> int:
    """Truncates a number and saturates it to the integers of a type; NaN becomes 0."""
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
