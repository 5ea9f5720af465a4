"""ARGMIN and ARGMAX, also as functions of REDUCE."""

from __future__ import annotations

from typing import Any

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array, DataType

from ...layout import reduction_layout
from ..jit.compiler import Kernel
from ..jit.element import FLOAT32, HALF, INT8, INT16, INT32, INT64
from ..run.job import ArrayJob, Job, KernelStep, StepsJob
from ..run.tiling import ReductionTiling, cut
from . import extreme_rows, index_columns, value_columns
from . import parameters as p
from .column_tiles import by_tiles, of_segments
from .labeled_columns import GROUP
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

TILE_BYTES = 1 << 14
"""Size of the ranks in a tile of columns, in bytes: half of the L1 cache. Labels need as much again."""

INDEXED_BYTES = 1 << 12
"""Columns of bytes in a tile: narrower tiles have rows a page apart, and in wider ones indices fill the cache."""

LEAST_GROUPED, LEAST_GROUPED_FAR = 1 << 11, 1 << 12
"""Column sizes, in bytes, from which rows share labels in groups: for one segment and for several."""

LEAST_TILE = 256
"""Columns worth a unit of their own where there are few rows."""

KERNELS = tuple(
    Kernel(function, element)
    for element in dict.fromkeys(ELEMENTS.values())
    for function in (
        extreme_rows.rows,
        extreme_rows.finish,
        index_columns.columns,
        index_columns.finish,
        value_columns.columns,
    )
)


def prepare(plan: Plan) -> Job:
    last = plan.attributes.AxisDirection is AxisDirection.DECREASING
    return extreme_job(plan, least=plan.operator.name == "ARGMIN", last=last, index=True)


def extreme_job(plan: Plan, *, least: bool, last: bool, index: bool) -> Job:
    """Returns the job that finds the least or greatest elements, or their first or last positions."""
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    layout = reduction_layout(source, target, plan.attributes.Axes)
    if not layout.reduced:
        return ArrayJob(_zero if index else _copy)
    parameters = {
        p.INVERT: inversion(source.data_type, least=least),
        p.LAST: int(last),
        p.INDEX_SIZE: target.data_type.bits // 8 if index else 0,
    }
    data_type = source.data_type
    element = ELEMENTS[data_type]
    work = cut(layout, data_type.bits // 8, parameters)
    if not work.by_columns:
        return _rows_job(work, data_type)
    size = rank_size(element)
    if index:
        columns = INDEXED_BYTES if size == 1 else TILE_BYTES // 2 // size
        return _positions_job(by_tiles(layout, columns, 8, parameters), data_type)
    return _values_job(by_tiles(layout, TILE_BYTES // size, 32, parameters), data_type, parameters)


def _step(function: Any, work: ReductionTiling, data_type: DataType, *, reads_states: bool = False) -> KernelStep:
    # Time is proportional to bytes, while pieces are sized by 32-bit elements.
    visited = max(1, work.elements * data_type.bits // 32)
    return KernelStep(Kernel(function, ELEMENTS[data_type]), work.geometry, work.units, visited, reads_states)


def _rows_job(work: ReductionTiling, data_type: DataType) -> Job:
    """Returns the row job; each of several segments leaves (key, index or element)."""
    first = _step(extreme_rows.rows, work, data_type)
    if work.segments == 1:
        return StepsJob((first,), 0)
    finish = KernelStep(Kernel(extreme_rows.finish, ELEMENTS[data_type]), work.whole, work.outputs, 8 * work.segments)
    return StepsJob((first, finish), 2 * work.outputs * work.segments)


def _group(work: ReductionTiling, data_type: DataType) -> int:
    """Returns the number of rows per label: ``GROUP`` or 1. Groups must not extend across runs."""
    pays = LEAST_GROUPED if work.segments == 1 else LEAST_GROUPED_FAR
    return GROUP if len(work.layout.reduced) == 1 and work.layout.reduced_count * data_type.bits // 8 >= pays else 1


def _positions_job(work: ReductionTiling, data_type: DataType) -> Job:
    """Returns the job that finds the winners of columns, then the best of all segments."""
    work.geometry[p.GROUP_ROWS] = _group(work, data_type)
    first = _step(index_columns.columns, work, data_type)
    if work.segments == 1:
        return StepsJob((first,), 0)
    kernel = Kernel(index_columns.finish, ELEMENTS[data_type])
    finish = KernelStep(kernel, work.geometry, work.outputs, 32 * (work.segments + GROUP))
    return StepsJob((first, finish), 2 * work.outputs * work.segments)


def _values_job(work: ReductionTiling, data_type: DataType, parameters: dict[int, int]) -> Job:
    """Returns the job that reduces columns, then the elements left by their segments."""
    first = _step(value_columns.columns, work, data_type)
    if work.segments == 1:
        return StepsJob((first,), 0)
    again = by_tiles(of_segments(work), LEAST_TILE, 0, parameters)
    second = _step(value_columns.columns, again, data_type, reads_states=True)
    return StepsJob((first, second), -(-work.outputs * work.segments * data_type.bits // 64))


def _zero(source: Array, target: Array) -> None:
    target[...] = 0


def _copy(source: Array, target: Array) -> None:
    target[...] = source


PREPARE = dict.fromkeys(("ARGMIN", "ARGMAX"), prepare)
