"""Convolutions and transposed convolutions, one output element at a time: each gathers its products."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import gcd, nan
from typing import Any, NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.enums import ConvolutionDirection, ConvolutionMode
from opwire.tensor import Array

from ...execution import Arrays, Stop
from ..convolutions import ConvolutionGeometry
from ..exact import FORMATS
from ..formulas.resolve import as_fused
from ..gaps import Gaps
from .places import places
from .products import added, finished, integer_product_sum, product_sum, quantized, real, scaled

Place = tuple[Any, ...]


class FilteredDimension(NamedTuple):
    """A spatial dimension: the size of the input, and how the filter slides along it."""

    size: int
    filter: int
    stride: int
    dilation: int
    start: int

    def forward(self, at: int) -> tuple[range, range]:
        """Returns the filter elements that contribute to an output, and the input elements they meet."""
        begin = at * self.stride - self.start
        first = max(0, -(begin // self.dilation))
        last = min(self.filter - 1, (self.size - 1 - begin) // self.dilation)
        taps = range(first, last + 1)
        where = begin + first * self.dilation
        return taps, range(where, where + len(taps) * self.dilation, self.dilation)

    def backward(self, at: int) -> tuple[range, range]:
        """Like ``forward`` for a transposed convolution, where ``at + start == i * stride + k * dilation``."""
        place = at + self.start
        common = gcd(self.stride, self.dilation)
        step = self.stride // common
        if place % common:
            return range(0), range(0)
        least = max(0, -(((self.size - 1) * self.stride - place) // self.dilation))
        residue = place // common * pow(self.dilation // common, -1, step) % step
        first = least + (residue - least) % step
        taps = range(first, min(self.filter - 1, place // self.dilation) + 1, step)
        where, back = (place - first * self.dilation) // self.stride, self.dilation // common
        return taps, range(where, where - len(taps) * back, -back)


def _slice(indices: range) -> slice:
    if not indices:
        return slice(0)
    end = indices[-1] + (1 if indices.step > 0 else -1)
    return slice(indices[0], end if end >= 0 else None, indices.step)


class Gathering:
    """The input and filter views that meet in each output element.

    Args:
        plan: the plan of a convolution.
        source: its input.
        kernel: its filter, not mirrored.
    """

    def __init__(self, plan: Plan, source: Array, kernel: Array) -> None:
        attributes = plan.attributes
        names = ("Strides", "Dilations", "StartPadding")
        arrays = (getattr(attributes, name) for name in names)
        self._axes = [
            FilteredDimension(*members) for members in zip(source.shape[2:], kernel.shape[2:], *arrays, strict=True)
        ]
        self._transposed = getattr(attributes, "Direction", None) is ConvolutionDirection.BACKWARD
        mirrored = getattr(attributes, "Mode", None) is ConvolutionMode.CONVOLUTION
        self._kernel = np.flip(kernel, tuple(range(2, kernel.ndim))) if mirrored else kernel
        self._source = source
        self._groups = attributes.GroupCount

    def views(self, place: Place) -> tuple[Array, Array]:
        """Returns the factors of an output element: views of the input and of the filter, of equal shape."""
        image, channel, *at = place
        axes = zip(self._axes, at, strict=True)
        met = [axis.backward(i) if self._transposed else axis.forward(i) for axis, i in axes]
        taps = tuple(_slice(taps) for taps, _ in met)
        elements = tuple(_slice(elements) for _, elements in met)
        channels = self._source.shape[1] // self._groups
        outputs = self._kernel.shape[1] if self._transposed else self._kernel.shape[0] // self._groups
        group, within = divmod(channel, outputs)
        own = slice(group * channels, (group + 1) * channels)
        kernel = self._kernel[(own, within, *taps)] if self._transposed else self._kernel[(channel, slice(None), *taps)]
        return self._source[(image, own, *elements)], kernel


def convolution(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    target, bias = outputs["OutputTensor"], inputs.get("BiasTensor")
    to, fused = FORMATS[plan.outputs["OutputTensor"].data_type], as_fused(plan.attributes.FusedActivation)
    gathering = Gathering(plan, inputs["InputTensor"], inputs["FilterTensor"])
    inner = [size - pad for size, pad in zip(target.shape[2:], plan.attributes.OutputPadding, strict=True)]
    for place in places(target.shape, stop):
        if any(at >= end for at, end in zip(place[2:], inner, strict=True)):
            target[place] = finished(Fraction(0), fused, to)
            continue
        value = product_sum(*gathering.views(place), to, stop)
        if bias is not None:
            value = added(value, real(bias.flat[place[1]]))
        target[place] = finished(value, fused, to)
    inside: tuple[Any, ...] = (..., *(slice(size) for size in inner))
    Gaps(ConvolutionGeometry(plan)).fill(inputs["FilterTensor"], target[inside], finished(nan, fused, to), stop)


def _integer_sums(plan: Plan, inputs: Arrays, stop: Stop) -> Callable[[Place], int]:
    """Returns a function for the sum of an output element; padding equals the zero point, so it adds nothing."""
    gathering = Gathering(plan, inputs["InputTensor"], inputs["FilterTensor"])
    zero = _zero_point(inputs, "InputZeroPointTensor", 0)

    def of(place: Place) -> int:
        source, kernel = gathering.views(place)
        filter_zero = _zero_point(inputs, "FilterZeroPointTensor", place[1])
        return integer_product_sum(source, zero, kernel, filter_zero, stop)

    return of


def integers(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    target, total = outputs["OutputTensor"], _integer_sums(plan, inputs, stop)
    for place in places(target.shape, stop):
        target[place] = (total(place) + 2**31) % 2**32 - 2**31


def quantized_convolution(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    target, total = outputs["OutputTensor"], _integer_sums(plan, inputs, stop)
    data_type, bias = plan.outputs["OutputTensor"].data_type, inputs.get("BiasTensor")
    input_scale, output_scale = (inputs[name].flat[0] for name in ("InputScaleTensor", "OutputScaleTensor"))
    zero_point = _zero_point(inputs, "OutputZeroPointTensor", 0)
    for place in places(target.shape, stop):
        units = total(place) + (0 if bias is None else int(bias.flat[place[1]]))
        value = scaled(Fraction(units), real(input_scale))
        value = scaled(value, real(_parameter(inputs["FilterScaleTensor"], place[1])))
        target[place] = quantized(value, float(output_scale), zero_point, data_type)


def _zero_point(inputs: Arrays, name: str, channel: int) -> int:
    return int(_parameter(inputs[name], channel)) if name in inputs else 0


def _parameter(parameter: Array, channel: int) -> Any:
    """Returns the parameter of a channel; there is one per channel or one for all."""
    return parameter.flat[channel if parameter.size > 1 else 0]


KERNELS = {
    "CONVOLUTION": convolution,
    "CONVOLUTION_INTEGER": integers,
    "QUANTIZED_LINEAR_CONVOLUTION": quantized_convolution,
}
