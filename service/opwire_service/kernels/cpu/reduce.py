"""REDUCE: which kernels compute a function of a data type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.operators.reduce import ReduceFunction
from opwire.tensor import Array, DataType

from ...devices.device import Arrays, Stop
from ..layout import ReductionLayout, reduction_layout
from . import geometry as g
from . import rounding, sums, terms, wrapping
from .argreduce import extreme_job
from .compiler import Kernel
from .element import FLOAT32, HALF, INT32, INT64
from .job import ArrayJob, Find, Job, Step, StepsJob
from .pool import Pool
from .reductions import Cut, cut

F = ReduceFunction

FLOATS = {DataType.FLOAT32: FLOAT32, DataType.FLOAT16: HALF}
INTEGERS = {32: INT32, 64: INT64}

EXTREMES = {F.MIN: (True, False), F.MAX: (False, False), F.ARGMIN: (True, True), F.ARGMAX: (False, True)}
"""Whether the least is looked for, and whether its index."""

WRAPPING = {
    F.SUM: wrapping.SUM,
    F.L1: wrapping.L1,
    F.SUM_SQUARE: wrapping.SUM_SQUARE,
    F.MULTIPLY: wrapping.MULTIPLY,
}


@dataclass(frozen=True, slots=True)
class FloatSum:
    """What is added up, and what becomes of the sum."""

    function: int
    magnitudes: bool = False
    squares: bool = False


SUMS = {
    F.SUM: FloatSum(rounding.SUM),
    F.AVERAGE: FloatSum(rounding.AVERAGE),
    F.L1: FloatSum(rounding.SUM, magnitudes=True),
    F.L2: FloatSum(rounding.L2, squares=True),
    F.SUM_SQUARE: FloatSum(rounding.SUM, squares=True),
    F.LOG_SUM: FloatSum(rounding.LOG_SUM),
}

KERNELS = (
    *(
        Kernel(function, element)
        for element in INTEGERS.values()
        for function in (wrapping.rows, wrapping.columns, wrapping.finish)
    ),
    *(
        Kernel(function, element)
        for element in FLOATS.values()
        for function in (sums.rows, sums.columns, sums.finish)
    ),
)


def prepare(plan: Plan) -> Job:
    function: ReduceFunction = plan.attributes.Function
    data_type = plan.inputs["InputTensor"].data_type
    if function in EXTREMES:
        least, index = EXTREMES[function]
        return extreme_job(plan, least=least, last=False, index=index)
    layout = reduction_layout(
        plan.inputs["InputTensor"], plan.outputs["OutputTensor"], plan.attributes.Axes, ordered=False
    )
    if not data_type.is_float:
        if not layout.reduced:
            return ArrayJob(EACH_INTEGER[function])
        return _wrapping_job(cut(layout, data_type.bits // 8, {g.FUNCTION: WRAPPING[function]}), data_type)
    if not layout.reduced and function in EACH_FLOAT:
        return ArrayJob(EACH_FLOAT[function])
    return _sum_job(layout, SUMS[function], data_type)


def _copy(source: Array, target: Array) -> None:
    target[...] = source


def _absolute(source: Array, target: Array) -> None:
    np.absolute(source, out=target)


def _square(source: Array, target: Array) -> None:
    # A square is exact in twice the width, so it is rounded once whichever width NumPy computes in.
    with np.errstate(over="ignore", under="ignore"):
        np.square(source, out=target)


EACH_FLOAT: dict[ReduceFunction, Callable[[Array, Array], None]] = {
    F.SUM: _copy,
    F.AVERAGE: _copy,
    F.L1: _absolute,
    F.L2: _absolute,
    F.SUM_SQUARE: _square,
    F.MULTIPLY: _copy,
    F.LOG_SUM_EXP: _copy,
}
"""The functions of a single element that NumPy rounds as asked."""

EACH_INTEGER = {F.SUM: _copy, F.L1: _absolute, F.SUM_SQUARE: _square, F.MULTIPLY: _copy}


def _wrapping_job(work: Cut, data_type: DataType) -> Job:
    # The magnitude of an unsigned integer is itself.
    if not data_type.is_signed and work.geometry[g.FUNCTION] == wrapping.L1:
        work.geometry[g.FUNCTION] = work.whole[g.FUNCTION] = wrapping.SUM
    element = INTEGERS[data_type.bits]
    first = Step(
        Kernel(wrapping.columns if work.by_columns else wrapping.rows, element),
        work.geometry,
        work.units,
        work.elements,
    )
    if work.segments == 1:
        return StepsJob((first,), 0)
    finish = Step(Kernel(wrapping.finish, element), work.whole, work.outputs, work.segments)
    return StepsJob((first, finish), work.outputs * work.segments)


def _sum_job(layout: ReductionLayout, what: FloatSum, data_type: DataType) -> Job:
    parameters = {
        g.FUNCTION: what.function,
        g.MASK: terms.MAGNITUDES[data_type] if what.magnitudes else -1,
        terms.SQUARE: int(what.squares),
        terms.IS_EXACT: int(data_type is DataType.FLOAT16 and not what.squares),
        sums.TIER: sums.PLAIN,
    }
    work = cut(layout, data_type.bits // 8, parameters, most_rows=terms.EXACT_TERMS)
    element = FLOATS[data_type]
    first = Step(
        Kernel(sums.columns if work.by_columns else sums.rows, element), work.geometry, work.units, work.elements
    )
    if work.segments == 1:
        return StepsJob((first,), 0)
    return SegmentedSumJob(first, work, element)


class SegmentedSumJob:
    """A sum in segments: those output elements that the plain sums leave open are added up again, one after the other."""

    def __init__(self, first: Step, work: Cut, element: Any) -> None:
        self._first = first
        self._work = work
        self._item_size = element.bitwidth // 8
        self._finish = Step(Kernel(sums.finish, element), work.whole, work.outputs, work.segments)
        self._again = tuple(self._one_element(tier, element) for tier in (sums.COMPENSATED, sums.EXACT))

    def _one_element(self, tier: int, element: Any) -> tuple[Step, Step]:
        """The steps for a single output element; addresses say which."""
        geometry = self._work.whole.copy()
        geometry[g.KEPT_LOOPS] = 0
        geometry[sums.TIER] = tier
        rows = Step(Kernel(sums.rows, element), geometry, self._work.segments, int(geometry[g.SEGMENT]))
        return rows, Step(Kernel(sums.finish, element), geometry, 1, self._work.segments)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (self._first.kernel, self._finish.kernel, self._again[0][0].kernel)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        segments, count = self._work.segments, self._work.outputs
        given, results = inputs["InputTensor"], outputs["OutputTensor"]
        source, target = given.ctypes.data, results.ctypes.data
        states = np.empty((count, segments * sums.STATE[sums.PLAIN]), np.int64)
        for step in (self._first, self._finish):
            step.run(source, target, states.ctypes.data, find, pool, stop)
        for output in np.flatnonzero(states[:, 0]).tolist():
            offsets = self._offsets(output)
            here, there = (address + offset for address, offset in zip((source, target), offsets, strict=True))
            self._run_again(here, there, find, pool, stop)

    def _offsets(self, output: int) -> tuple[int, int]:
        """Bytes to the first input element of an output element, and to itself."""
        kept = self._work.layout.kept
        place = np.unravel_index(output, tuple(loop.size for loop in kept)) if kept else ()
        source = sum(int(i) * loop.source for i, loop in zip(place, kept, strict=True))
        target = sum(int(i) * loop.target for i, loop in zip(place, kept, strict=True))
        return source * self._item_size, target * self._item_size

    def _run_again(self, source: int, target: int, find: Find, pool: Pool, stop: Stop) -> None:
        states = np.empty(self._work.segments * sums.STATE[sums.EXACT], np.int64)
        for steps in self._again:
            for step in steps:
                step.run(source, target, states.ctypes.data, find, pool, stop)
            if not states[0]:
                return
