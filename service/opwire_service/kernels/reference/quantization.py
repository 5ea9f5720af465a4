"""Quantization and dequantization: real quotients and products as fractions, rounded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import copysign, inf, isfinite, isnan, nan
from typing import Any, Protocol

import numpy as np

from opwire.check import Plan
from opwire.enums import QuantizationType
from opwire.tensor import Array, BufferTensorDesc, DataType

from ...execution import Arrays, Stop
from ..exact import FORMATS, Float, FloatFormat, round_ratio
from .elements import Elements
from .places import places

Place = tuple[int, ...]

Real = Fraction | float
"""A finite number as a fraction, any other as a float."""


class ElementsByCoordinates(Protocol):
    """A tensor's elements, indexed by coordinates."""

    def __getitem__(self, place: Place, /) -> Any: ...

    def __setitem__(self, place: Place, value: Any, /) -> None: ...


class Nibbles:
    """4-bit elements, packed two to a byte.

    Args:
        desc: the desc of the tensor.
        packed: its bytes.
    """

    def __init__(self, desc: BufferTensorDesc, packed: Array) -> None:
        self._strides = desc.element_strides
        self._sign = 8 if desc.data_type.is_signed else 0
        self._packed = packed

    def __getitem__(self, place: Place) -> int:
        byte, shift = self._find(place)
        return ((int(self._packed[byte]) >> shift & 15) ^ self._sign) - self._sign

    def __setitem__(self, place: Place, value: int) -> None:
        byte, shift = self._find(place)
        self._packed[byte] = int(self._packed[byte]) & ~(15 << shift) | (value & 15) << shift

    def _find(self, place: Place) -> tuple[int, int]:
        byte, odd = divmod(sum(at * stride for at, stride in zip(place, self._strides, strict=True)), 2)
        return byte, 4 * odd


def tensor(desc: BufferTensorDesc, array: Array) -> ElementsByCoordinates:
    """Returns the elements of a tensor of any type."""
    return Nibbles(desc, array) if desc.data_type.is_packed else array


def real(value: Any) -> Real:
    return Fraction(int(value)) if isinstance(value, int | np.integer) else _real_of_float(float(value))


def _real_of_float(value: float) -> Real:
    return Fraction(value) if isfinite(value) else value


def quotient(dividend: Real, divisor: Any) -> Real:
    """Returns the IEEE 754 quotient, exact if both are finite and the divisor is nonzero."""
    below = float(divisor)
    if isinstance(dividend, Fraction) and isfinite(below) and below:
        return dividend / Fraction(below)
    above = float(dividend)
    if isnan(above) or isnan(below) or is_undefined(above, below):
        return nan
    if below:
        return _real_of_float(above / below)
    return copysign(inf, above) * copysign(1, below)


def is_undefined(above: float, below: float) -> bool:
    """Returns whether both are infinite or both are zero, so that their quotient is NaN."""
    return abs(above) == abs(below) and (above == 0 or abs(above) == inf)


def quantized(value: Real, zero_point: int, limits: tuple[int, int]) -> int:
    """Rounds half to even, adds the zero point and saturates; NaN gives 0, whatever the zero point."""
    least, greatest = limits
    if isinstance(value, Fraction):
        return min(max(round(value) + zero_point, least), greatest)
    return 0 if isnan(value) else greatest if value > 0 else least


def product(integer: int, scale: Any, to: FloatFormat) -> Float:
    """Returns the product, rounded once; IEEE 754 arithmetic if it is zero or the scale is not finite."""
    factor = float(scale)
    if not integer or not factor or not isfinite(factor):
        return to.of(nan if not integer and not isfinite(factor) else integer * factor)
    return round_ratio(integer * factor.as_integer_ratio()[0], factor.as_integer_ratio()[1], to)


