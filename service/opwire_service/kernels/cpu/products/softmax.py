"""A softmax that follows a product: of blocks along some axes, from sums in float64."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from opwire.tensor import Array

from ....execution import Stop, Stopped
from ..run.pool import Pool

SOFTMAX = ("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1")

PIECE = 1 << 16
"""Elements that are visited at a time."""


class Softmax:
    """Where the sums of one run go, and what becomes of them.

    Args:
        sizes: of the output.
        axes: of it, along which a block lies.
    """

    def __init__(self, sizes: tuple[int, ...], axes: tuple[int, ...]) -> None:
        self._order = [i for i in range(len(sizes)) if i not in axes] + sorted(axes)
        self._sizes = [sizes[i] for i in self._order]
        self._block = prod(sizes[i] for i in axes)
        self._elements = prod(sizes)

    def scratch_bytes(self, threads: int) -> int:
        return 8 * (self._elements + threads * 2 * max(PIECE, self._elements // self._block))

    def sums(self) -> Array:
        """A new array for the sums, of the shape of the output, with each block in one run of memory."""
        return np.empty(self._sizes).transpose(np.argsort(self._order))

    def finish(self, sums: Array, target: Array, pool: Pool, stop: Stop) -> None:
        """Turns the sums into the softmax, and rounds that into the output."""
        inside = sums.transpose(self._order)
        blocks = inside.reshape(-1, self._block)
        grain = max(1, PIECE // self._block)
        pool.run(partial(_normalise, blocks, stop), len(blocks), grain, stop)
        ordered = target.transpose(self._order)
        for i in range(len(ordered)):
            if stop():
                raise Stopped
            ordered[i] = inside[i]


def _normalise(blocks: Array, stop: Stop, begin: int, end: int) -> None:
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
