"""Convolutions in fractions: for each output, every input element times its filter element."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer

from .matrix import fused_reals, parameter, plus, requantized, times, total, wrapped

Place = tuple[int, ...]


def _products(plan: Plan) -> Iterator[tuple[Place, Place, Place]]:
    """Yields coordinates of an output, an input and a filter element that contribute to the same product."""
    given = plan.attributes
    source, kernel = plan.inputs["InputTensor"].sizes, plan.inputs["FilterTensor"].sizes
    target = plan.outputs["OutputTensor"].sizes
    backward = getattr(given, "Direction", None) is not None and given.Direction.name == "BACKWARD"
    mirrored = getattr(given, "Mode", None) is not None and given.Mode.name == "CONVOLUTION"
    for tap in itertools.product(*map(range, kernel)):
        at = [size - 1 - k for size, k in zip(kernel[2:], tap[2:], strict=True)] if mirrored else list(tap[2:])
        # The walked side moves in single steps, the other one by strides.
        for walked in itertools.product(*map(range, source[2:] if backward else target[2:])):
            other = [
                i * stride - start + k * dilation
                for i, k, stride, start, dilation in zip(
                    walked, at, given.Strides, given.StartPadding, given.Dilations, strict=True
                )
            ]
            limits = target[2:] if backward else source[2:]
            if not all(0 <= i < size for i, size in zip(other, limits, strict=True)):
                continue
            for image in range(source[0]):
                if backward:
                    group = tap[0] // (source[1] // given.GroupCount)
                    channel = group * kernel[1] + tap[1]
                    yield (image, channel, *other), (image, tap[0], *walked), tap
                else:
                    group = tap[0] // (kernel[0] // given.GroupCount)
                    channel = group * kernel[1] + tap[1]
                    yield (image, tap[0], *walked), (image, channel, *other), tap


def _products_by_output(plan: Plan) -> dict[Place, list[tuple[Place, Place]]]:
    met: dict[Place, list[tuple[Place, Place]]] = {
        place: [] for place in np.ndindex(*plan.outputs["OutputTensor"].sizes)
    }
    for place, source, tap in _products(plan):
        met[place].append((source, tap))
    return met


def _floats(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    source, kernel, bias = inputs["InputTensor"], inputs["FilterTensor"], inputs.get("BiasTensor")
    numbers = np.empty(plan.outputs["OutputTensor"].sizes, object)
    inner = [size - pad for size, pad in zip(numbers.shape[2:], plan.attributes.OutputPadding, strict=True)]
    for place, pairs in _products_by_output(plan).items():
        is_padding = any(i >= size for i, size in zip(place[2:], inner, strict=True))
        numbers[place] = total([(float(source[at]), float(kernel[tap])) for at, tap in pairs if not is_padding])
        if not is_padding and _unusual(plan, kernel, place[1]) - {tap for _, tap in pairs}:
            numbers[place] = math.nan  # 0 of padding, or of a gap, times infinity or NaN
        if bias is not None and not is_padding:
            numbers[place] = plus(numbers[place], total([(float(bias.reshape(-1)[place[1]]),)]))
    return {"OutputTensor": fused_reals(numbers, plan.attributes.FusedActivation)}


def _unusual(plan: Plan, kernel: Array, channel: int) -> set[Place]:
    """Returns the weights of an output channel that are infinite or NaN."""
    places = [tuple(map(int, place)) for place in np.argwhere(~np.isfinite(kernel))]
    if plan.attributes.Direction.name != "BACKWARD":
        return {place for place in places if place[0] == channel}
    inputs = kernel.shape[0] // plan.attributes.GroupCount
    return {place for place in places if place[0] // inputs * kernel.shape[1] + place[1] == channel}


def _sums(plan: Plan, inputs: Mapping[str, Array]) -> Iterator[tuple[Place, int]]:
    source, kernel = inputs["InputTensor"], inputs["FilterTensor"]
    zero = parameter(inputs.get("InputZeroPointTensor"), 0)
    for place, pairs in _products_by_output(plan).items():
        filter_zero = parameter(inputs.get("FilterZeroPointTensor"), place[1])
        yield place, sum((int(source[at]) - zero) * (int(kernel[tap]) - filter_zero) for at, tap in pairs)


def _integers(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    found = np.empty(plan.outputs["OutputTensor"].sizes, np.int32)
    for place, number in _sums(plan, inputs):
        found[place] = wrapped(number)
    return {"OutputTensor": found}


def _quantized(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    desc = plan.outputs["OutputTensor"]
    found = np.empty(desc.sizes, desc.data_type.dtype)
    scale, zero = parameter(inputs["OutputScaleTensor"], 0), parameter(inputs.get("OutputZeroPointTensor"), 0)
    for place, number in _sums(plan, inputs):
        units: Any = Fraction(number + parameter(inputs.get("BiasTensor"), place[1]))
        units = times(units, parameter(inputs["InputScaleTensor"], 0))
        units = times(units, parameter(inputs["FilterScaleTensor"], place[1]))
        found[place] = requantized(units, scale, zero, found.dtype)
    return {"OutputTensor": found}


EXPECTED = {"CONVOLUTION": _floats, "CONVOLUTION_INTEGER": _integers, "QUANTIZED_LINEAR_CONVOLUTION": _quantized}
