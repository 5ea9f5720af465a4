"""LOCAL_RESPONSE_NORMALIZATION and its gradient: elements over a power of their neighbors' sum of squares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache

from opwire.check import Plan
from opwire.tensor import Array

from ...execution import Arrays, Stop
from ..exact import FORMATS, Float, FloatFormat
from .elements import Elements
from .moments import moments
from .places import places
from .reals import ZERO, Real, add, divide, multiply, power, real, rounded, subtract

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

    def region(self, place: Place, *, holding: bool = False) -> tuple[slice, ...]:
        """Returns the region of a coordinate clipped to the tensor, or the coordinates whose regions contain it."""
        before, after = (self._attributes.LocalSize - 1) // 2, self._attributes.LocalSize // 2
        if holding:
            before, after = after, before
        along = (1,) if self._attributes.CrossChannel else (2, 3)
        return tuple(
            slice(max(at - before, 0), min(at + after + 1, size)) if i in along else slice(at, at + 1)
            for i, (at, size) in enumerate(zip(place, self._source.shape, strict=True))
        )

    def __call__(self, place: Place) -> Real:
        squares = moments(Elements(self._source[self.region(place)], self._stop), self._of).squares
        return add(real(self._attributes.Bias), multiply(self.share, squares))


def response_of(plan: Plan, source: Array, to: FloatFormat, stop: Stop) -> Callable[[Place], Float]:
    """Returns a function from a coordinate to its normalized element."""
    response, beta = _Response(plan, source, stop), real(plan.attributes.Beta)
    return lambda place: rounded(divide(real(source[place]), power(response(place), beta)), to)


def normalize(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    normalized = response_of(plan, source, FORMATS[plan.outputs["OutputTensor"].data_type], stop)
    for place in places(source.shape, stop, 4):
        target[place] = normalized(place)


class Gradient:
    """The gradient of each element: g S^-Beta, minus its effect on every response whose region contains it.

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

    def _pass_on(self, place: Place) -> Real:
        raised = power(self._response(place), subtract(multiply(Fraction(-1), self._beta), Fraction(1)))
        return multiply(multiply(real(self._gradients[place]), real(self._source[place])), raised)

    def __call__(self, place: Place) -> Real:
        divided = power(self._response(place), multiply(Fraction(-1), self._beta))
        own = multiply(real(self._gradients[place]), divided)
        total: Real = ZERO
        for other in _within(self._response.region(place, holding=True), self._stop):
            total = add(total, self._passed_on(other))
        return subtract(own, multiply(multiply(self._factor, real(self._source[place])), total))


def gradient(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    target, to = outputs["OutputGradientTensor"], FORMATS[plan.outputs["OutputGradientTensor"].data_type]
    of = Gradient(plan, inputs, stop)
    for place in places(target.shape, stop, 1):
        target[place] = rounded(of(place), to)


def _within(region: tuple[slice, ...], stop: Stop) -> Iterator[Place]:
    """Yields the coordinates of a region."""
    for offsets in places([part.stop - part.start for part in region], stop, 4):
        yield tuple(part.start + offset for part, offset in zip(region, offsets, strict=True))


KERNELS = {"LOCAL_RESPONSE_NORMALIZATION": normalize, "LOCAL_RESPONSE_NORMALIZATION_GRAD": gradient}
