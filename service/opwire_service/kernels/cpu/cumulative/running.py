"""Cumulative values along the lines of a tile, continuing those of the previous tile, and which are undecided."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from opwire.tensor import Array

from ..numbers.undecided import undecided

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
