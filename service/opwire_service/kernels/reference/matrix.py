"""Matrix products, one output element at a time, each a real number rounded once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import exp
from typing import Any

from opwire.check import Plan
from opwire.enums import MatrixTransform
from opwire.fields.member import NestedOperator
from opwire.tensor import Array

from ...execution import Arrays, Stop
from ..exact import FORMATS, FloatFormat
from ..layout import coordinates
from .products import Real, added, finished, integer_product_sum, product_sum, quantized, real, rounded, scaled

SOFTMAX = ("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1")

Place = tuple[Any, ...]


def gemm(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    attributes, target = plan.attributes, outputs["OutputTensor"]
    a = _transformed(inputs["ATensor"], attributes.TransA)
    b = _transformed(inputs["BTensor"], attributes.TransB)
    c = inputs.get("CTensor")
    to = FORMATS[plan.outputs["OutputTensor"].data_type]
    alpha, beta = real(attributes.Alpha), real(attributes.Beta)

    def element(place: Place) -> Real:
        *batch, row, column = place
        product = product_sum(a[(*batch, row)], b[(*batch, slice(None), column)], to, stop)
        value = scaled(product, alpha)
        return value if c is None else added(value, scaled(real(c[place]), beta))

    fused: NestedOperator | None = attributes.FusedActivation
    if fused is not None and fused.name in SOFTMAX:
        _softmax(element, frozenset(fused.values.get("Axes", (target.ndim - 1,))), target, to)
        return
    for place in coordinates(target.shape):
        target[place] = finished(element(place), fused, to)


def _transformed(matrix: Array, transform: MatrixTransform) -> Array:
    return matrix if transform is MatrixTransform.NONE else matrix.swapaxes(-1, -2)


def _softmax(element: Callable[[Place], Real], axes: frozenset[int], target: Array, to: FloatFormat) -> None:
    """Computes the softmax of blocks along some axes, recomputing each element whenever it is needed."""
    outer = [1 if i in axes else size for i, size in enumerate(target.shape)]
    inner = [size if i in axes else 1 for i, size in enumerate(target.shape)]
    for first in coordinates(outer):
        greatest = max((float(element(place)) for place in _block(first, inner)), key=_nan_last)
        total = sum(exp(float(element(place)) - greatest) for place in _block(first, inner))
        for place in _block(first, inner):
            target[place] = to.of(exp(float(element(place)) - greatest) / total)


def _block(first: Place, sizes: list[int]) -> Iterator[Place]:
    return (tuple(a + b for a, b in zip(first, place, strict=True)) for place in coordinates(sizes))


def _nan_last(value: float) -> tuple[bool, float]:
    return value != value, value


def integers(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    target = outputs["OutputTensor"]
    for place in coordinates(target.shape):
        target[place] = (_integer_product(inputs, place, stop) + 2**31) % 2**32 - 2**31


def to_float(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    target, bias = outputs["OutputTensor"], inputs.get("BiasTensor")
    to = FORMATS[plan.outputs["OutputTensor"].data_type]
    for place in coordinates(target.shape):
        value = _dequantized_product(inputs, place, stop)
        target[place] = rounded(value if bias is None else added(value, real(bias[place])), to)


def quantized_product(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    target, data_type = outputs["OutputTensor"], plan.outputs["OutputTensor"].data_type
    for place in coordinates(target.shape):
        value = _dequantized_product(inputs, place, stop)
        scale = float(_parameter(inputs["OutputScaleTensor"], place[-2]))
        zero_point = _zero_point(inputs, "OutputZeroPointTensor", place[-2])
        target[place] = quantized(value, scale, zero_point, data_type)


def _dequantized_product(inputs: Arrays, place: Place, stop: Stop) -> Real:
    *_, row, column = place
    value = scaled(Fraction(_integer_product(inputs, place, stop)), real(_parameter(inputs["AScaleTensor"], row)))
    return scaled(value, real(_parameter(inputs["BScaleTensor"], column)))


def _integer_product(inputs: Arrays, place: Place, stop: Stop) -> int:
    *batch, row, column = place
    a, b = (_matrix(inputs[name], batch) for name in ("ATensor", "BTensor"))
    a_zero, b_zero = _zero_point(inputs, "AZeroPointTensor", row), _zero_point(inputs, "BZeroPointTensor", column)
    return integer_product_sum(a[row], a_zero, b[:, column], b_zero, stop)


def _matrix(matrices: Array, batch: list[int]) -> Array:
    """Returns a matrix of the batch; an operand of another rank than the output's has more or fewer leading ones."""
    found: Array = matrices[tuple(([0] * (matrices.ndim - 2) + batch)[len(batch) :])]
    return found


def _zero_point(inputs: Arrays, name: str, i: int) -> int:
    return int(_parameter(inputs[name], i)) if name in inputs else 0


def _parameter(parameter: Array, i: int) -> Any:
    """Returns the parameter of a row or column; there is one for each or one for all."""
    return parameter.flat[i if parameter.size > 1 else 0]


KERNELS = {
    "GEMM": gemm,
    "MATRIX_MULTIPLY_INTEGER": integers,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": to_float,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": quantized_product,
}
