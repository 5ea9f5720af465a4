"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: adjacent lines in parallel, each from its start to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array, DataType

from ....execution import Arrays, Bound, Stop, Stopped
from ...exact import FORMATS, multiply
from ...layout import Loop, collapse
from ...reference.elements import Elements
from ..jit.compiler import Kernel
from ..jit.element import FLOAT32, HALF
from ..numbers.vectors import WIDTH
from ..run.job import Job, KernelStep, ScratchBytes
from ..run.pool import Find, Pool
from ..run.tiles import TILE, Tiles
from . import lines
from .lines import Lines
from .running import FACTORS, Carried, RunningProducts, WrappedTotals

FLOATS = {DataType.FLOAT32: FLOAT32, DataType.FLOAT16: HALF}

KERNELS = tuple(Kernel(function, element) for element in FLOATS.values() for function in (lines.sums, lines.parts))

COST = 4
"""Cost per element, relative to one element of MAX."""

_SIDE_BY_SIDE = 16
"""Minimum number of lines in a tile, if there are as many."""

WIDEST = 32
"""Maximum number of slices in a strip, so that their sums stay in the L1 cache."""

TURN, ALONE = 8, 64
"""Positions by which a slice advances per turn, if it is one of several or alone and no tile has to be transposed."""

LONGEST = 1 << 20
"""Maximum number of elements of a line that a kernel visits without polling ``stop``: some ms."""


