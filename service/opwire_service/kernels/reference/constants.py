"""Tensors built from numbers: constants, sequences and diagonals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ...execution import Arrays, Stop
from ..exact import FORMATS, round_ratio
from .casts import converted, stored
from .moves import bits, paced


def run_constant(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    target = bits(outputs["OutputTensor"])
    value = int(bits(stored(plan.attributes.Value, plan.outputs["OutputTensor"].data_type)))
    for coordinate in paced(target.shape, stop):
        target[coordinate] = value


def run_sequence(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    start, delta = plan.attributes.ValueStart, plan.attributes.ValueDelta
    data_type, target = plan.outputs["OutputTensor"].data_type, outputs["OutputTensor"]
    for count, coordinate in enumerate(paced(target.shape, stop)):
        target[coordinate] = _term(start, delta, count, data_type)


def _term(start: float, delta: float, count: int, data_type: DataType) -> Array:
    """Returns a term of a sequence: the exact number rounded once, or modulo the range of an integer type."""
    if not data_type.is_float:
        return converted(int(start) + count * int(delta), data_type)
    dtype = data_type.dtype
    if not (math.isfinite(start) and math.isfinite(delta)):
        return np.array(start + count * delta, dtype)
    exact = Fraction(start) + count * Fraction(delta)
    if not exact:
        return np.array(start + count * delta, dtype)  # has the right sign of zero
    return np.array(round_ratio(exact.numerator, exact.denominator, FORMATS[data_type]))


def run_diagonal(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    _fill_band(plan, inputs, outputs, (plan.attributes.Offset, plan.attributes.Offset + 1), stop)


def run_band(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    _fill_band(plan, inputs, outputs, (plan.attributes.DiagonalFillBegin, plan.attributes.DiagonalFillEnd), stop)


def _fill_band(plan: Plan, inputs: Arrays, outputs: Arrays, ends: tuple[int, int], stop: Stop) -> None:
    """Writes the value on the diagonals ``[begin, end)``; if ``end`` is less, outside of ``[end, begin)``."""
    begin, end = ends
    target = bits(outputs["OutputTensor"])
    source = (
        bits(inputs["InputTensor"]) if "InputTensor" in inputs else np.broadcast_to(target.dtype.type(0), target.shape)
    )
    value = int(bits(stored(plan.attributes.Value, plan.outputs["OutputTensor"].data_type)))
    for coordinate in paced(target.shape, stop):
        *_, row, column = coordinate
        diagonal = column - row
        inside = begin <= diagonal < end if begin <= end else not end <= diagonal < begin
        target[coordinate] = value if inside else source[coordinate]


KERNELS = {
    "FILL_VALUE_CONSTANT": run_constant,
    "FILL_VALUE_SEQUENCE": run_sequence,
    "DIAGONAL_MATRIX": run_diagonal,
    "DIAGONAL_MATRIX1": run_band,
}
