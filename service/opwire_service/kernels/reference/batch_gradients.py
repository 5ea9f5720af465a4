"""Gradients of batch normalization: exact sums and the documented formulas over the reals, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ...execution import Arrays, Stop
from ..exact import FORMATS, FloatFormat
from .elements import Elements
from .moments import moments, sum_of_products
from .places import group_at, places
from .reals import ZERO, Real, add, divide, multiply, real, root, rounded, subtract


class Group(NamedTuple):
    """The elements that share a scale, and the sums that their gradients need.

    Attributes:
        values, gradients: the input elements and the gradients of their outputs.
        number: number of elements.
        total, gradient_total: sums of both.
        products: sum of their products.
    """

    values: Array
    gradients: Array
    number: int
    total: Real
    gradient_total: Real
    products: Real

    def products_about(self, mean: Real, stop: Stop) -> Real:
        """Returns the sum of gradients times deviations from a mean."""
        mean = add(ZERO, mean)  # -0 is a finite number like any other
        if all(isinstance(each, Fraction) for each in (self.total, self.gradient_total, mean)):
            return subtract(self.products, multiply(mean, self.gradient_total))
        special = 0.0
        for values, gradients in zip(Elements(self.values, stop), Elements(self.gradients, stop), strict=True):
            with np.errstate(invalid="ignore"):
                terms = gradients.astype(np.float64) * (values.astype(np.float64) - float(mean))
                special += float(terms[~np.isfinite(terms)].sum())
        return real(special)


def summed(values: Array, gradients: Array, of: FloatFormat, stop: Stop) -> Group:
    """Returns the group of the given elements."""
    total = moments(Elements(values, stop), of).total
    gradient_total = moments(Elements(gradients, stop), of).total
    pairs = zip(Elements(values, stop), Elements(gradients, stop), strict=True)
    return Group(values, gradients, values.size, total, gradient_total, sum_of_products(pairs, of))


Gradient = Callable[[Any, Any], Real]
"""The gradient of an element, given its value and the gradient of its output."""


def by_given_statistics(group: Group, mean: Real, scale: Real, variance: Real, stop: Stop) -> Gradient:
    factor = divide(scale, root(variance))
    return lambda value, gradient: multiply(real(gradient), factor)


def by_statistics_of_the_batch(group: Group, mean: Real, scale: Real, variance: Real, stop: Stop) -> Gradient:
    """Takes the given mean and variance for those of the batch, as DirectML does."""
    factor, count = divide(scale, root(variance)), real(group.number)
    gradient_mean = divide(group.gradient_total, count)
    covariance = divide(group.products_about(mean, stop), count)

    def of(value: Any, gradient: Any) -> Real:
        along = divide(multiply(subtract(real(value), mean), covariance), variance)
        return multiply(factor, subtract(subtract(real(gradient), gradient_mean), along))

    return of


def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    of, epsilon = FORMATS[plan.inputs["InputTensor"].data_type], add(ZERO, real(plan.attributes.Epsilon))
    means, variances, scales = (inputs[f"{name}Tensor"] for name in ("Mean", "Variance", "Scale"))
    gradients_of = by_statistics_of_the_batch if "TRAINING" in plan.operator.name else by_given_statistics
    for place in places(means.shape, stop):
        at = group_at(place, means.shape)
        group = summed(inputs["InputTensor"][at], inputs["InputGradientTensor"][at], of, stop)
        variance = add(real(variances[place]), epsilon)
        mean = real(means[place])
        scaled = divide(group.products_about(mean, stop), root(variance))
        outputs["OutputScaleGradientTensor"][place] = rounded(scaled, of)
        outputs["OutputBiasGradientTensor"][place] = rounded(group.gradient_total, of)
        target = outputs["OutputGradientTensor"][at]
        of_element = gradients_of(group, mean, real(scales[place]), variance, stop)
        for here in places(target.shape, stop):
            target[here] = rounded(of_element(group.values[here], group.gradients[here]), of)


KERNELS = {"BATCH_NORMALIZATION_GRAD": run, "BATCH_NORMALIZATION_TRAINING_GRAD": run}
