"""Minimum and maximum selection: NaN is skipped unless all elements are NaN, and -0 equals +0."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opwire.tensor import Array


@dataclass(frozen=True, slots=True)
class Extreme:
    """A rule for selecting an element.

    Attributes:
        position: returns the position of the first winner among numbers.
        beats: returns whether an element wins over an earlier one.
        last: whether the last of equal elements wins, rather than the first.
    """

    position: Callable[[Array], Any]
    beats: Callable[[Any, Any], Any]
    last: bool = False

    def winner(self, chunks: Iterable[Array]) -> tuple[int, Any]:
        """Returns the position and value of the winner; if all are NaN, the first or the last."""
        best: tuple[int, Any] | None = None
        not_a_number: tuple[int, Any] | None = None
        start = 0
        for values in chunks:
            numbers = np.flatnonzero(values == values)  # excludes NaN
            if numbers.size:
                found = self._winner(values, numbers)
                if best is None or self.beats(values[found], best[1]):
                    best = start + found, values[found]
            elif not_a_number is None or self.last:
                found = values.size - 1 if self.last else 0
                not_a_number = start + found, values[found]
            start += values.size
        winner = best or not_a_number
        assert winner is not None  # a tensor has at least one element
        return winner

    def _winner(self, values: Array, numbers: Array) -> int:
        ordered = numbers[::-1] if self.last else numbers
        return int(ordered[self.position(values[ordered])])


FIRST_LEAST = Extreme(np.argmin, operator.lt)
FIRST_GREATEST = Extreme(np.argmax, operator.gt)
LAST_LEAST = Extreme(np.argmin, operator.le, last=True)
LAST_GREATEST = Extreme(np.argmax, operator.ge, last=True)
