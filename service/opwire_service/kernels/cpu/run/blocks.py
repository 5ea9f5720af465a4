"""Whole arrays cut into blocks of neighbours, for functions of NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np


class Blocks(NamedTuple):
    """Slices of one dimension that hold all of the dimensions inside it.

    Attributes:
        counts: how many there are along each dimension that is cut or lies outside.
        grain: of the dimension that is cut, how much is in a block.
    """

    counts: tuple[int, ...]
    grain: int

    @classmethod
    def of(cls, shape: Sequence[int], most: int, *, kept: int = 0) -> Blocks:
        """Blocks of about ``most`` elements, or as many as the innermost ``kept`` dimensions have if those are more."""
        last = len(shape) - kept - 1
        cut = next((i for i in range(last) if prod(shape[i + 1 :]) <= most), last)
        grain = min(shape[cut], max(1, most // prod(shape[cut + 1 :])))
        return cls((*shape[:cut], -(-shape[cut] // grain)), grain)

    @property
    def number(self) -> int:
        return prod(self.counts)

    def part(self, number: int) -> tuple[Any, ...]:
        """The index of a block."""
        *place, slices = map(int, np.unravel_index(number, self.counts))
        return (*place, slice(slices * self.grain, (slices + 1) * self.grain))
