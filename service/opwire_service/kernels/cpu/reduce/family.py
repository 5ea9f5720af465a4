"""REDUCE: chooses the kernels for a function and a data type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from opwire.check import Plan
from opwire.enums import ReduceFunction
from opwire.tensor import Array, DataType

from ... import exact, logarithm
from ...layout import ReductionLayout, reduction_layout
from ..argreduce.family import winner_job
from ..jit.compiler import Kernel
from ..jit.element import FLOAT32, HALF, INT32, INT64
from ..numbers import rounding
from ..run.job import ArrayJob, Job, KernelStep, StepsJob
from ..run.tiling import COLUMN_UNIT, LEAST_ROWS, WIDE_TILE_BYTES, WIDEST_TILE_BYTES, ReductionTiling, cut
from . import exact_sums, exponentials, products, sums, wrapping
from .geometry import MAGNITUDES, SIGNED, SQUARES, FloatReduction, IntegerReduction
from .jobs import FamilyKernels, float_job

F = ReduceFunction

FLOATS = {DataType.FLOAT32: FLOAT32, DataType.FLOAT16: HALF}
INTEGERS = {32: INT32, 64: INT64}

EXTREMES = {F.MIN: (True, False), F.MAX: (False, False), F.ARGMIN: (True, True), F.ARGMAX: (False, True)}
"""For each function, whether it looks for the minimum, and whether it returns the index."""

WRAPPING = {
    F.SUM: wrapping.SUM,
    F.L1: wrapping.L1,
    F.SUM_SQUARE: wrapping.SUM_SQUARE,
    F.MULTIPLY: wrapping.MULTIPLY,
}


@dataclass(frozen=True, slots=True)
class FloatSum:
    """A float sum.

    Attributes:
        function: the function applied to it, as in ``numbers.rounding``.
        exact: computes it exactly.
        kind: kind of its terms, as in ``geometry``.
    """

    function: int
    exact: Callable[[exact.Chunks, exact.FloatFormat], exact.Float]
    kind: int = SIGNED


SUMS = {
    F.SUM: FloatSum(rounding.SUM, exact.exact_sum),
    F.AVERAGE: FloatSum(rounding.AVERAGE, exact.average),
    F.L1: FloatSum(rounding.SUM, exact.l1, MAGNITUDES),
    F.L2: FloatSum(rounding.L2, exact.l2, SQUARES),
    F.SUM_SQUARE: FloatSum(rounding.SUM, exact.sum_square, SQUARES),
    F.LOG_SUM: FloatSum(rounding.LOG_SUM, logarithm.log_sum),
}

ROUNDING = 16
"""Cost of rounding or a logarithm, in visited elements."""

SUM_ROWS = 512
"""Minimum number of rows in a segment of columns of sums; merging the sums of a segment costs as much as a few rows."""

SUM_KERNELS = FamilyKernels(
    sums.rows, sums.columns, sums.finish, exact_sums.settle, sums.PARTS, settled=exact_sums.SETTLED
)

LOG_SUM_EXP_KERNELS = FamilyKernels(
    exponentials.rows, exponentials.columns, exponentials.finish, exponentials.settle, exponentials.PARTS, settled=0
)

PRODUCT_KERNELS = FamilyKernels(
    products.rows, products.columns, products.finish, products.settle, products.PARTS, settled=0
)

KERNELS = (
    *(
        Kernel(function, element)
        for element in INTEGERS.values()
        for function in (wrapping.rows, wrapping.columns, wrapping.finish)
    ),
    *(
        Kernel(function, element)
        for element in FLOATS.values()
        for family in (SUM_KERNELS, LOG_SUM_EXP_KERNELS, PRODUCT_KERNELS)
        for function in family.functions
    ),
)


def prepare(plan: Plan) -> Job:
    function: ReduceFunction = plan.attributes.Function
    data_type = plan.inputs["InputTensor"].data_type
    if function in EXTREMES:
        least, index = EXTREMES[function]
        return winner_job(plan, least=least, last=False, index=index)
    layout = reduction_layout(
        plan.inputs["InputTensor"], plan.outputs["OutputTensor"], plan.attributes.Axes, ordered=False
    )
    each = EACH_FLOAT if data_type.is_float else EACH_INTEGER
    if not layout.reduced and function in each:
        return ArrayJob(each[function])
    if not data_type.is_float:
        return _wrapping_job(layout, function, data_type)
    if function is F.MULTIPLY:
        return _product_job(layout, data_type)
    if function is F.LOG_SUM_EXP:
        work = _cut(layout, data_type, most_rows=exponentials.MOST_ROWS, wide=WIDE_TILE_BYTES)
        return float_job(LOG_SUM_EXP_KERNELS, work, FLOATS[data_type], None)
    return _sum_job(layout, SUMS[function], data_type)


def _cut(
    layout: ReductionLayout, data_type: DataType, *, most_rows: int, least_rows: int = LEAST_ROWS, wide: int
) -> ReductionTiling[FloatReduction]:
    sizes = {"most_rows": most_rows, "least_rows": least_rows, "wide": wide, "besides": ROUNDING}
    return cut(FloatReduction, layout, data_type.bits // 8, **sizes)


def _sum_job(layout: ReductionLayout, what: FloatSum, data_type: DataType) -> Job:
    work = _cut(layout, data_type, most_rows=sums.EXACT_TERMS, least_rows=SUM_ROWS, wide=WIDEST_TILE_BYTES)
    geometry, bound = work.geometry, 0.0
    if what.kind == SQUARES or data_type is DataType.FLOAT32:
        bound = sums.bound(
            geometry.count, geometry.run, geometry.segment, by_columns=work.by_columns, squares=what.kind == SQUARES
        )
    work.set(function=what.function, kind=what.kind, bound=bound)
    return float_job(SUM_KERNELS, work, FLOATS[data_type], partial(_exactly, what.exact, exact.FORMATS[data_type]))


def _product_job(layout: ReductionLayout, data_type: DataType) -> Job:
    work = _cut(layout, data_type, most_rows=COLUMN_UNIT, wide=WIDE_TILE_BYTES)
    work.set(bound=products.bound(layout.reduced_count, work.segments))
    return float_job(
        PRODUCT_KERNELS, work, FLOATS[data_type], partial(_exactly, exact.multiply, exact.FORMATS[data_type])
    )


def _exactly(
    compute: Callable[[exact.Chunks, exact.FloatFormat], exact.Float], to: exact.FloatFormat, elements: exact.Chunks
) -> exact.Float:
    return compute(elements, to)


def _wrapping_job(layout: ReductionLayout, function: ReduceFunction, data_type: DataType) -> Job:
    operation = WRAPPING[function]
    if operation == wrapping.L1 and not data_type.is_signed:
        operation = wrapping.SUM  # unsigned integers are their own magnitudes
    work = cut(IntegerReduction, layout, data_type.bits // 8, wide=WIDE_TILE_BYTES)
    work.set(operation=operation)
    element = INTEGERS[data_type.bits]
    by_units = wrapping.columns if work.by_columns else wrapping.rows
    first = KernelStep(Kernel(by_units, element), work.geometry, work.units, work.elements)
    if work.segments == 1:
        return StepsJob((first,), 0)
    finish = KernelStep(Kernel(wrapping.finish, element), work.whole, work.outputs, work.segments)
    return StepsJob((first, finish), work.outputs * work.segments)


def _copy(source: Array, target: Array) -> None:
    target[...] = source


def _absolute(source: Array, target: Array) -> None:
    np.absolute(source, out=target)


def _square(source: Array, target: Array) -> None:
    # Squares are exact at twice the width, so they are rounded only once, whatever width NumPy computes in.
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
"""Reductions of a single element that NumPy rounds correctly."""

EACH_INTEGER = {F.SUM: _copy, F.L1: _absolute, F.SUM_SQUARE: _square, F.MULTIPLY: _copy}
"""The same for integers."""


PREPARE = dict.fromkeys(("REDUCE",), prepare)
