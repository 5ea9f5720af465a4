"""Quantization and dequantization in fractions; Python's ``round`` rounds half to even."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType
from tests.oracles import Answer
from tests.oracles.elements import Number, add, is_nan, is_special, nearest_float, over, times

Inputs = Mapping[str, Array]
Coordinate = tuple[int, ...]


def _number(value: Any) -> Number:
    given = int(value) if isinstance(value, np.integer | int) else float(value)
    return Fraction(given) if given and math.isfinite(given) else float(given)


def _limits(data_type: DataType) -> tuple[int, int]:
    if "UINT" in data_type.name:
        return 0, 2**data_type.bits - 1
    return -(2 ** (data_type.bits - 1)), 2 ** (data_type.bits - 1) - 1


def _quantized(value: Number, zero_point: int, data_type: DataType) -> int:
    low, high = _limits(data_type)
    if is_special(value) and math.isinf(value):
        return high if value > 0 else low
    return 0 if is_nan(value) else sorted((low, round(value) + zero_point, high))[1]


def _filled(plan: Plan, name: str, element: Callable[[Coordinate], Any]) -> dict[str, Answer]:
    desc = plan.outputs[name]
    found = np.empty(desc.sizes, desc.data_type.dtype)
    for place in np.ndindex(desc.sizes):
        found[place] = element(place)
    return {name: found}


def _quantize_linear(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    def element(place: Coordinate) -> int:
        zero_point = int(inputs["ZeroPointTensor"][place]) if "ZeroPointTensor" in inputs else 0
        value = over(_number(inputs["InputTensor"][place]), _number(inputs["ScaleTensor"][place]))
        return _quantized(value, zero_point, plan.outputs["OutputTensor"].data_type)

    return _filled(plan, "OutputTensor", element)


def _dequantize_linear(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    dtype = plan.outputs["OutputTensor"].data_type.dtype

    def element(place: Coordinate) -> Any:
        zero_point = int(inputs["ZeroPointTensor"][place]) if "ZeroPointTensor" in inputs else 0
        integer = int(inputs["InputTensor"][place]) - zero_point
        return nearest_float(times(_number(integer), _number(inputs["ScaleTensor"][place])), dtype)

    return _filled(plan, "OutputTensor", element)


def _add(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    def parameter(name: str) -> Any:
        return inputs[f"{name}Tensor"].reshape(-1)[0] if f"{name}Tensor" in inputs else 0

    def term(name: str, place: Coordinate) -> Number:
        integer = int(inputs[f"{name}Tensor"][place]) - int(parameter(f"{name}ZeroPoint"))
        return times(_number(integer), _number(parameter(f"{name}Scale")))

    def element(place: Coordinate) -> int:
        value = over(add(term("A", place), term("B", place)), _number(parameter("OutputScale")))
        return _quantized(value, int(parameter("OutputZeroPoint")), plan.outputs["OutputTensor"].data_type)

    return _filled(plan, "OutputTensor", element)


def _dynamic(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    source, data_type = inputs["InputTensor"], plan.outputs["OutputTensor"].data_type
    numbers = [float(x) for x in source.reshape(-1) if not np.isnan(x)]
    least, greatest = min([0.0, *numbers]), max([0.0, *numbers])
    low, high = _limits(data_type)
    scale = np.float32(1)
    if least != greatest:
        span = add(_number(greatest), _number(-least))
        scale = nearest_float(over(span, Fraction(high - low)), np.dtype(np.float32))
    zero_point = _quantized(over(_number(-least), _number(scale)), low, data_type)

    def element(place: Coordinate) -> int:
        return _quantized(over(_number(source[place]), _number(scale)), zero_point, data_type)

    scales, zero_points = (plan.outputs[f"Output{name}Tensor"] for name in ("Scale", "ZeroPoint"))
    return {
        **_filled(plan, "OutputTensor", element),
        "OutputScaleTensor": np.full(scales.sizes, scale, np.float32),
        "OutputZeroPointTensor": np.full(zero_points.sizes, zero_point, data_type.dtype),
    }


def _parameters(plan: Plan, inputs: Inputs, place: Coordinate, integers: DataType) -> tuple[Any, int]:
    scales = inputs["QuantizationTensors[0]"]
    sizes = plan.inputs["InputTensor"].sizes
    block = tuple(math.floor(Fraction(at * k, size)) for at, k, size in zip(place, scales.shape, sizes, strict=True))
    if "QuantizationTensors[1]" in inputs:
        return scales[block], int(inputs["QuantizationTensors[1]"][block])
    return scales[block], {"UINT4": 8, "UINT8": 128}.get(integers.name, 0)


def _quantize(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    integers = plan.outputs["OutputTensor"].data_type

    def element(place: Coordinate) -> int:
        scale, zero_point = _parameters(plan, inputs, place, integers)
        return _quantized(over(_number(inputs["InputTensor"][place]), _number(scale)), zero_point, integers)

    return _filled(plan, "OutputTensor", element)


def _dequantize(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    dtype = plan.outputs["OutputTensor"].data_type.dtype

    def element(place: Coordinate) -> Any:
        scale, zero_point = _parameters(plan, inputs, place, plan.inputs["InputTensor"].data_type)
        integer = int(inputs["InputTensor"][place]) - zero_point
        return nearest_float(times(_number(integer), _number(scale)), dtype)

    return _filled(plan, "OutputTensor", element)


EXPECTED = {
    "ELEMENT_WISE_QUANTIZE_LINEAR": _quantize_linear,
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": _dequantize_linear,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": _add,
    "DYNAMIC_QUANTIZE_LINEAR": _dynamic,
    "QUANTIZE": _quantize,
    "DEQUANTIZE": _dequantize,
}
