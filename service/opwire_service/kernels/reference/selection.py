"""TOP_K, ONE_HOT and NONZERO_COORDINATES."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array

from ...execution import Arrays, Stop, Stopped
from ..layout import coordinates
from .indexing import found
from .moves import bits, paced

CHUNK = 4096
"""Elements sorted at once."""


def run_top(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    axis = plan.attributes.Axis
    direction = getattr(plan.attributes, "AxisDirection", AxisDirection.DECREASING)
    tensors = (inputs["InputTensor"], outputs["OutputValueTensor"], outputs["OutputIndexTensor"])
    source, values, indices = (np.moveaxis(tensor, axis, -1) for tensor in tensors)
    for coordinate in coordinates(source.shape[:-1]):
        places = (*coordinate, slice(None))
        best = _Best(values[places], indices[places], direction)
        for start in range(0, source.shape[-1], CHUNK):
            if stop():
                raise Stopped
            best.add(source[(*coordinate, slice(start, start + CHUNK))], start, stop)


class _Best:
    """The best elements of a sequence so far, in order, stored directly in the outputs.

    Args:
        values: receives the elements; its size is k.
        indices: receives their positions in the sequence.
        direction: whether the greatest or the least elements are the best.
    """

    def __init__(self, values: Array, indices: Array, direction: AxisDirection) -> None:
        self._values, self._indices = values, indices
        self._is_greatest = direction == AxisDirection.DECREASING
        self._count = 0

    def add(self, chunk: Array, start: int, stop: Stop) -> None:
        """Merges the elements that follow, the first of them at position ``start``."""
        order = self._ordered(chunk)
        kept, new = self._survivors(chunk, order)
        self._count = kept + new
        self._merge(chunk, order[:new], kept, start, stop)

    def _ordered(self, chunk: Array) -> list[int]:
        """Returns the positions in a chunk, best element first."""
        turned = -chunk if chunk.dtype.kind == "f" else ~chunk
        keys = turned if self._is_greatest else chunk
        order: list[int] = np.argsort(keys, kind="stable").tolist()  # NaN last; the first of equals first
        return order

    def _is_better(self, one: Any, other: Any) -> bool:
        """Returns whether one element ranks before another, ignoring positions."""
        if one != one or other != other:
            return bool(one == one and other != other)
        return bool(one > other if self._is_greatest else one < other)

    def _survivors(self, chunk: Array, order: list[int]) -> tuple[int, int]:
        """Returns how many of the best so far remain, and how many new elements join them."""
        kept, new = self._count, min(len(order), self._values.size)
        while kept + new > self._values.size:
            # Of equal elements the earlier one stays, and that is never the new one.
            if self._is_better(chunk[order[new - 1]], self._values[kept - 1]):
                kept -= 1
            else:
                new -= 1
        return kept, new

    def _merge(self, chunk: Array, order: list[int], kept: int, start: int, stop: Stop) -> None:
        """Writes both to their final places, last first, so that nothing is overwritten before it has moved."""
        new = len(order)
        values = bits(self._values)
        elements = bits(chunk)
        while new:
            if stop():
                raise Stopped
            if kept and self._is_better(chunk[order[new - 1]], self._values[kept - 1]):
                kept -= 1
                values[kept + new], self._indices[kept + new] = values[kept], self._indices[kept]
            else:
                new -= 1
                values[kept + new], self._indices[kept + new] = elements[order[new]], start + order[new]


def run_one_hot(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    axis, indices = plan.attributes.Axis, inputs["IndicesTensor"]
    values, target = bits(inputs["ValuesTensor"]), bits(outputs["OutputTensor"])
    off, on = values.flat[0], values.flat[1]
    for coordinate in paced(target.shape, stop):
        index = int(indices[(*coordinate[:axis], 0, *coordinate[axis + 1 :])])
        target[coordinate] = on if found((index,), (target.shape[axis],)) == coordinate[axis : axis + 1] else off


def run_nonzero(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, rows = inputs["InputTensor"], outputs["OutputCoordinatesTensor"]
    rows = rows[(0,) * (rows.ndim - 2)]
    length, count = rows.shape[1], 0
    for coordinate in paced(source.shape, stop):
        if source[coordinate] != 0:
            rows[count] = coordinate[source.ndim - length :]
            count += 1
    for unused in paced((rows.shape[0] - count,), stop):
        rows[count + unused[0]] = 0
    outputs["OutputCountTensor"][...] = count


KERNELS = {"TOP_K": run_top, "TOP_K1": run_top, "ONE_HOT": run_one_hot, "NONZERO_COORDINATES": run_nonzero}
