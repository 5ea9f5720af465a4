"""LOCAL_RESPONSE_NORMALIZATION and its gradient: sums of squares over regions, in float64."""

from __future__ import annotations

from math import isfinite, isinf, isnan, prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ...exact import FORMATS
from ...reference.local_response import Gradient, response_of
from ..run.blocks import Blocks
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from ..run.reference import ReferenceJob
from ..run.tiles import TILE
from ..run.undecided import settle

_STEEP = 2.0
"""Larger exponents may leave the range of FLOAT64."""

_MOST_GRADIENT_BETA = 64.0
"""Larger exponents amplify errors so much that gradients are left to the reference."""

_BOUND = 1e-12
"""Relative error bound of the sums of squares of regions."""

_ENOUGH = 2.0**-27
"""Relative error that is small enough for a result."""

_BEYOND = 800.0
"""Powers with larger logarithms become zero or infinity in FLOAT32, times any element."""

_ASKED = 16
"""Steps of a region between two polls of ``stop``, each some milliseconds at most."""

Parts = tuple[slice, ...]


class ResponseJob(Job):
    """Computes pieces of the output, each with the adjacent elements that it needs.

    Attributes:
        is_plain: whether it is accurate enough; terms may cancel if Alpha or Bias is negative.
    """

    _scratch = ScratchBytes(thread=72 * 8 * TILE, shared=4 << 20)

    def __init__(self, plan: Plan) -> None:
        self._plan, a = plan, plan.attributes
        self._is_gradient = plan.operator.name.endswith("GRAD")
        sizes = plan.inputs["InputTensor"].sizes
        self._sizes = sizes
        self._along = (1,) if a.CrossChannel else (2, 3)
        self._before, self._after = (a.LocalSize - 1) // 2, a.LocalSize // 2
        self._is_steep = not self._is_gradient and not abs(a.Beta) <= _STEEP
        is_usual = isfinite(a.Alpha) and isfinite(a.Bias) and a.Alpha >= 0 <= a.Bias and not isnan(a.Beta)
        self.is_plain = is_usual and not (self._is_gradient and not abs(a.Beta) <= _MOST_GRADIENT_BETA)
        self._share, self._bias = a.Alpha / a.LocalSize, a.Bias + 0.0  # removes the sign of zero
        # Regions extend along whole dimensions of a piece; the other dimensions are cut.
        cut = (0, 2, 3) if a.CrossChannel else (0, 1)
        whole = prod(sizes[i] for i in range(4) if i not in cut)
        self.is_plain = self.is_plain and whole <= 8 * TILE
        self._blocks = Blocks.of([sizes[i] for i in cut], max(1, TILE // whole))
        self._cut = cut
        self._of = FORMATS[plan.inputs["InputTensor"].data_type]
        # Results smaller than this share of their terms are too inaccurate.
        self._limit = 2.0 ** (self._of.fraction_bits + 2 - 44)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        target = outputs["OutputGradientTensor" if self._is_gradient else "OutputTensor"]

        def piece(number: int) -> None:
            self._part(self._at(number), inputs, target, stop)

        pool.each(piece, self._blocks.number, stop)

    def _part(self, at: Parts, inputs: Arrays, target: Array, stop: Stop) -> None:
        x = np.array(inputs["InputTensor"][at], np.float64, order="C")
        if self._is_steep:
            self._steep_part(at, x, inputs["InputTensor"], target, stop)
            return
        if not self._is_gradient:
            target[at] = x / _raised(self._response(x, stop), self._plan.attributes.Beta)
            return
        into = target[at]
        undecided = self._gradient(x, inputs["InputGradientTensor"][at].astype(np.float64), into, stop)
        if undecided.any():
            exact = Gradient(self._plan, inputs, stop)
            settle(into, undecided, lambda place: exact.rounded(_whole(place, at), self._of), stop)

    def _steep_part(self, at: Parts, x: Array, source: Array, target: Array, stop: Stop) -> None:
        """Computes powers from logarithms of responses, and settles those that may be too inaccurate."""
        a = self._plan.attributes
        share = self._share * self._summed(np.multiply(x, x), self._before, self._after, stop)
        into = target[at]
        found, undecided = self._over_infinite_power(x, share) if isinf(a.Beta) else self._over_power(x, share)
        response = share + self._bias
        is_real = np.isfinite(response) & (response > 0)
        into[...] = np.where(is_real, found, x / response**a.Beta)
        exact = response_of(self._plan, source, self._of, stop)
        settle(into, is_real & undecided, lambda place: exact(_whole(place, at)), stop)

    def _above_one(self, share: Array) -> tuple[Array, Array]:
        """Returns responses minus 1, and their error bounds."""
        rest = 1.0 - self._bias
        return share - rest, _BOUND * np.maximum(share, abs(rest))

    def _over_power(self, x: Array, share: Array) -> tuple[Array, Array]:
        """Returns elements divided by a power of their responses, and which are undecided."""
        a = self._plan.attributes
        above_one, error = self._above_one(share)
        is_near = above_one > -0.5
        logarithm = np.where(is_near, np.log1p(above_one), np.log(share + self._bias))
        exponent = -a.Beta * logarithm
        off = abs(a.Beta) * np.where(is_near, 2 * error / (1 + above_one), _BOUND) + np.abs(exponent) * 2.0**-50
        undecided = ~((off < _ENOUGH) | (np.abs(exponent) - off > _BEYOND))
        return np.where(x == 0, x, x * np.exp(exponent)), undecided

    def _over_infinite_power(self, x: Array, share: Array) -> tuple[Array, Array]:
        """Like ``_over_power``, for infinite Beta: a response that rounds to 1 in float64 need not be 1."""
        above_one, error = self._above_one(share)
        is_one = np.abs(above_one) < 2.0**-54 * (1 - _BOUND)
        settled = (is_one | (np.abs(above_one) > 2.0**-50)) & (np.abs(above_one) > error) | (error == 0)
        vanishes = (above_one > 0) == (self._plan.attributes.Beta > 0)
        found = np.where(vanishes, np.copysign(0.0, x), np.where(x == 0, np.nan, np.copysign(np.inf, x)))
        return np.where(is_one, np.nan, found), ~settled

    def _at(self, number: int) -> Parts:
        found = [slice(None)] * 4
        *outer, last = self._blocks.part(number)
        for i, place in zip(self._cut, outer, strict=False):
            found[i] = slice(place, place + 1)
        found[self._cut[len(outer)]] = last
        return tuple(found)

    def _response(self, x: Array, stop: Stop) -> Array:
        total = self._summed(np.multiply(x, x), self._before, self._after, stop)
        total *= self._share
        total += self._bias
        return total

    def _summed(self, terms: Array, before: int, after: int, stop: Stop) -> Array:
        """Returns the sum of each region's terms, added term by term; no running sums, because nothing may cancel."""
        for axis in self._along:
            size = terms.shape[axis]
            total = terms.copy()
            for step in range(1, min(max(before, after), size - 1) + 1):
                if step % _ASKED == 0 and stop():
                    raise Stopped
                low, high = ((slice(None),) * axis + (part,) for part in (slice(None, -step), slice(step, None)))
                if step <= after:
                    total[low] += terms[high]
                if step <= before:
                    total[high] += terms[low]
            terms = total
        return terms

    def _gradient(self, x: Array, gradient: Array, target: Array, stop: Stop) -> Array:
        """Writes gradients; returns which are too inaccurate, because of cancellation or powers out of range."""
        a = self._plan.attributes
        response = self._response(x, stop)
        power, lower = _raised(response, -a.Beta), _raised(response, -a.Beta - 1)
        own, passed = gradient * power, gradient * x * lower
        factor = 2 * self._share * a.Beta * x
        sizes = np.abs(own) + np.abs(factor) * self._summed(np.abs(passed), self._before, self._after, stop)
        own -= factor * (self._summed(passed, self._before, self._after, stop) + 0.0)  # no sum is -0
        target[...] = own
        near: Array = np.abs(own) < sizes * self._limit
        lost = (
            np.isfinite(response)
            & (response > 0)
            & ~(np.isfinite(power) & np.isfinite(lower) & (power > 0) & (lower > 0))
        )
        if lost.any():
            near |= self._summed(lost.astype(np.float64), self._before, self._after, stop) > 0
        return near


def _whole(place: tuple[int, ...], at: Parts) -> tuple[int, ...]:
    """Returns the place in the tensor of an element of a part."""
    return tuple((part.start or 0) + k for part, k in zip(at, place, strict=True))


def _raised(response: Array, exponent: float) -> Array:
    """Returns powers of responses that are not negative; NaN where the exponent of 0, an infinity or NaN is 0."""
    power: Array = response**exponent
    if exponent == 0:
        power[~np.isfinite(response) | (response == 0)] = np.nan
    return power


def _prepare(plan: Plan) -> Job:
    job = ResponseJob(plan)
    return job if job.is_plain else ReferenceJob(plan)


PREPARE = dict.fromkeys(("LOCAL_RESPONSE_NORMALIZATION", "LOCAL_RESPONSE_NORMALIZATION_GRAD"), _prepare)
