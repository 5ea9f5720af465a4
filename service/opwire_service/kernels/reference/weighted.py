"""Exact weighted sums, rounded once; infinities and NaN follow IEEE 754."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

from opwire.tensor import Array

from ...execution import Stop, Stopped
from .. import exact

Taps = Iterable[tuple[int, Fraction]]
"""What an output reads along one dimension: indices with weights other than 0."""

_POLL_EVERY = 256
"""Terms between polls of ``stop``."""


class Total:
    """The sum of the terms added so far.

    Attributes:
        value: sum of the finite terms.
        special: sum of the infinities and NaNs alone; 0 if there are none.
    """

    def __init__(self, stop: Stop) -> None:
        self.value = Fraction(0)
        self.special = 0.0
        self._stop = stop
        self._terms = 0

    def add(self, element: Any, weight: Fraction) -> None:
        """Adds an element times a weight other than 0.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        self._terms += 1
        if self._terms % _POLL_EVERY == 0 and self._stop():
            raise Stopped
        number = float(element)
        if isfinite(number):
            self.value += Fraction(number) * weight
        else:
            self.special += number if weight > 0 else -number

    @property
    def number(self) -> Fraction | float:
        """The sum; a float if it is infinite or NaN."""
        return self.special or self.value

    def rounded(self, to: exact.FloatFormat) -> exact.Float:
        return rounded(self.number, to)


def rounded(number: Fraction | float, to: exact.FloatFormat) -> exact.Float:
    """Rounds a number to the nearest float, ties to even."""
    if isinstance(number, float):
        return to.of(number)
    return exact.round_ratio(number.numerator, number.denominator, to)


def weighted_sum(source: Array, taps: Sequence[Callable[[], Taps]], stop: Stop) -> Fraction | float:
    """Returns the sum of the elements addressed by the taps of each dimension, times the products of their weights."""
    total = Total(stop)
    _add(total, source, taps, Fraction(1))
    return total.number


def _add(total: Total, source: Array, taps: Sequence[Callable[[], Taps]], weight: Fraction) -> None:
    if not taps:
        total.add(source[()], weight)
        return
    for index, share in taps[0]():
        _add(total, source[index, ...], taps[1:], weight * share)
