"""Weighted sums over boxes of the output: tables by dimension, kernel geometry, and undecided outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from opwire.tensor import Array

from ....execution import Stop, Stopped
from ..jit.compiler import Kernel
from ..run.job import Kept, KernelStep
from ..run.pool import Find, Pool
from .geometry import WeightedSums
from .tables import WeightTable

Compute = Callable[[Stop], list[tuple[int, ...]] | None]
"""Computes outputs; returns the coordinates of undecided ones, or None if there are too many."""

CAPACITY = 1 << 12
"""Maximum number of undecided outputs; beyond that, all are computed exactly."""

TILE = 1 << 10
"""Outputs in a tile."""

_SLACK_TERMS = 10
"""Rounding errors of a sum besides those of its terms."""

IDENTITY = WeightTable(
    np.zeros(1, np.int64), np.ones(1, np.int64), np.zeros(1, np.int64), np.array([1.0, 0.0, 0.0]), True
)
"""The table of a missing dimension: one output that reads one element."""


@dataclass(frozen=True, slots=True)
class BoxDimension:
    """A dimension of a box.

    Attributes:
        table: what its outputs read.
        source, target: strides in elements, of the input and of the output.
    """

    table: WeightTable
    source: int
    target: int


class OutputBox:
    """Outputs that a kernel computes together.

    Args:
        axes: at most five, outermost first.
        integers: range of the results if they are integers.
        regions: whether the last two axes have a table for each index of the second one, one after the other.
    """

    def __init__(
        self, axes: Sequence[BoxDimension], integers: tuple[int, int] | None = None, *, regions: bool = False
    ) -> None:
        missing = 5 - len(axes)
        self._axes = [*(BoxDimension(IDENTITY, 0, 0) for _ in range(missing)), *axes]
        *self.outer, across = (axis.table for axis in self._axes)
        self._regions = self.outer[1].first.size if regions else 1
        self._sizes = [axis.table.first.size for axis in self._axes]
        self._sizes[3:] = [size // self._regions for size in self._sizes[3:]]
        outputs = self._sizes[-1]
        self.tile = min(outputs, TILE)
        self.tiles = -(-outputs // self.tile)
        self.units = prod(self._sizes[:-1]) * self.tiles
        self.line = line = _line(across, self.tile)
        self.visits = prod(table.most for table in self.outer) * line + self.tile * (1 + across.most)
        self._pairs = _pairs(across)
        self.geometry = self._encode(line, integers)

    def _encode(self, line: int, integers: tuple[int, int] | None) -> WeightedSums:
        tables = [axis.table for axis in self._axes]
        terms = prod(table.most for table in tables) + _SLACK_TERMS
        # Terms err by a few ULP each, and no term's error may exceed 2**-26 of the sum.
        share = min(1.0, terms * 2.0**-26)
        *axes, across = (
            (size, *(each.ctypes.data for each in axis.table.arrays), axis.source, axis.target)
            for size, axis in zip(self._sizes, self._axes, strict=True)
        )
        geometry = WeightedSums(
            tile=self.tile,
            tiles=self.tiles,
            line=line,
            exact=all(table.exact for table in tables),
            limit=share * max(1.0, prod(table.total for table in tables)),
            least=share,
            capacity=CAPACITY,
            axes=axes,
            across=across,
        )
        if self._pairs is not None:
            geometry.pairs = True
            geometry.near, geometry.far = (weights.ctypes.data for weights in self._pairs)
            geometry.local = _are_products_exact(tables[:-1])
        if self._regions > 1:
            geometry.region_rows, geometry.region_columns = self._sizes[3:]
        if integers is not None:
            geometry.integer, (geometry.lowest, geometry.highest) = True, integers
        return geometry

    def bind(self, kernel: Kernel, source: int, target: int, find: Find, pool: Pool, kept: Kept = ()) -> Compute:
        """Returns a function that computes the outputs, repeatedly but not concurrently; ``kept`` owns the memory."""
        states = np.zeros(1 + CAPACITY, np.int64)
        step = KernelStep(kernel, self.geometry, self.units, self.visits)
        run = step.bind(source, target, states.ctypes.data, find, pool, (self, states, kept))

        def compute(stop: Stop) -> list[tuple[int, ...]] | None:
            states[0] = 0
            run(stop)
            return self._undecided(states)

        return compute

    def _undecided(self, states: Array) -> list[tuple[int, ...]] | None:
        if states[0] > CAPACITY:
            return None
        shape = (*self._sizes[:-1], self.tiles * self.tile)
        if not states[0]:
            return []
        numbers = states[1 : 1 + int(states[0])]
        return [tuple(int(i) for i in place) for place in zip(*np.unravel_index(numbers, shape), strict=True)]


def _line(across: WeightTable, tile: int) -> int:
    """Returns the maximum number of elements that a tile of ``tile`` outputs reads along the innermost dimension."""
    first, end = across.first, across.first + across.taps
    starts = np.arange(0, first.size, tile)
    ends = np.minimum(starts + tile, first.size) - 1
    return int((np.maximum(end[starts], end[ends]) - np.minimum(first[starts], first[ends])).max())


def _pairs(table: WeightTable) -> tuple[Array, Array] | None:
    """Returns the two weights of each output, 0 if missing; None if any output has more."""
    if table.most > 2:
        return None
    places = np.minimum(table.starts, table.weights.size - 2)
    near, far = table.weights[places], table.weights[places + 1]
    return np.where(table.taps > 0, near, 0.0), np.where(table.taps > 1, far, 0.0)


def _are_products_exact(outer: Sequence[WeightTable]) -> bool:
    """Whether elements times the outer weights, of which at most one dimension's matter, are exact."""
    several = [table for table in outer if table.most > 1 or (table.weights[:-2] != 1.0).any()]
    return len(several) <= 1 and all(
        table.most <= 2 and bool((table.weights.astype(np.float32) == table.weights).all()) for table in several
    )


Settle = Callable[[tuple[int, ...]], Any]
"""Returns the exact result of an output."""


def settle_places(undecided: Sequence[tuple[int, ...]], target: Array, settle: Settle, stop: Stop) -> None:
    """Computes the outputs undecided; the last coordinates of a place index the target."""
    for place in undecided:
        if stop():
            raise Stopped
        at = place[len(place) - target.ndim :]
        target[at] = settle(at)
