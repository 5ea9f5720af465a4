"""Resampling in any dimension, output by output, with fractions as weights; gradients as the transpose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer, Reals
from tests.oracles.windows import Coordinate, Number, every, numbers, of_sums, total

Weights = dict[int, Fraction]
"""Weights of the elements that an output reads, by index along a dimension."""


def _coordinate(output: int, scale: float, input_offset: float, output_offset: float) -> float:
    single = np.float32
    with np.errstate(all="ignore"):
        return float((single(output) - single(output_offset)) / single(scale) - single(input_offset))


def _weights(plan: Plan, axis: int, rank: int, size: int, output: int) -> Weights:
    attributes = plan.attributes
    if plan.operator.name == "UPSAMPLE_2D":
        factors = {rank - 2: attributes.ScaleSize.Height, rank - 1: attributes.ScaleSize.Width}
        scale = float(factors.get(axis, 1))
    else:
        scale = attributes.Scales[axis]
    offsets = (
        attributes.InputPixelOffsets[axis] if hasattr(attributes, "InputPixelOffsets") else 0.5,
        attributes.OutputPixelOffsets[axis] if hasattr(attributes, "OutputPixelOffsets") else -0.5,
    )
    is_linear, is_gradient = attributes.InterpolationMode.name == "LINEAR", "InputGradientTensor" in plan.inputs
    at = _coordinate(output, scale, *(reversed(offsets) if is_gradient else offsets))
    if is_linear and not is_gradient and not (getattr(attributes, "Antialiased", False) and scale < 0.5):
        return _between(at, _coordinate(output, scale, min(max(offsets[0], 0), 1), offsets[1]), size)
    if math.isnan(at):
        if is_gradient:
            return {} if is_linear and size > 1 else dict.fromkeys(range(size), Fraction(1))
        return {0: Fraction(1)}
    if math.isinf(at):
        return {size - 1 if at > 0 else 0: Fraction(1)}
    if is_linear:
        if getattr(attributes, "Antialiased", False) and scale < 0.5:
            return _stretched(Fraction(at), Fraction(scale), size)
        below = math.floor(at)
        part = Fraction(at) - below
        return _clamped({below: 1 - part, below + 1: part}, size)
    if hasattr(attributes, "RoundingDirection"):
        up = attributes.RoundingDirection.name == "INCREASING"
        return _clamped({math.ceil(at) if up else math.floor(at): Fraction(1)}, size)
    if plan.operator.name == "RESAMPLE" and not plan.inputs["InputTensor"].data_type.is_float:
        return _clamped({math.ceil(Fraction(at) - Fraction(1, 2)): Fraction(1)}, size)
    return _clamped({math.floor(Fraction(at) + Fraction(1, 2)): Fraction(1)}, size)


def _between(at: float, limited: float, size: int) -> Weights:
    """Returns the weights of the elements around a coordinate that was moved by an input offset from 0 to 1."""
    if not (math.isfinite(at) and math.isfinite(limited)):
        return {}
    below = math.floor(limited)
    part = Fraction(float(np.float32(at) - np.float32(below)))
    return _clamped({below: 1 - part, below + 1: part}, size)


def _stretched(center: Fraction, scale: Fraction, size: int) -> Weights:
    least, most = math.floor(center - 1 / scale), math.ceil(center + 1 / scale)
    if most - least > 100_000:  # too many to list; only those inside are told apart
        return _wide(center, scale, size)
    heights = {at: max(Fraction(0), 1 - abs(at - center) * scale) for at in range(least, most + 1)}
    whole = sum(heights.values())
    return _clamped({at: height / whole for at, height in heights.items()}, size)


def _wide(center: Fraction, scale: Fraction, size: int) -> Weights:
    """Computes the weights from arithmetic series on both sides of the center."""

    def upto(last: int) -> Fraction:
        """Returns the sum of weights at integers up to ``last``, from both halves of the triangle."""
        first = math.floor(center - 1 / scale) + 1
        end = min(last, math.ceil(center + 1 / scale) - 1)
        middle = min(math.floor(center), end)
        left = sum_of(first, middle, lambda at: 1 - (center - at) * scale)
        return left + sum_of(max(first, middle + 1), end, lambda at: 1 - (at - center) * scale)

    def sum_of(first: int, last: int, height: Any) -> Fraction:
        return (last - first + 1) * (height(first) + height(last)) / 2 if last >= first else Fraction(0)

    whole = upto(math.ceil(center + 1 / scale))
    bounds = [Fraction(0), *(upto(at) for at in range(size - 1)), whole]
    return {at: (bounds[at + 1] - bounds[at]) / whole for at in range(size) if bounds[at + 1] > bounds[at]}


def _clamped(weights: Weights, size: int) -> Weights:
    """Moves indices outside to the nearest edge and drops zero weights."""
    result: Weights = {}
    for at, weight in weights.items():
        if weight:
            inside = min(max(at, 0), size - 1)
            result[inside] = result.get(inside, Fraction(0)) + weight
    return result


def _read(plan: Plan, sizes: Coordinate, place: Coordinate) -> Iterator[tuple[Coordinate, Fraction]]:
    """Yields the elements that an output reads, with their weights."""
    axes = [_weights(plan, axis, len(sizes), size, place[axis]).items() for axis, size in enumerate(sizes)]
    for taps in itertools.product(*axes):
        yield tuple(at for at, _ in taps), math.prod((weight for _, weight in taps), start=Fraction(1))


def _resampled(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    source, desc = inputs["InputTensor"], plan.outputs["OutputTensor"]
    if plan.attributes.InterpolationMode.name != "LINEAR":
        result = np.empty(desc.sizes, desc.data_type.dtype)
        for place in every(desc.sizes):
            ((at, _),) = _read(plan, source.shape, place)
            result[place] = source[at]
        return {"OutputTensor": result}

    def value(place: Coordinate) -> Number:
        read = list(_read(plan, source.shape, place))
        return total((source[at], weight) for at, weight in read) if read else math.nan

    found = numbers(desc.sizes, value)
    if desc.data_type.is_float:
        return {"OutputTensor": Reals(found, Fraction(1))}
    whole = np.vectorize(lambda number: 0 if number != number else round(number), otypes=[np.int64])(found)
    limits = np.iinfo(desc.data_type.dtype)
    return {"OutputTensor": np.clip(whole, limits.min, limits.max).astype(desc.data_type.dtype)}


def _gradient(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    gradient, sizes = inputs["InputGradientTensor"], plan.outputs["OutputGradientTensor"].sizes
    sums: dict[Coordinate, list[tuple[Any, Fraction]]] = {}
    for place in every(gradient.shape):
        for at, weight in _read(plan, sizes, place):
            sums.setdefault(at, []).append((gradient[place], weight))
    return {"OutputGradientTensor": Reals(of_sums(sizes, sums), Fraction(1))}


EXPECTED = {
    **dict.fromkeys(("UPSAMPLE_2D", "RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3"), _resampled),
    **dict.fromkeys(("RESAMPLE_GRAD", "RESAMPLE_GRAD1"), _gradient),
}
