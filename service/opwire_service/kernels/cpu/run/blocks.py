"""Cuts whole arrays into contiguous blocks, for NumPy functions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np


class Blocks(NamedTuple):
    """Partition of an array into slices of one dimension, each spanning all dimensions inside it.

    Attributes:
        counts: number of blocks along the cut dimension, last, and sizes of the dimensions outside it.
        grain: size of a block along the cut dimension.
    """

    counts: tuple[int, ...]
    grain: int

    @classmethod
    def of(cls, shape: Sequence[int], most: int, *, kept: int = 0) -> Blocks:
        """Returns blocks of about ``most`` elements, or of the innermost ``kept`` dimensions if those hold more."""
        last = len(shape) - kept - 1
        cut = next((i for i in range(last) if prod(shape[i + 1 :]) <= most), last)
        grain = min(shape[cut], max(1, most // prod(shape[cut + 1 :])))
        return cls((*shape[:cut], -(-shape[cut] // grain)), grain)

    @property
    def number(self) -> int:
        return prod(self.counts)

    def part(self, number: int) -> tuple[Any, ...]:
        """Returns the index expression of a block."""
        *place, slices = map(int, np.unravel_index(number, self.counts))
        return (*place, slice(slices * self.grain, (slices + 1) * self.grain))