def quantize_linear(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, scales, zero_points = (inputs.get(f"{name}Tensor") for name in ("Input", "Scale", "ZeroPoint"))
    assert source is not None
    assert scales is not None
    target, limits = outputs["OutputTensor"], plan.outputs["OutputTensor"].data_type.limits
    for place in places(target.shape, stop):
        zero_point = 0 if zero_points is None else int(zero_points[place])
        target[place] = quantized(quotient(real(source[place]), scales[place]), zero_point, limits)


def dequantize_linear(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    zero_points, target = inputs.get("ZeroPointTensor"), outputs["OutputTensor"]
    to = FORMATS[plan.outputs["OutputTensor"].data_type]
    for place in places(target.shape, stop):
        zero_point = 0 if zero_points is None else int(zero_points[place])
        integer = int(inputs["InputTensor"][place]) - zero_point
        target[place] = product(integer, inputs["ScaleTensor"][place], to)


def quantized_linear_add(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    """(A - zero point)*scale + (B - zero point)*scale as one real number, divided by the output scale."""

    def parameter(name: str, default: float = 0) -> Any:
        array = inputs.get(f"{name}Tensor")
        return default if array is None else array.flat[0]

    scales = real(parameter("AScale")), real(parameter("BScale"))
    zero_points = int(parameter("AZeroPoint")), int(parameter("BZeroPoint"))
    over, moved = parameter("OutputScale"), int(parameter("OutputZeroPoint"))
    target, limits = outputs["OutputTensor"], plan.outputs["OutputTensor"].data_type.limits
    for place in places(target.shape, stop):
        integers = int(inputs["ATensor"][place]), int(inputs["BTensor"][place])
        terms = [_scaled(at - zero, by) for at, zero, by in zip(integers, zero_points, scales, strict=True)]
        target[place] = quantized(quotient(_sum(*terms), over), moved, limits)


def _scaled(integer: int, scale: Real) -> Real:
    return integer * scale if integer or isinstance(scale, Fraction) else nan


def _sum(a: Real, b: Real) -> Real:
    return a + b if isinstance(a, Fraction) and isinstance(b, Fraction) else float(a) + float(b)


def dynamic_quantize_linear(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    """Derives scale and zero point from the extremes, which include 0 and skip NaN."""
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    least, greatest = 0.0, 0.0
    for values in Elements(source, stop):
        numbers = values[~np.isnan(values)]
        if numbers.size:
            least, greatest = min(least, float(numbers.min())), max(greatest, float(numbers.max()))
    limits = plan.outputs["OutputTensor"].data_type.limits
    scale, zero_point = dynamic_parameters(least, greatest, limits)
    outputs["OutputScaleTensor"][...] = scale
    outputs["OutputZeroPointTensor"][...] = zero_point
    for place in places(target.shape, stop):
        target[place] = quantized(quotient(real(source[place]), scale), zero_point, limits)


def dynamic_parameters(least: float, greatest: float, limits: tuple[int, int]) -> tuple[Float, int]:
    """Returns scale and zero point for elements between two numbers whose range includes 0."""
    to = FORMATS[DataType.FLOAT32]
    scale = to.of(1)
    if least != greatest:
        span = _sum(_real_of_float(greatest), _real_of_float(-least))
        ratio = (span / (limits[1] - limits[0])).as_integer_ratio() if isinstance(span, Fraction) else None
        scale = to.of(inf) if ratio is None else round_ratio(*ratio, to)
    return scale, quantized(quotient(_real_of_float(-least), scale), limits[0], limits)


Parameters = tuple[Callable[[Place], Any], Callable[[Place], int]]


def _parameters(plan: Plan, inputs: Arrays, integers: DataType) -> Parameters:
    """Returns scale and zero point by coordinate; without zero points it is 0, or the midpoint of unsigned integers."""
    sizes = plan.inputs["InputTensor"].sizes
    scale_desc = plan.inputs["QuantizationTensors[0]"]
    scales = inputs["QuantizationTensors[0]"]

    def block(place: Place) -> Place:
        return tuple(at * k // size for at, k, size in zip(place, scale_desc.sizes, sizes, strict=True))

    if plan.attributes.QuantizationType is QuantizationType.SCALE:
        middle = 0 if integers.is_signed else 1 << (integers.bits - 1)
        return lambda place: scales[block(place)], lambda place: middle
    zero_points = tensor(plan.inputs["QuantizationTensors[1]"], inputs["QuantizationTensors[1]"])
    return lambda place: scales[block(place)], lambda place: int(zero_points[block(place)])


def quantize(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    desc = plan.outputs["OutputTensor"]
    scale, zero_point = _parameters(plan, inputs, desc.data_type)
    source, target = inputs["InputTensor"], tensor(desc, outputs["OutputTensor"])
    for place in places(desc.sizes, stop):
        value = quotient(real(source[place]), scale(place))
        target[place] = quantized(value, zero_point(place), desc.data_type.limits)


def dequantize(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    desc = plan.inputs["InputTensor"]
    scale, zero_point = _parameters(plan, inputs, desc.data_type)
    source, target = tensor(desc, inputs["InputTensor"]), outputs["OutputTensor"]
    to = FORMATS[plan.outputs["OutputTensor"].data_type]
    for place in places(desc.sizes, stop):
        target[place] = product(int(source[place]) - zero_point(place), scale(place), to)


KERNELS: Mapping[str, Callable[[Plan, Arrays, Arrays, Stop], None]] = {
    "ELEMENT_WISE_QUANTIZE_LINEAR": quantize_linear,
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": dequantize_linear,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": quantized_linear_add,
    "DYNAMIC_QUANTIZE_LINEAR": dynamic_quantize_linear,
    "QUANTIZE": quantize,
    "DEQUANTIZE": dequantize,
}
