"""Cumulative values along the lines of a tile, continuing those of the previous tile, and which are undecided."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from opwire.tensor import Array

from ..numbers.certain import undecided
from ..numbers.error_free import two_sum

_UNIT = 2.0**-53
"""Unit roundoff of float64."""

FACTORS = 512
"""Factors whose mantissas are multiplied before the product is split again."""

_FAR = 4000
"""Clamp for exponents: beyond float64's range, all are equivalent."""


class Carried(Protocol):
    """The cumulative values of a tile.

    Attributes:
        results: rounded to the output type.
        undecided: which of them its error bound leaves undecided.
    """

    results: Array
    undecided: Array


def _last(values: Array, axis: int) -> Array:
    last: Array = np.take(values, [-1], axis)
    return last


def _with_first(values: Array, first: Array | None, axis: int) -> Array:
    return values if first is None else np.concatenate((first, values), axis)


def _without_first(values: Array, first: Array | None, axis: int) -> Array:
    return values if first is None else values[(slice(None),) * axis + (slice(1, None),)]


class WrappedTotals:
    """Integer values, modulo 2**width."""

    def __init__(self, values: Array, axis: int, carried: WrappedTotals | None, *, sums: bool) -> None:
        self._last: Array
        first = None if carried is None else carried._last
        accumulate = np.add.accumulate if sums else np.multiply.accumulate
        whole = accumulate(_with_first(values, first, axis), axis, dtype=values.dtype)
        self.results = _without_first(whole, first, axis)
        self.undecided = np.zeros(0, bool)
        self._last = _last(whole, axis)


class RunningSums:
    """Sums in float64 with accumulated rounding errors; only the errors of that accumulation are missing."""

    def __init__(self, values: Array, axis: int, carried: RunningSums | None) -> None:
        self._last: Array
        self._rest: Array
        self._lost: Array
        first = None if carried is None else carried._last
        x = _with_first(np.array(values, np.float64, order="C"), first, axis)
        totals = np.add.accumulate(x, axis)
        before = (slice(None),) * axis
        rests = np.zeros_like(totals)
        if x.shape[axis] > 1:
            previous, added = totals[(*before, slice(None, -1))], x[(*before, slice(1, None))]
            now = totals[(*before, slice(1, None))]
            part = now - previous
            np.add(previous - (now - part), added - part, out=rests[(*before, slice(1, None))])
        if carried is not None:
            rests[(*before, slice(0, 1))] = carried._rest
        lost = np.zeros_like(_last(totals, axis)) if carried is None else carried._lost
        self._last, self._rest, self._lost = _last(totals, axis), np.zeros_like(lost), lost
        high = _without_first(totals, first, axis)
        self.results = high.astype(values.dtype)
        self.undecided = np.zeros(0, bool)
        if np.any(rests) or np.any(lost):
            self._correct(high, rests, lost, first, axis, values.dtype)

    def _correct(
        self, high: Array, rests: Array, lost: Array, first: Array | None, axis: int, dtype: np.dtype[Any]
    ) -> None:
        """Adds the rounding errors; undecided are sums closer to a midpoint of floats than the error bound."""
        finite = np.isfinite(rests)
        rests = np.where(finite, rests, 0.0)
        low = np.add.accumulate(rests, axis)
        count = rests.shape[axis]
        bound = np.add.accumulate(np.abs(rests), axis) * (2 * count * _UNIT) + lost
        self._rest, self._lost = _last(low, axis), _last(bound, axis)
        low, bound = (_without_first(each, first, axis) for each in (low, bound))
        total, rest = two_sum(high, low)
        # Unchanged where nothing is added, to preserve -0.
        total = np.where(np.isfinite(total) & (low != 0), total, high)
        rest = np.where(np.isfinite(rest), rest, 0.0)
        lower, upper = (_to_odd(total, rest + way * bound).astype(dtype) for way in (-1, 1))
        self.results = upper
        self.undecided = (lower != upper) & (lower == lower)


def _to_odd(high: Array, low: Array) -> Array:
    """Rounds ``high + low`` to odd, so that rounding again is correct: the last bit is set if anything is cut off."""
    total, rest = two_sum(high, low)
    total = np.where(np.isfinite(total) & (low != 0), total, high)
    rest = np.where(np.isfinite(rest), rest, 0.0)
    bits = total.view(np.int64)
    towards = np.where((rest > 0) == (total > 0), 1, -1)
    odd: Array = (bits + np.where((rest != 0) & (bits & 1 == 0), towards, 0)).view(np.float64)
    return odd


class RunningProducts:
    """Products in float64 as mantissas and exponents, which cannot overflow; the error grows with the factors."""

    def __init__(self, values: Array, axis: int, carried: RunningProducts | None) -> None:
        self._last: Array
        self._exponent: Array
        self._count: int
        first = None if carried is None else carried._last
        mantissas, exponents = np.frexp(np.array(values, np.float64, order="C"))
        whole = np.multiply.accumulate(_with_first(mantissas, first, axis), axis)
        scale = np.add.accumulate(exponents, axis, dtype=np.int64)
        if carried is not None:
            scale += carried._exponent
        self._count = values.shape[axis] + (1 if carried is None else carried._count)
        products = np.ascontiguousarray(_without_first(whole, first, axis))
        found = np.ldexp(products, np.clip(scale, -_FAR, _FAR).astype(np.int32))
        self.results = found.astype(values.dtype)
        self.undecided = np.zeros(found.shape, bool)
        self.undecided.reshape(-1)[undecided(found, self._count * _UNIT, values.dtype)] = True
        self._last, moved = np.frexp(_last(whole, axis))
        self._exponent = _last(scale, axis) + moved
