"""Normalizations, computed literally by the documented formulas with many digits, and their accuracy classes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer, Reals, fraction_of
from tests.oracles.activations import activated
from tests.oracles.elements import Number, add, is_nan, is_special, number, over, times

mp = mpmath.MPContext()
mp.prec = 2000

Coordinate = tuple[int, ...]
Inputs = Mapping[str, Array]

ONE_ULP = Fraction(1)


def negative(x: Number) -> Number:
    return -x


def minus(a: Number, b: Number) -> Number:
    return add(a, -b)


def root(x: Number) -> Number:
    if is_special(x):
        return math.nan if is_nan(x) or x < 0 else math.sqrt(x)
    return math.nan if x < 0 else mp.sqrt(mp.mpf(x.numerator) / x.denominator if isinstance(x, Fraction) else x)


def total(numbers: Iterable[Number]) -> Number:
    result: Number = 0.0
    for each in numbers:
        result = add(result, each)
    return result


def mean(numbers: Sequence[Number]) -> Number:
    return over(total(numbers), Fraction(len(numbers)))


def power(base: Number, exponent: float) -> Number:
    """Returns C's ``pow``."""
    if exponent == 0 or base == 1:
        return Fraction(1)
    if is_special(base) or not math.isfinite(exponent):
        try:
            if is_special(base):
                return number(math.pow(base, exponent))
            larger = abs(base) > 1
            return 0.0 if larger == (exponent < 0) else math.inf
        except (ValueError, ZeroDivisionError):  # 0 to a negative power
            return math.inf
    if base < 0 and exponent != int(exponent):
        return math.nan
    magnitude = mp.exp(mp.log(abs(real_of(base))) * mp.mpf(exponent))
    return -magnitude if base < 0 and int(exponent) % 2 else magnitude


def by_logarithm(base: Number, exponent: float) -> Number:
    """Returns ``exp2(exponent * log2(base))``, and for negative bases the integer powers."""
    if is_nan(base) or math.isnan(exponent):
        return math.nan
    if base < 0 and not exponent.is_integer():
        return math.nan
    if (exponent == 0 and abs(base) in (0, math.inf)) or (math.isinf(exponent) and base == 1):
        return math.nan
    return power(base, exponent)


def real_of(x: Number) -> Any:
    return mp.mpf(x.numerator) / x.denominator if isinstance(x, Fraction) else mp.mpf(x)


def places(sizes: Sequence[int]) -> Iterator[Coordinate]:
    yield from itertools.product(*map(range, sizes))


def at(inputs: Inputs, name: str, place: Coordinate, default: Number = 0.0) -> Number:
    """Returns the element that is broadcast to a coordinate."""
    tensor = inputs.get(name)
    if tensor is None:
        return default
    return number(float(tensor[tuple(0 if size == 1 else i for i, size in zip(place, tensor.shape, strict=True))]))


def blocks(sizes: Sequence[int], axes: Iterable[int]) -> dict[Coordinate, list[Coordinate]]:
    """Groups coordinates that differ only along the axes, by the first of each group."""
    along, found = set(axes), dict[Coordinate, list[Coordinate]]()
    for place in places(sizes):
        found.setdefault(tuple(0 if i in along else k for i, k in enumerate(place)), []).append(place)
    return found


def finished(plan: Plan, value: Number) -> Number:
    """Applies the fused activation to the value as a float64, which is what activations get."""
    activation = getattr(plan.attributes, "FusedActivation", None)
    if activation is None:
        return value
    exact = value if is_special(value) else fraction_of(value)
    try:
        narrow = float(exact) if exact is not None else float(value)
    except OverflowError:
        narrow = math.copysign(math.inf, value)
    return activated(activation, number(narrow))


