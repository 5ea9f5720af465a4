"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: lines side by side, each from its beginning to its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ...exact import FORMATS, exact_sum, multiply
from ...reference.elements import Elements
from ..jit.compiler import Kernel
from ..run.job import Job
from ..run.pool import Find, Pool
from ..run.tiles import TILE
from .running import FACTORS, Carried, Products, Sums, Wrapped

KERNELS: tuple[Kernel, ...] = ()


class RunningJob(Job):
    """Lines along the axis, in tiles of several lines; one that is longer than a tile goes through several.

    Args:
        plan: of it.
        sums: whether of sums, or of products.
    """

    def __init__(self, plan: Plan, *, sums: bool) -> None:
        desc, attributes = plan.inputs["InputTensor"], plan.attributes
        self._axis = attributes.Axis
        strides = desc.element_strides
        others = [i for i in range(desc.rank) if i != self._axis]
        others.sort(key=lambda i: (desc.sizes[i] > 1, -strides[i]))
        # Lines that are neighbours in memory are walked together: the axis comes before what they lie along.
        inner = others and desc.sizes[others[-1]] > 1 and strides[others[-1]] < strides[self._axis]
        self._order = (*others[:-1], self._axis, others[-1]) if inner else (*others, self._axis)
        self._place = self._order.index(self._axis)
        self._backwards = attributes.AxisDirection is AxisDirection.DECREASING
        self._exclusive = bool(attributes.HasExclusiveSum if sums else attributes.HasExclusiveProduct)
        self._sums = sums
        self._is_float = desc.data_type.is_float
        # What is carried is always of the kind that carries it on.
        kind: Any = Sums if sums else Products
        self._kind: Callable[..., Carried] = kind if self._is_float else partial(Wrapped, sums=sums)
        self._format = FORMATS.get(desc.data_type)
        sizes = [desc.sizes[i] for i in self._order]
        self._cut(sizes)

    def _cut(self, sizes: list[int]) -> None:
        """How many lines a tile has side by side, and how much of each of them."""
        across = sizes[-1] if self._place < len(sizes) - 1 else 1
        length = sizes[self._place]
        self._width = min(across, max(16, TILE // length))
        self._height = min(length, max(1, TILE // self._width))
        if self._is_float and not self._sums:
            self._height = min(self._height, FACTORS)
        self._outer = sizes[: self._place] if across > 1 else sizes[:-1]
        self._slices = -(-across // self._width)
        self._length = length
        # Short lines that do not lie side by side are done several at a time.
        self._several = across == 1 and bool(self._outer) and length < TILE
        self._grain = max(1, TILE // length) if self._several else 1
        self._rows = -(-self._outer[-1] // self._grain) if self._several else 1

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return ()

    def scratch_bytes(self, threads: int) -> int:
        return 160 * TILE * threads

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = (array.transpose(self._order) for array in (inputs["InputTensor"], outputs["OutputTensor"]))
        if self._backwards:
            flipped = (slice(None),) * self._place + (slice(None, None, -1),)
            source, target = source[flipped], target[flipped]
        counts = [*self._outer[:-1], self._rows] if self._several else [*self._outer, self._slices]

        def piece(begin: int, end: int) -> None:
            with np.errstate(all="ignore"):
                for number in range(begin, end):
                    at = self._lines(number, counts)
                    self._run_lines(source[at], target[at], stop)

        pool.run(piece, prod(counts), 1, stop)

    def _lines(self, number: int, counts: list[int]) -> tuple[int | slice, ...]:
        *outer, last = map(int, np.unravel_index(number, counts))
        step = self._grain if self._several else self._width
        part = slice(last * step, (last + 1) * step)
        if self._several:
            return (*outer, part, slice(None))
        return (*outer, slice(None), part) if self._place < len(self._order) - 1 else tuple(outer)

    def _run_lines(self, source: Array, target: Array, stop: Stop) -> None:
        """Lines of which all have the same length: along the last dimension, or the one before it."""
        axis = 0 if source.ndim == 1 or not self._several else 1
        carried: Carried | None = None
        for first in range(0, self._length, self._height):
            if first and stop():
                raise Stopped
            part: tuple[Any, ...] = (slice(None),) * axis + (slice(first, first + self._height),)
            values = source[part]
            results, carried = self._values(values, axis, carried)
            self._put(results, target, first, axis)
            if self._is_float:
                self._mend(carried, source, target, first, axis, stop)

    def _values(self, values: Array, axis: int, carried: Carried | None) -> tuple[Array, Carried]:
        found = self._kind(values, axis, carried)
        return found.results, found

    def _put(self, results: Array, target: Array, first: int, axis: int) -> None:
        """Writes results, of exclusive ones each to the next place."""
        before: tuple[Any, ...] = (slice(None),) * axis
        if not self._exclusive:
            target[(*before, slice(first, first + self._height))] = results
            return
        if first == 0:
            target[(*before, 0)] = 0 if self._sums else 1
        room = target.shape[axis] - first - 1
        kept = results[(*before, slice(0, room))]
        # A sum that starts at 0 is never -0.
        target[(*before, slice(first + 1, first + 1 + self._height))] = (
            kept + 0.0 if self._sums and self._is_float else kept
        )

    def _mend(self, carried: Carried, source: Array, target: Array, first: int, axis: int, stop: Stop) -> None:
        """Elements that are open by exact arithmetic on all that come before them."""
        assert self._format is not None
        of = exact_sum if self._sums else multiply
        moved = first + self._exclusive
        for place in map(tuple, np.argwhere(carried.open).tolist()):
            at = place[axis] + moved
            if at >= self._length:
                continue
            line: tuple[Any, ...] = (*place[:axis], slice(0, first + place[axis] + 1), *place[axis + 1 :])
            result = of(Elements(source[line], stop, 1024), self._format)
            target[(*place[:axis], at, *place[axis + 1 :])] = result + 0 if self._exclusive and self._sums else result


PREPARE: dict[str, Callable[[Plan], Job]] = {
    "CUMULATIVE_SUMMATION": partial(RunningJob, sums=True),
    "CUMULATIVE_PRODUCT": partial(RunningJob, sums=False),
}
