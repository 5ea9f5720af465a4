"""LOCAL_RESPONSE_NORMALIZATION and its gradient: elements over a power of their neighbors' sum of squares.

Like DirectML's, the gradient of an element sums over its own region, not over the elements whose regions hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from opwire.check import Plan
from opwire.tensor import Array

from ...execution import Arrays, Stop
from ..decimals import decimal_of
from ..exact import FORMATS, Float, FloatFormat
from .elements import Elements
from .moments import moments
from .places import places
from .reals import (
    NAN,
    NEAR,
    NEAR_UNIT,
    ZERO,
    Real,
    add,
    decided,
    decimal,
    divide,
    multiply,
    near_power,
    power,
    real,
    rounded,
    subtract,
)

KEPT = 4096
"""Cache size of the gradient's responses, which neighboring elements share."""

Place = tuple[int, ...]


class _Response:
    """The divisor of an element, before it is raised to a power.

    Args:
        plan: the plan, which defines the regions.
        source: the input.
        stop: polled within large regions.
    """

    def __init__(self, plan: Plan, source: Array, stop: Stop) -> None:
        self._attributes = plan.attributes
        self._source = source
        self._of = FORMATS[plan.inputs["InputTensor"].data_type]
        self._stop = stop
        self.share = divide(real(plan.attributes.Alpha), Fraction(plan.attributes.LocalSize))

    def region(self, place: Place) -> tuple[slice, ...]:
        """Returns the region of a coordinate, clipped to the tensor."""
        before, after = (self._attributes.LocalSize - 1) // 2, self._attributes.LocalSize // 2
        along = (1,) if self._attributes.CrossChannel else (2, 3)
        return tuple(
            slice(max(at - before, 0), min(at + after + 1, size)) if i in along else slice(at, at + 1)
            for i, (at, size) in enumerate(zip(place, self._source.shape, strict=True))
        )

    def __call__(self, place: Place) -> Real:
        squares = moments(Elements(self._source[self.region(place)], self._stop), self._of).squares
        return add(real(self._attributes.Bias), multiply(self.share, squares))


def powered(response: Real, exponent: Real) -> Real:
    """Returns a power as DirectML computes it from logarithms: NaN where their product is 0 times an infinity.

    Of negative numbers, only integer powers are defined.
    """
    base, to = decimal(response), decimal(exponent)
    if base.is_nan() or to.is_nan():
        return NAN
    if base < 0 and (to.is_infinite() or to != to.to_integral_value()):
        return NAN
    if (to == 0 and (base == 0 or base.is_infinite())) or (to.is_infinite() and float(base) == 1):
        return NAN
    return power(response, exponent)


def response_of(plan: Plan, source: Array, to: FloatFormat, stop: Stop) -> Callable[[Place], Float]:
    """Returns a function from a coordinate to its normalized element."""
    response, beta = _Response(plan, source, stop), real(plan.attributes.Beta)

    def normalized(place: Place) -> Float:
        value, base = real(source[place]), response(place)
        raised = _near_power(base, -beta)
        if raised is not None and isinstance(value, Fraction):
            found = decided(*_times(decimal_of(value, NEAR), *raised), to)
            if found is not None:
                return found
        return rounded(divide(value, powered(base, beta)), to)

    return normalized


def _near_power(base: Real, exponent: Real) -> tuple[Decimal, Decimal] | None:
    """Returns ``near_power``, or None unless the power is a real number other than 0."""
    if not (isinstance(base, Fraction) and isinstance(exponent, Fraction)):
        return None
    return near_power(base, exponent) if base > 0 or (base < 0 and exponent.denominator == 1) else None


def _times(factor: Decimal, number: Decimal, error: Decimal) -> tuple[Decimal, Decimal]:
    """Returns a product, and a bound on its error."""
    product, size = NEAR.multiply(factor, number), factor.copy_abs()
    return product, NEAR.add(NEAR.multiply(2 * size, error), NEAR.multiply(2 * product.copy_abs(), NEAR_UNIT))


