"""Tables of what outputs read along one dimension: first index, number of taps, and weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ...sampling import ResampledAxis, is_linear, nearest_indices, neighbors, rounding_of

TAPS = 1 << 18
"""Maximum number of weights in a table."""


@dataclass(frozen=True, slots=True)
class WeightTable:
    """The elements that some outputs read, and their weights.

    Attributes:
        first: first index for each output, int64.
        taps: number of consecutive elements from there on, int64.
        starts: where the weights of each output start, int64.
        weights: weights of all outputs, float64.
        exact: whether the weights are exactly those of the formula, not rounded.
    """

    first: Array
    taps: Array
    starts: Array
    weights: Array
    exact: bool

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        return self.first, self.taps, self.starts, self.weights

    @property
    def most(self) -> int:
        """Maximum number of elements that an output reads."""
        return int(self.taps.max())

    @property
    def total(self) -> float:
        """Maximum sum of an output's weights."""
        sums = np.add.reduceat(self.weights, self.starts)
        return float(np.where(self.taps > 0, sums, 0.0).max())


def _ragged(first: Array, taps: Array) -> tuple[Array, Array, Array]:
    """Returns where the weights of each output start, and, for each weight, its output and its index."""
    starts = np.cumsum(taps) - taps
    outputs = np.repeat(np.arange(taps.size), taps)
    return starts, outputs, np.arange(outputs.size) - starts[outputs] + first[outputs]


def _table(first: Array, taps: Array, starts: Array, weights: Array, exact: bool) -> WeightTable:
    """Returns a table with padding after the weights, because kernels always load two."""
    return WeightTable(first, taps, starts, np.append(weights, (0.0, 0.0)), exact)


def table_of(plan: Plan, axis: ResampledAxis, begin: int, end: int) -> WeightTable | None:
    """Returns the table of outputs ``begin`` to ``end``, or None if it would have too many weights."""
    coordinates = axis.coordinates(np.arange(begin, end))
    if getattr(plan.attributes, "Antialiased", False) and axis.scale < 0.5:
        return _triangles(coordinates, axis)
    first, part = neighbors(coordinates, axis.size)
    taps = 1 + (part > 0)
    starts, outputs, indices = _ragged(first, taps)
    share = part[outputs]
    below = 1.0 - share
    weights = np.where(indices == first[outputs], below, share)
    return _table(first, taps, starts, weights, bool((1.0 - below == share).all()))


def _triangles(coordinates: Array, axis: ResampledAxis) -> WeightTable | None:
    half, last = 1.0 / axis.scale, axis.size - 1.0
    inside = np.clip(np.nan_to_num(coordinates, nan=-half - 2, posinf=np.inf), -half - 2, last + half + 2)
    begin, end = np.floor(inside - half) + 1, np.ceil(inside + half) - 1
    low, high = np.clip(begin, 0, last), np.clip(end, 0, last)
    taps = (high - low + 1).astype(np.int64)
    if int(taps.sum()) > TAPS:
        return None
    first = low.astype(np.int64)
    starts, outputs, indices = _ragged(first, taps)
    # Weights outside the input go to its edges.
    least = np.where(indices == 0, np.minimum(begin[outputs], 0), indices)
    most = np.where(indices == axis.size - 1, np.maximum(end[outputs], last), indices)
    least, most = np.maximum(least, begin[outputs]), np.minimum(most, end[outputs])
    heights = _heights(inside[outputs], axis.scale, least, most)
    return _table(first, taps, starts, heights / np.add.reduceat(heights, starts)[outputs], False)


def _heights(center: Array, scale: float, begin: Array, end: Array) -> Array:
    """Returns sums of the heights of triangles at integers from ``begin`` to ``end``, inclusive."""
    middle = np.clip(np.floor(center), begin - 1, end)
    left = (middle - begin + 1) * (1 - scale * (center - (begin + middle) / 2))
    right = (end - middle) * (1 - scale * ((middle + 1 + end) / 2 - center))
    return np.maximum(left + right, 0.0)


def transposed_table(plan: Plan, axis: ResampledAxis, begin: int, end: int) -> WeightTable | None:
    """Returns a table of the outputs that read elements ``begin`` to ``end``, or None if it has too many weights."""
    if 2 * axis.outputs > TAPS:
        return None
    if axis.is_nowhere:
        return _table_of_all(0 if is_linear(plan.attributes) and axis.size > 1 else axis.outputs, end - begin)
    coordinates = axis.coordinates(np.arange(axis.outputs))
    if is_linear(plan.attributes):
        low, part = neighbors(coordinates, axis.size)
        high = low + (part > 0)
    else:
        low = high = nearest_indices(coordinates, axis.size, rounding_of(plan))
        part = np.zeros(axis.outputs)
    elements = np.arange(begin, end)
    first = np.searchsorted(high, elements, "left")
    taps = np.searchsorted(low, elements, "right") - first
    starts, inputs, outputs = _ragged(first, taps)
    share = part[outputs]
    below = 1.0 - share
    weights = np.where(low[outputs] == elements[inputs], below, share)
    return _table(first, taps, starts, weights, bool((1.0 - below == share).all()))


def _table_of_all(taps: int, elements: int) -> WeightTable:
    """Returns a table in which the same outputs read all elements, once each."""
    first = starts = np.zeros(elements, np.int64)
    return _table(first, np.full(elements, taps), starts, np.ones(taps), True)


def nearest_table(plan: Plan, axis: ResampledAxis, begin: int, end: int) -> Array:
    """Returns the index that each of outputs ``begin`` to ``end`` reads, int64."""
    return nearest_indices(axis.coordinates(np.arange(begin, end)), axis.size, rounding_of(plan))