class RunningJob(Job):
    """Computes sums of integers or products, many lines at once with NumPy; lines longer than a tile part by part.

    Args:
        plan: the plan.
        sums: whether to compute sums; otherwise products.
    """

    _scratch = ScratchBytes(thread=160 * TILE)

    def __init__(self, plan: Plan, *, sums: bool) -> None:
        desc, attributes = plan.inputs["InputTensor"], plan.attributes
        self._axis: int = attributes.Axis
        self._length = desc.sizes[self._axis]
        self._backwards = attributes.AxisDirection is AxisDirection.DECREASING
        self._exclusive = bool(attributes.HasExclusiveSum if sums else attributes.HasExclusiveProduct)
        self._sums = sums
        self._is_float = desc.data_type.is_float
        self._kind: Callable[..., Carried] = RunningProducts if self._is_float else partial(WrappedTotals, sums=sums)
        self._format = FORMATS.get(desc.data_type)
        sizes = list(desc.sizes)
        sizes[self._axis] = min(self._length, TILE // _SIDE_BY_SIDE)
        self._tiles = Tiles(sizes, desc.element_strides, (self._axis,))

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        if self._backwards:
            source, target = np.flip(source, self._axis), np.flip(target, self._axis)

        def piece(number: int) -> None:
            at = list(self._tiles.at(number))
            at[self._axis] = slice(None)
            self._run_lines(source[tuple(at)], target[tuple(at)], stop)

        pool.each(piece, self._tiles.count, stop)

    def _run_lines(self, source: Array, target: Array, stop: Stop) -> None:
        height = max(1, TILE // (source.size // self._length))
        if self._is_float:
            height = min(height, FACTORS)
        carried: Carried | None = None
        for first in range(0, self._length, height):
            if first and stop():
                raise Stopped
            carried = self._kind(source[self._along(first, first + height)], self._axis, carried)
            self._put(carried.results, target, first)
            if self._is_float:
                self._settle(carried, source, target, first, stop)

    def _along(self, begin: int, end: int) -> tuple[slice, ...]:
        """Returns the index of part of the lines."""
        return (*(slice(None),) * self._axis, slice(begin, end))

    def _put(self, results: Array, target: Array, first: int) -> None:
        """Writes results; exclusive ones are shifted by one position."""
        if not self._exclusive:
            target[self._along(first, first + results.shape[self._axis])] = results
            return
        if first == 0:
            target[self._along(0, 1)] = 0 if self._sums else 1
        kept = results[self._along(0, self._length - first - 1)]
        target[self._along(first + 1, first + 1 + kept.shape[self._axis])] = kept

    def _settle(self, carried: Carried, source: Array, target: Array, first: int, stop: Stop) -> None:
        """Settles undecided elements with exact arithmetic on all preceding elements."""
        assert self._format is not None
        axis = self._axis
        for place in map(tuple, np.argwhere(carried.undecided).tolist()):
            at = first + place[axis] + self._exclusive
            if at >= self._length:
                continue
            line: tuple[Any, ...] = (*place[:axis], slice(0, first + place[axis] + 1), *place[axis + 1 :])
            target[(*place[:axis], at, *place[axis + 1 :])] = multiply(Elements(source[line], stop, 1024), self._format)


class LinesJob(Job):
    """Computes cumulative float sums in a kernel; lines longer than ``LONGEST`` part by part."""

    def __init__(self, plan: Plan) -> None:
        source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        attributes, axis = plan.attributes, plan.attributes.Axis
        steps, moves, length = source.element_strides, target.element_strides, source.sizes[axis]
        loops = enumerate(map(Loop, source.sizes, steps, moves))
        others = collapse([loop for i, loop in loops if i != axis and loop.size > 1])
        self._is_long = length > LONGEST
        self._kernel = Kernel(lines.parts if self._is_long else lines.sums, FLOATS[source.data_type])
        self._kernels = (self._kernel,)
        beside = None if self._is_long else _beside(others, steps[axis], moves[axis])
        kept = [loop for loop in others if loop is not beside]
        self._beside, self._others = beside, prod(loop.size for loop in kept)
        self._states = self._others * lines.LINE_STATE
        if self._is_long:
            self._scratch = ScratchBytes(shared=8 * self._states)
        geometry = Lines(length=length, source_step=steps[axis], target_step=moves[axis])
        geometry.exclusive = bool(attributes.HasExclusiveSum)
        geometry.kept_loops, geometry.kept = len(kept), kept
        if beside is not None:
            geometry.across, geometry.beside, geometry.beside_target = beside
        self._first = 0, 0
        if attributes.AxisDirection is AxisDirection.DECREASING:
            itemsize = source.data_type.dtype.itemsize
            self._first = (length - 1) * steps[axis] * itemsize, (length - 1) * moves[axis] * itemsize
            geometry.source_step, geometry.target_step = -steps[axis], -moves[axis]
        self._geometry = geometry

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        here, there = source.ctypes.data + self._first[0], target.ctypes.data + self._first[1]
        if not self._is_long:
            return self._step(pool.threads).bind(here, there, 0, find, pool, (source, target))
        states = np.empty(self._states, np.int64)

        def run(stop: Stop) -> None:
            for first in range(0, self._geometry.length, LONGEST):
                self._part(first).run(here, there, states.ctypes.data, find, pool, stop)

        return run

    def _part(self, first: int) -> KernelStep:
        """Returns the step of one part of all lines."""
        geometry = self._geometry.replaced(first=first, last=min(first + LONGEST, self._geometry.length))
        return KernelStep(self._kernel, geometry, self._others, COST * LONGEST)

    def _step(self, threads: int) -> KernelStep:
        """Returns the step that cuts parallel lines into strips for a number of threads."""
        geometry, units, lines_of_unit = self._geometry.replaced(slices=1, places=WIDTH), self._others, 1
        if self._beside is not None:
            if self._beside.source == self._beside.target == 1:
                every = self._beside.size // WIDTH * self._others
                geometry.slices = max(1, min(WIDEST, every // threads, LONGEST // geometry.length))
                geometry.places = ALONE if geometry.slices == 1 else TURN
            lines_of_unit = WIDTH * geometry.slices
            geometry.strips = -(-self._beside.size // lines_of_unit)
            units *= geometry.strips
        return KernelStep(self._kernel, geometry, units, COST * geometry.length * lines_of_unit)


def _beside(others: Sequence[Loop], step: int, move: int) -> Loop | None:
    """Returns the loop over lines that run in parallel: adjacent ones if there are any.

    Args:
        others: all loops but the one along a line.
        step, move: steps along a line, of the input and of the output.
    """

    def is_quick(loop: Loop) -> bool:
        """Whether both tensors have contiguous lines or adjacent lines."""
        return loop.size >= WIDTH and 1 in (loop.source, step) and 1 in (loop.target, move)

    quick = [loop for loop in others if is_quick(loop)]
    return max(quick, key=lambda loop: ((loop.source == 1) + (loop.target == 1), loop.size), default=None)


def _sums(plan: Plan) -> Job:
    is_float = plan.inputs["InputTensor"].data_type in FLOATS
    return LinesJob(plan) if is_float else RunningJob(plan, sums=True)


PREPARE: dict[str, Callable[[Plan], Job]] = {
    "CUMULATIVE_SUMMATION": _sums,
    "CUMULATIVE_PRODUCT": partial(RunningJob, sums=False),
}
