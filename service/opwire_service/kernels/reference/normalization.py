"""Normalizations: exact statistics and the documented formula over the reals, rounded once."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ...execution import Arrays, Stop
from ..activation import activated
from ..decimals import FLOAT64
from ..exact import FORMATS, Float, FloatFormat
from ..formulas.resolve import as_fused
from .batch_gradients import KERNELS as GRADIENTS
from .elements import Elements, groups
from .local_response import KERNELS as RESPONSES
from .local_response import TURNS as TURNS_OF_RESPONSES
from .moments import Moments, moments
from .places import group_at, places
from .reals import ONE, ZERO, Real, add, divide, multiply, real, root, rounded, subtract


def finished(value: Real, activation: Any, to: FloatFormat) -> Float:
    """Rounds an output element, after the fused activation if there is one."""
    if activation is None:
        return rounded(value, to)
    result = activated(activation, np.array([rounded(value, FLOAT64)], np.float64))
    with np.errstate(over="ignore"):
        element: Float = result.astype(to.dtype)[0]
    return element


def normalized(value: Any, mean: Real, divisor: Real, scale: Real, *summands: Real) -> Real:
    """Returns ``scale * (value - mean) / divisor`` plus the summands."""
    result = divide(multiply(scale, subtract(real(value), mean)), divisor)
    for summand in summands:
        result = add(result, summand)
    return result


def _parameter(array: Array | None, sizes: tuple[int, ...], default: Real) -> Any:
    """Returns a function from a coordinate to the parameter there."""
    if array is None:
        return lambda place: default
    stretched = np.broadcast_to(array, sizes)
    return lambda place: real(stretched[place])


def batch_normalization(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    names = ("Mean", "Variance", "Scale", "Bias")
    means, variances, scales, biases = (_parameter(inputs[f"{name}Tensor"], source.shape, ZERO) for name in names)
    epsilon, to = real(plan.attributes.Epsilon), FORMATS[plan.outputs["OutputTensor"].data_type]
    fused = as_fused(plan.attributes.FusedActivation)
    for place in places(source.shape, stop):
        divisor = root(add(variances(place), epsilon))
        value = normalized(source[place], means(place), divisor, scales(place), biases(place))
        target[place] = finished(value, fused, to)


def batch_normalization_training(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target, scale = inputs["InputTensor"], outputs["OutputTensor"], inputs["ScaleTensor"]
    bias, added = inputs["BiasTensor"], inputs.get("FusedAddTensor")
    to, epsilon = FORMATS[plan.outputs["OutputTensor"].data_type], real(plan.attributes.Epsilon)
    fused = as_fused(plan.attributes.FusedActivation)
    for place in places(scale.shape, stop):
        group = group_at(place, scale.shape)
        found = moments(Elements(source[group], stop), to)
        mean, variance = found.mean, found.spread(found.mean)
        outputs["OutputMeanTensor"][place] = rounded(mean, to)
        outputs["OutputVarianceTensor"][place] = rounded(variance, to)
        divisor = root(add(variance, epsilon))
        view, into, more = source[group], target[group], None if added is None else added[group]
        for at in places(view.shape, stop):
            summands = (real(bias[place]), *(() if more is None else (real(more[at]),)))
            value = normalized(view[at], mean, divisor, real(scale[place]), *summands)
            into[at] = finished(value, fused, to)


def axes_of(plan: Plan) -> tuple[int, ...]:
    """Returns the dimensions over which mean and variance are computed."""
    if plan.operator.name == "BATCH_NORMALIZATION_TRAINING":
        return tuple(i for i, size in enumerate(plan.inputs["ScaleTensor"].sizes) if size == 1)
    if plan.operator.name == "MEAN_VARIANCE_NORMALIZATION":
        return (1, 2, 3) if plan.attributes.CrossChannel else (2, 3)
    return tuple(sorted(set(plan.attributes.Axes)))


def uses(plan: Plan) -> tuple[bool, bool]:
    """Returns whether the mean and the variance are used."""
    if plan.operator.name == "MEAN_VARIANCE_NORMALIZATION2":
        return bool(plan.attributes.UseMean), bool(plan.attributes.UseVariance)
    return True, bool(getattr(plan.attributes, "NormalizeVariance", True))


def statistics_of(found: Moments, plan: Plan) -> tuple[Real, Real]:
    """Returns what to subtract from the elements of a group and what to divide them by."""
    use_mean, use_variance = uses(plan)
    mean = found.mean if use_mean else ZERO
    if not use_variance:
        return mean, ONE
    return mean, root(add(found.spread(mean), real(plan.attributes.Epsilon)))


def mean_variance_normalization(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    scales = _stretched(inputs.get("ScaleTensor"), source.shape)
    biases = _stretched(inputs.get("BiasTensor"), source.shape)
    axes, to = axes_of(plan), FORMATS[plan.outputs["OutputTensor"].data_type]
    fused = as_fused(plan.attributes.FusedActivation)
    # Partition all tensors into the same groups.
    parts = zip(groups(axes, source, target), groups(axes, scales, biases), strict=True)
    for (view, into), (scale, bias) in parts:
        mean, divisor = statistics_of(moments(Elements(view, stop), to), plan)
        for at in places(view.shape, stop):
            shift = ZERO if "BiasTensor" not in inputs else real(bias[at])
            value = normalized(view[at], mean, divisor, real(scale[at]), shift)
            into[at] = finished(value, fused, to)


def _stretched(array: Array | None, sizes: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.float32(1) if array is None else array, sizes)


def lp_normalization(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    """Divides X by its length along an axis."""
    attributes, to = plan.attributes, FORMATS[plan.outputs["OutputTensor"].data_type]
    for view, into in groups((attributes.Axis,), inputs["InputTensor"], outputs["OutputTensor"]):
        divisor = length_of(Elements(view, stop), plan, to)
        for at in places(view.shape, stop):
            into[at] = rounded(divide(real(view[at]), divisor), to) + 0  # no zero is negative


def length_of(elements: Iterable[Array], plan: Plan, to: FloatFormat) -> Real:
    """Returns the root of the squared norm plus Epsilon, by which DirectML divides."""
    if plan.attributes.P == 1:
        norm = moments((np.abs(values) for values in elements), to).total
        squares = multiply(norm, norm)
    else:
        squares = moments(elements, to).squares
    return root(add(squares, real(plan.attributes.Epsilon)))


KERNELS = {
    "BATCH_NORMALIZATION": batch_normalization,
    "BATCH_NORMALIZATION_TRAINING": batch_normalization_training,
    "MEAN_VARIANCE_NORMALIZATION": mean_variance_normalization,
    "MEAN_VARIANCE_NORMALIZATION1": mean_variance_normalization,
    "MEAN_VARIANCE_NORMALIZATION2": mean_variance_normalization,
    "LP_NORMALIZATION": lp_normalization,
    **GRADIENTS,
    **RESPONSES,
}


def _with_groups(plan: Plan) -> int:
    """Counts each element once and each group twice, as its deviation takes a root."""
    desc = plan.outputs["OutputTensor"]
    return desc.element_count + 2 * desc.element_count // prod(desc.sizes[axis] for axis in axes_of(plan))


TURNS = {mean_variance_normalization: _with_groups, **TURNS_OF_RESPONSES}
