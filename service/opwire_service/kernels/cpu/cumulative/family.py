"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: lines side by side, each from its beginning to its end."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array, DataType

from ....execution import Arrays, Bound, Stop, Stopped
from ...exact import FORMATS, exact_sum, multiply
from ...reference.elements import Elements
from ..jit.compiler import Kernel
from ..numbers.vectors import WIDTH
from ..run.geometry import KEPT, KEPT_LOOPS, KEPT_SLOTS, SLOTS
from ..run.job import Job, Step
from ..run.pool import Find, Pool
from ..run.tiles import TILE
from . import lines
from .lines import ACROSS, EXCLUSIVE, LENGTH, SLICES, SOURCE_STEP, TARGET_STEP
from .running import FACTORS, Carried, Products, Sums, Wrapped

KERNELS: tuple[Kernel, ...] = lines.SUMS

COST = 4
"""How many times as long as an element of a maximum one of these takes."""

LONGEST = 1 << 20
"""Elements of a line that a kernel walks without being asked whether to stop: some ms."""


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


class LinesJob(Job):
    """Running sums of floats by a kernel.

    Args:
        plan: of them, with lines of at most ``LONGEST`` elements.
    """

    def __init__(self, plan: Plan) -> None:
        source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        attributes, axis = plan.attributes, plan.attributes.Axis
        self._kernel = lines.SUMS[source.data_type is DataType.FLOAT16]
        steps, moves, length = source.element_strides, target.element_strides, source.sizes[axis]
        others = [i for i in range(source.rank) if i != axis and source.sizes[i] > 1]
        beside = next((i for i in others if steps[i] == moves[i] == 1 and source.sizes[i] >= WIDTH), None)
        row = [0] * SLOTS
        row[LENGTH], row[SOURCE_STEP], row[TARGET_STEP] = length, steps[axis], moves[axis]
        row[EXCLUSIVE] = int(attributes.HasExclusiveSum)
        kept = [i for i in others if i != beside]
        units = prod(source.sizes[i] for i in kept)
        if beside is not None:
            row[ACROSS], row[SLICES] = source.sizes[beside], -(-source.sizes[beside] // WIDTH)
            units *= row[SLICES]
        row[KEPT_LOOPS] = len(kept)
        for i, dimension in enumerate(kept):
            here = source.sizes[dimension], steps[dimension], moves[dimension]
            row[KEPT + KEPT_SLOTS * i : KEPT + KEPT_SLOTS * (i + 1)] = here
        self._first = 0, 0
        if attributes.AxisDirection is AxisDirection.DECREASING:
            itemsize = source.data_type.dtype.itemsize
            self._first = (length - 1) * steps[axis] * itemsize, (length - 1) * moves[axis] * itemsize
            row[SOURCE_STEP], row[TARGET_STEP] = -row[SOURCE_STEP], -row[TARGET_STEP]
        several = 1 if beside is None else WIDTH
        self._step = Step(self._kernel, array("q", row), units, COST * length * several)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (self._kernel,)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        self.bind(inputs, outputs, find, pool)(stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        first, last = self._first
        return self._step.bind(source.ctypes.data + first, target.ctypes.data + last, 0, find, pool, (source, target))


def _sums(plan: Plan) -> Job:
    desc = plan.inputs["InputTensor"]
    is_walked = desc.data_type in (DataType.FLOAT32, DataType.FLOAT16)
    if is_walked and desc.sizes[plan.attributes.Axis] <= LONGEST:
        return LinesJob(plan)
    return RunningJob(plan, sums=True)


PREPARE: dict[str, Callable[[Plan], Job]] = {
    "CUMULATIVE_SUMMATION": _sums,
    "CUMULATIVE_PRODUCT": partial(RunningJob, sums=False),
}
