"""The gradients of batch normalizations: exact sums, and the formulas of the pages over the reals, rounded once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from opwire.check import Plan
from opwire.tensor import Array

from ...execution import Arrays, Stop
from ..exact import FORMATS, FloatFormat
from .elements import Elements
from .moments import moments, sum_of_products
from .places import group_at, places
from .reals import Real, add, divide, multiply, real, root, rounded, subtract


class _Group(NamedTuple):
    """The elements that share a scale, and the sums that their gradients need.

    Attributes:
        values, gradients: of the input, of what it became.
        number: of them.
        total, gradient_total: their sums.
        products: the sum of their products.
    """

    values: Array
    gradients: Array
    number: int
    total: Real
    gradient_total: Real
    products: Real

    def products_about(self, mean: Real) -> Real:
        """The sum of gradients times deviations from a mean."""
        return subtract(self.products, multiply(mean, self.gradient_total))


def _summed(values: Array, gradients: Array, of: FloatFormat, stop: Stop) -> _Group:
    total = moments(Elements(values, stop), of).total
    gradient_total = moments(Elements(gradients, stop), of).total
    pairs = zip(Elements(values, stop), Elements(gradients, stop), strict=True)
    return _Group(values, gradients, values.size, total, gradient_total, sum_of_products(pairs, of))


def _by_given_statistics(group: _Group, scale: Real, variance: Real, stop: Stop) -> Iterator[Real]:
    factor = divide(scale, root(variance))
    for at in places(group.gradients.shape, stop):
        yield multiply(real(group.gradients[at]), factor)


def _by_statistics_of_the_batch(group: _Group, scale: Real, variance: Real, stop: Stop) -> Iterator[Real]:
    factor = divide(scale, root(variance))
    count = real(group.number)
    mean, gradient_mean = divide(group.total, count), divide(group.gradient_total, count)
    covariance = divide(group.products_about(mean), count)
    for at in places(group.gradients.shape, stop):
        deviation = subtract(real(group.values[at]), mean)
        along = divide(multiply(deviation, covariance), variance)
        yield multiply(factor, subtract(subtract(real(group.gradients[at]), gradient_mean), along))


def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    of, epsilon = FORMATS[plan.inputs["InputTensor"].data_type], real(plan.attributes.Epsilon)
    means, variances, scales = (inputs[f"{name}Tensor"] for name in ("Mean", "Variance", "Scale"))
    gradients_of = _by_statistics_of_the_batch if "TRAINING" in plan.operator.name else _by_given_statistics
    for place in places(means.shape, stop):
        at = group_at(place, means.shape)
        group = _summed(inputs["InputTensor"][at], inputs["InputGradientTensor"][at], of, stop)
        variance = add(real(variances[place]), epsilon)
        scaled = divide(group.products_about(real(means[place])), root(variance))
        outputs["OutputScaleGradientTensor"][place] = rounded(scaled, of)
        outputs["OutputBiasGradientTensor"][place] = rounded(group.gradient_total, of)
        target = outputs["OutputGradientTensor"][at]
        found = gradients_of(group, real(scales[place]), variance, stop)
        for here, result in zip(places(target.shape, stop), found, strict=True):
            target[here] = rounded(result, of)


KERNELS = {"BATCH_NORMALIZATION_GRAD": run, "BATCH_NORMALIZATION_TRAINING_GRAD": run}
