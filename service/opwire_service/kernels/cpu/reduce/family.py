"""REDUCE: chooses the kernels for a function and a data type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.enums import ReduceFunction
from opwire.tensor import Array, DataType

from ... import exact
from ...layout import reduction_layout
from ..extremes.family import extreme_job
from ..jit.compiler import Kernel
from ..jit.element import FLOAT32, HALF, INT32, INT64
from ..numbers import rounding
from ..run.job import ArrayJob, Job, KernelStep, StepsJob
from ..run.tiling import COLUMN_UNIT, LEAST_ROWS, WIDE_TILE_BYTES, WIDEST_TILE_BYTES, ReductionTiling, cut
from . import exponentials, open_sums, products, sum_terms, sums, wrapping
from . import parameters as p
from .float_jobs import Exact, FamilyKernels, float_job
from .parameters import COMPENSATED, PLAIN

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
    """A float sum: the function applied to it, and the kind of its terms."""

    function: int
    kind: int = p.SIGNED


SUMS = {
    F.SUM: FloatSum(rounding.SUM),
    F.AVERAGE: FloatSum(rounding.AVERAGE),
    F.L1: FloatSum(rounding.SUM, p.MAGNITUDE),
    F.L2: FloatSum(rounding.L2, p.SQUARES),
    F.SUM_SQUARE: FloatSum(rounding.SUM, p.SQUARES),
    F.LOG_SUM: FloatSum(rounding.LOG_SUM, p.SINGLES),
}

ROUNDING = 16
"""Cost of rounding or a logarithm, in visited elements."""

SUM_ROWS = 512
"""Minimum number of rows in a segment of columns of sums; merging the sums of a segment costs as much as a few rows."""

SUM_KERNELS = FamilyKernels(
    sums.rows, sums.columns, sums.finish, sums.STATE, open_rows=open_sums.rows, open_columns=open_sums.columns
)

LOG_SUM_EXP_KERNELS = FamilyKernels(
    exponentials.rows, exponentials.columns, exponentials.finish, {PLAIN: exponentials.STATE}
)

WRAPPING_KERNELS = FamilyKernels(wrapping.rows, wrapping.columns, wrapping.finish, {PLAIN: 1})


def _exact_product(dtype: np.dtype[Any]) -> Exact:
    to = exact.FORMATS[DataType.of(dtype)]
    return lambda elements: exact.multiply(elements, to)


PRODUCT_KERNELS = FamilyKernels(
    products.rows,
    products.columns,
    products.finish,
    dict.fromkeys((PLAIN, COMPENSATED), products.STATE),
    open_rows=products.rows,
    exact=_exact_product,
)

KERNELS = (
    *(
        Kernel(function, element)
        for element in INTEGERS.values()
        for function in (WRAPPING_KERNELS.rows, WRAPPING_KERNELS.columns, WRAPPING_KERNELS.finish)
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
        return extreme_job(plan, least=least, last=False, index=index)
    layout = reduction_layout(
        plan.inputs["InputTensor"], plan.outputs["OutputTensor"], plan.attributes.Axes, ordered=False
    )
    if not data_type.is_float:
        if not layout.reduced:
            return ArrayJob(EACH_INTEGER[function])
        return _wrapping_job(
            cut(layout, data_type.bits // 8, {p.OPERATION: WRAPPING[function]}, wide=WIDE_TILE_BYTES), data_type
        )
    if not layout.reduced and function in EACH_FLOAT:
        return ArrayJob(EACH_FLOAT[function])
    family, parameters, most_rows = _float_reduction(function, data_type)
    wide, rows = (WIDEST_TILE_BYTES, SUM_ROWS) if family is SUM_KERNELS else (WIDE_TILE_BYTES, LEAST_ROWS)
    sizes = {"most_rows": most_rows, "least_rows": rows, "wide": wide, "besides": ROUNDING}
    work = cut(layout, data_type.bits // 8, parameters, **sizes)
    return (float_job if len(family.places) > 1 else _plain_job)(family, work, FLOATS[data_type])


def _float_reduction(function: ReduceFunction, data_type: DataType) -> tuple[FamilyKernels, dict[int, int], int]:
    """Returns the kernels of a function, its geometry parameters, and the maximum rows in a tile of columns."""
    if function is F.MULTIPLY:
        return PRODUCT_KERNELS, {}, COLUMN_UNIT
    if function is F.LOG_SUM_EXP:
        return LOG_SUM_EXP_KERNELS, {}, exponentials.MOST_ROWS
    what = SUMS[function]
    parameters = {
        p.RESULT: what.function,
        p.MASK: sum_terms.MAGNITUDES[data_type] if what.kind == p.MAGNITUDE else -1,
        p.KIND: what.kind,
        p.IS_EXACT: int(data_type is DataType.FLOAT16 and what.kind != p.SQUARES),
    }
    return SUM_KERNELS, parameters, sum_terms.EXACT_TERMS


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


def _wrapping_job(work: ReductionTiling, data_type: DataType) -> Job:
    # Unsigned integers are their own magnitudes.
    if not data_type.is_signed and work.geometry[p.OPERATION] == wrapping.L1:
        work.geometry[p.OPERATION] = work.whole[p.OPERATION] = wrapping.SUM
    return _plain_job(WRAPPING_KERNELS, work, INTEGERS[data_type.bits])


def _plain_job(family: FamilyKernels, work: ReductionTiling, element: Any) -> Job:
    """Returns the job of a reduction whose first tier leaves nothing open."""
    first = KernelStep(
        Kernel(family.columns if work.by_columns else family.rows, element), work.geometry, work.units, work.elements
    )
    if work.segments == 1:
        return StepsJob((first,), 0)
    finish = KernelStep(Kernel(family.finish, element), work.whole, work.outputs, work.segments)
    return StepsJob((first, finish), work.outputs * work.segments * family.places[PLAIN])


PREPARE = dict.fromkeys(("REDUCE",), prepare)