def normalize(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    normalized = response_of(plan, source, FORMATS[plan.outputs["OutputTensor"].data_type], stop)
    for place in places(source.shape, stop, 4):
        target[place] = normalized(place)


class Gradient:
    """The gradient of each element: g S^-Beta, minus a share of the region's gradients of responses.

    Args:
        plan: the plan, which defines the regions.
        inputs: the inputs of the plan.
        stop: polled within large regions.
    """

    def __init__(self, plan: Plan, inputs: Arrays, stop: Stop) -> None:
        self._source, self._gradients = inputs["InputTensor"], inputs["InputGradientTensor"]
        self._response = _Response(plan, self._source, stop)
        self._beta, self._stop = real(plan.attributes.Beta), stop
        self._factor = multiply(Fraction(2), multiply(self._response.share, self._beta))
        self._passed_on = lru_cache(KEPT)(self._pass_on)
        self._nearly_passed_on = lru_cache(KEPT)(self._nearly_pass_on)

    def rounded(self, place: Place, to: FloatFormat) -> Float:
        """Returns the gradient of an element as a float."""
        near = self._near(place)
        found = None if near is None else decided(*near, to)
        return rounded(self(place), to) if found is None else found

    def _near(self, place: Place) -> tuple[Decimal, Decimal] | None:
        """Returns the gradient to a few dozen digits, and a bound on its error; None if a term is special."""
        base, gradient, value = self._response(place), real(self._gradients[place]), real(self._source[place])
        factor = multiply(self._factor, value)
        raised = _near_power(base, -self._beta)
        if raised is None or not (isinstance(gradient, Fraction) and isinstance(factor, Fraction)):
            return None
        total, error = Decimal(0), Decimal(0)
        for other in _within(self._response.region(place), self._stop):
            passed = self._nearly_passed_on(other)
            if passed is None:
                return None
            total, error = NEAR.add(total, passed[0]), NEAR.add(error, passed[1])
            error = NEAR.add(error, NEAR.multiply(total.copy_abs(), NEAR_UNIT))
        own, error_of_own = _times(decimal_of(gradient, NEAR), *raised)
        along, error_along = _times(decimal_of(factor, NEAR), total, error)
        error = NEAR.add(error_of_own, error_along)
        rest = NEAR.multiply(own.copy_abs() + along.copy_abs(), NEAR_UNIT)
        return NEAR.subtract(own, along), NEAR.add(error, rest)

    def _nearly_pass_on(self, place: Place) -> tuple[Decimal, Decimal] | None:
        base, product = self._response(place), multiply(real(self._gradients[place]), real(self._source[place]))
        raised = _near_power(base, -self._beta - 1)
        return (
            None if raised is None or not isinstance(product, Fraction) else _times(decimal_of(product, NEAR), *raised)
        )

    def _pass_on(self, place: Place) -> Real:
        lower = powered(self._response(place), subtract(multiply(Fraction(-1), self._beta), Fraction(1)))
        return multiply(multiply(real(self._gradients[place]), real(self._source[place])), lower)

    def __call__(self, place: Place) -> Real:
        divided = powered(self._response(place), multiply(Fraction(-1), self._beta))
        own = multiply(real(self._gradients[place]), divided)
        total: Real = ZERO
        for other in _within(self._response.region(place), self._stop):
            total = add(total, self._passed_on(other))
        return subtract(own, multiply(multiply(self._factor, real(self._source[place])), total))


def gradient(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    target, to = outputs["OutputGradientTensor"], FORMATS[plan.outputs["OutputGradientTensor"].data_type]
    of = Gradient(plan, inputs, stop)
    for place in places(target.shape, stop, 1):
        target[place] = of.rounded(place, to)


def _within(region: tuple[slice, ...], stop: Stop) -> Iterator[Place]:
    """Yields the coordinates of a region."""
    for offsets in places([part.stop - part.start for part in region], stop, 4):
        yield tuple(part.start + offset for part, offset in zip(region, offsets, strict=True))


def _turns(plan: Plan) -> int:
    """Counts a logarithm and a power of each element, and what a gradient passes on to each neighbor."""
    elements = plan.inputs["InputTensor"].element_count
    return (8 if "InputGradientTensor" not in plan.inputs else 16) * elements + plan.work // 8


KERNELS = {"LOCAL_RESPONSE_NORMALIZATION": normalize, "LOCAL_RESPONSE_NORMALIZATION_GRAD": gradient}

TURNS = dict.fromkeys(KERNELS.values(), _turns)
