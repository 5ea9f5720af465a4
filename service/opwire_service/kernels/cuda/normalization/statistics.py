"""Normalization by mean and variance, computed from the rows or given, and Lp normalization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from opwire.check import Plan
from opwire.fields.member import NestedOperator
from opwire.tensor import Array

from ....execution import Stop
from ...exact import FORMATS
from ...formulas.resolve import as_fused
from ...reference.elements import Elements
from ...reference.moments import moments
from ...reference.normalization import axes_of, finished, length_of, normalized, statistics_of, uses
from ...reference.reals import add, divide, real, root, rounded
from ..fused import activated_source
from ..job import Card
from .rows import NormalizationJob, RowKernels, SideTensor

_STATE_BYTES, _ROW_BYTES, _STATISTICS_BYTES = 40, 32, 24

_IN_PAIRS = tuple(f"normalization/{each}" for each in ("moments", "totals", "moments_pairs"))
_STATE_BYTES_IN_PAIRS, _ROW_BYTES_IN_PAIRS = 40, 76

_BESIDE = {"scale": "ScaleTensor", "bias": "BiasTensor", "added": "FusedAddTensor"}


def _kernels(
    plan: Plan, card: Card, activation: NestedOperator | None, *, mean: bool, variance: bool, lengths: bool = False
) -> RowKernels:
    macros = ("MEAN", int(mean)), ("VARIANCE", int(variance)), ("ACTIVATED", int(activation is not None))
    if card.prefers_pairs and activation is None:
        return RowKernels(
            _IN_PAIRS,
            _STATE_BYTES_IN_PAIRS,
            _ROW_BYTES_IN_PAIRS,
            (*macros, ("LENGTHS", int(lengths))),
            functions=activated_source(None),
            in_pairs=True,
            epsilon=plan.attributes.Epsilon,
        )
    return RowKernels(
        ("inverses", "normalization/moments"),
        _STATE_BYTES,
        _ROW_BYTES,
        macros,
        activated_source(activation),
        epsilon=plan.attributes.Epsilon,
    )


def _by_own_statistics(plan: Plan, card: Card) -> NormalizationJob:
    """Returns the job that normalizes rows by their own statistics."""
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    mean, variance = uses(plan)
    to, fused = FORMATS[source.data_type], as_fused(plan.attributes.FusedActivation)

    def exact(row: Array, values: Array, beside: Mapping[str, Array], stop: Stop) -> Array:
        center, divisor = statistics_of(moments(Elements(row, stop), to), plan)
        ones, zeros = np.ones(values.shape), np.zeros(values.shape)
        summands = [beside[key] for key in ("bias", "added") if key in beside] or [zeros]
        columns = (values, beside.get("scale", ones), *summands)
        found = np.empty(values.shape, to.dtype)
        known: dict[tuple[float, ...], object] = {}
        for place, key in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            if key not in known:
                value, scale, *summands = key
                number = normalized(value, center, divisor, real(scale), *map(real, summands))
                known[key] = finished(number, fused, to)
            found[place] = known[key]
        return found

    def statistics(row: Array, stop: Stop) -> tuple[object, object]:
        found = moments(Elements(row, stop), to)
        return rounded(found.mean, to), rounded(found.spread(found.mean), to)

    beside = {key: SideTensor(name, plan.inputs[name]) for key, name in _BESIDE.items() if name in plan.inputs}
    kernels = replace(_kernels(plan, card, fused, mean=mean, variance=variance), exact=exact)
    if "OutputMeanTensor" in plan.outputs:
        for key in ("mean", "variance"):
            name = f"Output{key.capitalize()}Tensor"
            beside[key] = SideTensor(name, plan.outputs[name], is_output=True)
        more = 0 if kernels.in_pairs else _STATISTICS_BYTES
        kernels = replace(kernels, statistics=statistics, row_bytes=kernels.row_bytes + more)
    return NormalizationJob(source, target, beside, axes_of(plan), kernels, card.processors)


def _by_given_statistics(plan: Plan, card: Card) -> NormalizationJob:
    """Returns the job for BATCH_NORMALIZATION; rows span the dimensions that mean and variance are broadcast along."""
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    names = {"mean": "MeanTensor", "variance": "VarianceTensor", "scale": "ScaleTensor", "bias": "BiasTensor"}
    beside = {key: SideTensor(name, plan.inputs[name]) for key, name in names.items()}
    to, attributes = FORMATS[source.data_type], plan.attributes
    fused = as_fused(attributes.FusedActivation)

    def exact(row: Array, values: Array, beside: Mapping[str, Array], stop: Stop) -> Array:
        keys = zip(values.tolist(), *(beside[key].tolist() for key in names), strict=True)
        found = np.empty(values.shape, to.dtype)
        for place, (value, mean, variance, scale, bias) in enumerate(keys):
            divisor = root(add(real(variance), real(attributes.Epsilon)))
            number = normalized(value, real(mean), divisor, real(scale), real(bias))
            found[place] = finished(number, fused, to)
        return found

    statistics = beside["mean"].desc, beside["variance"].desc
    axes = [i for i in range(source.rank) if all(desc.sizes[i] == 1 for desc in statistics)]
    kernels = replace(_kernels(plan, card, fused, mean=True, variance=True), exact=exact, given=True)
    return NormalizationJob(source, target, beside, axes, kernels, card.processors)


def _by_lengths(plan: Plan, card: Card) -> NormalizationJob:
    attributes, source, target = plan.attributes, plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    to = FORMATS[source.data_type]

    def exact(row: Array, values: Array, beside: Mapping[str, Array], stop: Stop) -> Array:
        divisor = length_of(Elements(row, stop), plan, to)
        return np.array([rounded(divide(real(value), divisor), to) + 0 for value in values.tolist()], to.dtype)

    if card.prefers_pairs and attributes.P == 2:
        # The root of a sum of squares, as of a mean of squares that are not divided.
        squares = replace(_kernels(plan, card, None, mean=False, variance=True, lengths=True), exact=exact, count=1)
        return NormalizationJob(source, target, {}, (attributes.Axis,), squares, card.processors)
    cancels = attributes.Epsilon < 0
    macros = (("SQUARED", int(attributes.P == 2)), ("CANCELS", int(cancels)))
    kernels = RowKernels(("normalization/lengths",), 8, 8, macros, epsilon=attributes.Epsilon)
    if cancels:
        kernels = replace(kernels, exact=exact)
    return NormalizationJob(source, target, {}, (attributes.Axis,), kernels, card.processors)


JOBS: dict[str, Callable[[Plan, Card], NormalizationJob]] = {
    "BATCH_NORMALIZATION": _by_given_statistics,
    "LP_NORMALIZATION": _by_lengths,
    **dict.fromkeys(
        (
            "BATCH_NORMALIZATION_TRAINING",
            "MEAN_VARIANCE_NORMALIZATION",
            "MEAN_VARIANCE_NORMALIZATION1",
            "MEAN_VARIANCE_NORMALIZATION2",
        ),
        _by_own_statistics,
    ),
}
