"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: lines side by side, each from its beginning to its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from ..run.tiles import TILE, Tiles
from .running import FACTORS, Carried, Products, Sums, Wrapped

KERNELS: tuple[Kernel, ...] = ()

_SIDE_BY_SIDE = 16
"""Lines that a tile has at least, if there are as many."""


class RunningJob(Job):
    """Lines along the axis, many of them at a time; where they are longer than a tile, one part after the other.

    Args:
        plan: of it.
        sums: whether of sums, or of products.
    """

    def __init__(self, plan: Plan, *, sums: bool) -> None:
        desc, attributes = plan.inputs["InputTensor"], plan.attributes
        self._axis: int = attributes.Axis
        self._length = desc.sizes[self._axis]
        self._backwards = attributes.AxisDirection is AxisDirection.DECREASING
        self._exclusive = bool(attributes.HasExclusiveSum if sums else attributes.HasExclusiveProduct)
        self._sums = sums
        self._is_float = desc.data_type.is_float
        # What is carried is always of the kind that carries it on.
        kind: Any = Sums if sums else Products
        self._kind: Callable[..., Carried] = kind if self._is_float else partial(Wrapped, sums=sums)
        self._format = FORMATS.get(desc.data_type)
        sizes = list(desc.sizes)
        sizes[self._axis] = min(self._length, TILE // _SIDE_BY_SIDE)
        self._tiles = Tiles(sizes, desc.element_strides, (self._axis,))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return ()

    def scratch_bytes(self, threads: int) -> int:
        return 160 * TILE * threads

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        if self._backwards:
            source, target = np.flip(source, self._axis), np.flip(target, self._axis)

        def piece(begin: int, end: int) -> None:
            with np.errstate(all="ignore"):
                for number in range(begin, end):
                    at = list(self._tiles.at(number))
                    at[self._axis] = slice(None)
                    self._run_lines(source[tuple(at)], target[tuple(at)], stop)

        pool.run(piece, self._tiles.count, 1, stop)

    def _run_lines(self, source: Array, target: Array, stop: Stop) -> None:
        height = max(1, TILE // (source.size // self._length))
        if self._is_float and not self._sums:
            height = min(height, FACTORS)
        carried: Carried | None = None
        for first in range(0, self._length, height):
            if first and stop():
                raise Stopped
            carried = self._kind(source[self._along(first, first + height)], self._axis, carried)
            self._put(carried.results, target, first)
            if self._is_float:
                self._mend(carried, source, target, first, stop)

    def _along(self, begin: int, end: int) -> tuple[slice, ...]:
        """What selects a part of the lines."""
        return (*(slice(None),) * self._axis, slice(begin, end))

    def _put(self, results: Array, target: Array, first: int) -> None:
        """Writes results, of exclusive ones each to the next place."""
        if not self._exclusive:
            target[self._along(first, first + results.shape[self._axis])] = results
            return
        if first == 0:
            target[self._along(0, 1)] = 0 if self._sums else 1
        kept = results[self._along(0, self._length - first - 1)]
        # A sum that starts at 0 is never -0.
        target[self._along(first + 1, first + 1 + kept.shape[self._axis])] = (
            kept + 0.0 if self._sums and self._is_float else kept
        )

    def _mend(self, carried: Carried, source: Array, target: Array, first: int, stop: Stop) -> None:
        """Elements that are open by exact arithmetic on all that come before them."""
        assert self._format is not None
        axis = self._axis
        of = exact_sum if self._sums else multiply
        for place in map(tuple, np.argwhere(carried.open).tolist()):
            at = first + place[axis] + self._exclusive
            if at >= self._length:
                continue
            line: tuple[Any, ...] = (*place[:axis], slice(0, first + place[axis] + 1), *place[axis + 1 :])
            result = of(Elements(source[line], stop, 1024), self._format)
            target[(*place[:axis], at, *place[axis + 1 :])] = result + 0 if self._exclusive and self._sums else result


PREPARE: dict[str, Callable[[Plan], Job]] = {
    "CUMULATIVE_SUMMATION": partial(RunningJob, sums=True),
    "CUMULATIVE_PRODUCT": partial(RunningJob, sums=False),
}
