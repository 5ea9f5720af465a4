"""A softmax after a product: over blocks along some axes, computed from float64 sums."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from opwire.tensor import Array

from ....execution import Stop, Stopped
from ..run.pool import Pool

SOFTMAX = ("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1")

PIECE = 1 << 16
"""Elements visited at once."""


class Softmax:
    """Holds the sums of a run and turns them into the softmax.

    Args:
        sizes: sizes of the output.
        axes: axes that make up a block.
    """

    def __init__(self, sizes: tuple[int, ...], axes: tuple[int, ...]) -> None:
        self._order = [i for i in range(len(sizes)) if i not in axes] + sorted(axes)
        self._sizes = [sizes[i] for i in self._order]
        self._block = prod(sizes[i] for i in axes)
        self._elements = prod(sizes)

    def scratch_bytes(self, threads: int) -> int:
        return 8 * (self._elements + threads * 2 * max(PIECE, self._elements // self._block))

    def sums(self) -> Array:
        """Returns a new array for the sums in the output's shape, with each block contiguous."""
        return np.empty(self._sizes).transpose(np.argsort(self._order))

    def finish(self, sums: Array, target: Array, pool: Pool, stop: Stop) -> None:
        """Turns the sums into the softmax, and rounds it into the output."""
        inside = sums.transpose(self._order)
        blocks = inside.reshape(-1, self._block)
        grain = max(1, PIECE // self._block)
        pool.run(partial(_normalize, blocks, stop), len(blocks), grain, stop)
        ordered = target.transpose(self._order)
        for i in range(len(ordered)):
            if stop():
                raise Stopped
            ordered[i] = inside[i]


def _normalize(blocks: Array, stop: Stop, begin: int, end: int) -> None:
    with np.errstate(all="ignore"):
        part = blocks[begin:end]
        greatest = part.max(1, keepdims=True)
        total = np.zeros((len(part), 1))
        for columns in _pieces(part.shape[1], stop):
            values = part[:, columns]
            np.exp(np.subtract(values, greatest, out=values), out=values)
            total += values.sum(1, keepdims=True)
        for columns in _pieces(part.shape[1], stop):
            part[:, columns] /= total


def _pieces(count: int, stop: Stop) -> list[slice]:
    if stop():
        raise Stopped
    return [slice(first, first + PIECE) for first in range(0, count, PIECE)]