def _batch_normalization(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    found = np.empty(inputs["InputTensor"].shape, object)
    for place in places(found.shape):
        x, m, v, scale, bias = (at(inputs, f"{n}Tensor", place) for n in ("Input", "Mean", "Variance", "Scale", "Bias"))
        divisor = root(add(v, number(plan.attributes.Epsilon)))
        found[place] = finished(plan, add(over(times(scale, minus(x, m)), divisor), bias))
    return {"OutputTensor": Reals(found, ONE_ULP)}


def _variance(values: Sequence[Number], about: Number) -> Number:
    return mean([times(minus(x, about), minus(x, about)) for x in values])


def _training(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    source, sizes = inputs["InputTensor"], inputs["ScaleTensor"].shape
    found, means, variances = (np.empty(shape, object) for shape in (source.shape, sizes, sizes))
    for first, members in blocks(source.shape, [i for i, size in enumerate(sizes) if size == 1]).items():
        values = [at(inputs, "InputTensor", place) for place in members]
        means[first] = m = mean(values)
        variances[first] = v = _variance(values, m)
        divisor = root(add(v, number(plan.attributes.Epsilon)))
        for place, x in zip(members, values, strict=True):
            scale, bias, more = (at(inputs, f"{n}Tensor", place) for n in ("Scale", "Bias", "FusedAdd"))
            found[place] = finished(plan, add(add(over(times(scale, minus(x, m)), divisor), bias), more))
    answers = (Reals(found, ONE_ULP), Reals(means, ONE_ULP), Reals(variances, ONE_ULP))
    return dict(zip(("OutputTensor", "OutputMeanTensor", "OutputVarianceTensor"), answers, strict=True))


def _gradients(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    source, sizes = inputs["InputTensor"], inputs["MeanTensor"].shape
    found, scales, biases = (np.empty(shape, object) for shape in (source.shape, sizes, sizes))
    for first, members in blocks(source.shape, [i for i, size in enumerate(sizes) if size == 1]).items():
        xs = [at(inputs, "InputTensor", place) for place in members]
        gs = [at(inputs, "InputGradientTensor", place) for place in members]
        m, v, scale = (at(inputs, f"{name}Tensor", first) for name in ("Mean", "Variance", "Scale"))
        v = add(0.0, add(v, number(plan.attributes.Epsilon)))  # a zero has no sign here either
        scales[first] = over(total(times(g, minus(x, m)) for g, x in zip(gs, xs, strict=True)), root(v))
        biases[first] = total(gs)
        by_batch = "TRAINING" in plan.operator.name
        gradients = _by_the_batch(xs, gs, m, v) if by_batch else gs
        for place, g in zip(members, gradients, strict=True):
            found[place] = times(over(scale, root(v)), g) if by_batch else over(times(g, scale), root(v))
    names = ("OutputGradientTensor", "OutputScaleGradientTensor", "OutputBiasGradientTensor")
    return {name: Reals(each, ONE_ULP) for name, each in zip(names, (found, scales, biases), strict=True)}


def _by_the_batch(xs: Sequence[Number], gs: Sequence[Number], m: Number, v: Number) -> list[Number]:
    g_mean = mean(gs)
    slope = mean([times(g, minus(x, m)) for x, g in zip(xs, gs, strict=True)])
    along = [over(times(minus(x, m), slope), v) for x in xs]
    return [minus(minus(g, g_mean), each) for g, each in zip(gs, along, strict=True)]


def _mean_variance(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    a, source = plan.attributes, inputs["InputTensor"]
    axes = getattr(a, "Axes", (1, 2, 3) if getattr(a, "CrossChannel", False) else (2, 3))
    use_mean, use_variance = getattr(a, "UseMean", True), getattr(a, "UseVariance", getattr(a, "NormalizeVariance", 0))
    found = np.empty(source.shape, object)
    for members in blocks(source.shape, axes).values():
        values = [at(inputs, "InputTensor", place) for place in members]
        m = mean(values) if use_mean else 0.0
        divisor = root(add(_variance(values, m), number(a.Epsilon))) if use_variance else Fraction(1)
        for place, x in zip(members, values, strict=True):
            scale, bias = at(inputs, "ScaleTensor", place, Fraction(1)), at(inputs, "BiasTensor", place)
            found[place] = finished(plan, add(over(times(scale, minus(x, m)), divisor), bias))
    return {"OutputTensor": Reals(found, ONE_ULP)}


def _lp(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    found = np.empty(inputs["InputTensor"].shape, object)
    for members in blocks(found.shape, [plan.attributes.Axis]).values():
        values = [at(inputs, "InputTensor", place) for place in members]
        if plan.attributes.P == 1:
            norm = total(map(abs, values))
            squares = times(norm, norm)
        else:
            squares = total(times(x, x) for x in values)
        divisor = root(add(squares, number(plan.attributes.Epsilon)))
        for place, x in zip(members, values, strict=True):
            found[place] = over(x, divisor)
    return {"OutputTensor": Reals(found, ONE_ULP)}


def _region(plan: Plan, place: Coordinate, sizes: Sequence[int]) -> list[Coordinate]:
    """Returns the neighbors whose squares count for a coordinate."""
    a = plan.attributes
    along = (1,) if a.CrossChannel else (2, 3)
    reach = range(-math.floor((a.LocalSize - 1) / 2), math.ceil((a.LocalSize - 1) / 2) + 1)
    offsets = itertools.product(*(reach if i in along else (0,) for i in range(4)))
    moved = (tuple(k + d for k, d in zip(place, offset, strict=True)) for offset in offsets)
    return [each for each in moved if all(0 <= k < size for k, size in zip(each, sizes, strict=True))]


def _bracket(plan: Plan, inputs: Inputs, place: Coordinate) -> Number:
    a, sizes = plan.attributes, inputs["InputTensor"].shape
    elements = [at(inputs, "InputTensor", each) for each in _region(plan, place, sizes)]
    squares = total(times(x, x) for x in elements)
    # A zero has no sign here: the formula is over the reals, and elements are divided by a power of it.
    return add(0.0, add(number(a.Bias), times(over(number(a.Alpha), Fraction(a.LocalSize)), squares)))


def _response(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    found = np.empty(inputs["InputTensor"].shape, object)
    for place in places(found.shape):
        divisor = by_logarithm(_bracket(plan, inputs, place), plan.attributes.Beta)
        found[place] = over(at(inputs, "InputTensor", place), divisor)
    return {"OutputTensor": Reals(found, ONE_ULP)}


def _response_gradient(plan: Plan, inputs: Inputs) -> Mapping[str, Answer]:
    a, sizes = plan.attributes, inputs["InputTensor"].shape
    brackets = {place: _bracket(plan, inputs, place) for place in places(sizes)}
    regions = {place: _region(plan, place, sizes) for place in places(sizes)}
    xs, gs = ({place: at(inputs, name, place) for place in brackets} for name in ("InputTensor", "InputGradientTensor"))
    factor = times(Fraction(2), times(over(number(a.Alpha), Fraction(a.LocalSize)), number(a.Beta)))
    found = np.empty(sizes, object)
    for place, bracket in brackets.items():
        lower = {i: by_logarithm(brackets[i], -a.Beta - 1) for i in regions[place]}
        sum_of_all = total(times(times(gs[i], xs[i]), lower[i]) for i in regions[place])
        own = times(gs[place], by_logarithm(bracket, -a.Beta))
        found[place] = minus(own, times(times(factor, xs[place]), sum_of_all))
    return {"OutputGradientTensor": Reals(found, ONE_ULP)}


Oracle = Callable[[Plan, Inputs], Mapping[str, Answer]]

EXPECTED: dict[str, Oracle] = {
    "BATCH_NORMALIZATION": _batch_normalization,
    "BATCH_NORMALIZATION_TRAINING": _training,
    "BATCH_NORMALIZATION_GRAD": _gradients,
    "BATCH_NORMALIZATION_TRAINING_GRAD": _gradients,
    "MEAN_VARIANCE_NORMALIZATION": _mean_variance,
    "MEAN_VARIANCE_NORMALIZATION1": _mean_variance,
    "MEAN_VARIANCE_NORMALIZATION2": _mean_variance,
    "LP_NORMALIZATION": _lp,
    "LOCAL_RESPONSE_NORMALIZATION": _response,
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": _response_gradient,
}
