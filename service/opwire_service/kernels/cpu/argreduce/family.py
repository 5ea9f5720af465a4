"""ARGMIN and ARGMAX, also as functions of REDUCE."""

from __future__ import annotations

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array, DataType

from ...layout import reduction_layout
from ..jit.compiler import Kernel
from ..jit.element import FLOAT32, HALF, INT8, INT16, INT32, INT64
from ..run.job import ArrayJob, Job, KernelStep, StepsJob
from ..run.tiling import COLUMN_UNIT, WIDEST_TILE_BYTES, cut
from . import columns, rows
from .geometry import Search
from .ranks import inversion, rank_size

ELEMENTS = {
    DataType.FLOAT32: FLOAT32,
    DataType.FLOAT16: HALF,
    DataType.INT8: INT8,
    DataType.UINT8: INT8,
    DataType.INT16: INT16,
    DataType.UINT16: INT16,
    DataType.INT32: INT32,
    DataType.UINT32: INT32,
    DataType.INT64: INT64,
    DataType.UINT64: INT64,
}
"""Element types of the comparison kernels; signedness is handled by the rank."""

KERNELS = tuple(
    Kernel(function, element)
    for element in dict.fromkeys(ELEMENTS.values())
    for function in (rows.rows, columns.columns, rows.finish)
)


def prepare(plan: Plan) -> Job:
    last = plan.attributes.AxisDirection is AxisDirection.DECREASING
    return winner_job(plan, least=plan.operator.name == "ARGMIN", last=last, index=True)


def winner_job(plan: Plan, *, least: bool, last: bool, index: bool) -> Job:
    """Returns the job that finds the least or greatest elements, or their first or last positions."""
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    layout = reduction_layout(source, target, plan.attributes.Axes)
    if not layout.reduced:
        return ArrayJob(_zero if index else _copy)
    element, bits = ELEMENTS[source.data_type], source.data_type.bits
    # The labels of a segment's rows are as wide as ranks.
    most_rows = min(COLUMN_UNIT, 1 << 8 * rank_size(element)) if index else COLUMN_UNIT
    work = cut(Search, layout, bits // 8, most_rows=most_rows, wide=WIDEST_TILE_BYTES)
    work.set(
        invert=inversion(source.data_type, least=least),
        last=last,
        index_size=target.data_type.bits // 8 if index else 0,
    )
    # Time is proportional to bytes, while pieces are sized by 32-bit elements.
    visited = max(1, work.elements * bits // 32)
    function = columns.columns if work.by_columns else rows.rows
    first = KernelStep(Kernel(function, element), work.geometry, work.units, visited)
    if work.segments == 1:
        return StepsJob((first,), 0)
    finish = KernelStep(Kernel(rows.finish, element), work.whole, work.outputs, 8 * work.segments)
    return StepsJob((first, finish), 2 * work.outputs * work.segments)


def _zero(source: Array, target: Array) -> None:
    target[...] = 0


def _copy(source: Array, target: Array) -> None:
    target[...] = source


PREPARE = dict.fromkeys(("ARGMIN", "ARGMAX"), prepare)
