"""ARGMIN and ARGMAX, also as functions of REDUCE."""

from __future__ import annotations

from opwire.check import Plan
from opwire.operators.argreduce import AxisDirection
from opwire.tensor import Array, DataType

from ..layout import reduction_layout
from . import extreme, extreme_columns
from . import geometry as g
from .compiler import Kernel
from .element import FLOAT32, HALF, INT8, INT16, INT32, INT64
from .job import ArrayJob, Job, Step, StepsJob
from .ranks import inversion
from .reductions import cut

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
"""What an element is to kernels that compare; whether it has a sign is a matter of its rank."""

KERNELS = tuple(
    Kernel(function, element)
    for element in dict.fromkeys(ELEMENTS.values())
    for function in (extreme.rows, extreme.finish, extreme_columns.columns)
)


def prepare(plan: Plan) -> Job:
    last = plan.attributes.AxisDirection is AxisDirection.DECREASING
    return extreme_job(plan, least=plan.operator.name == "ARGMIN", last=last, index=True)


def extreme_job(plan: Plan, *, least: bool, last: bool, index: bool) -> Job:
    """What finds the least or greatest elements, or the first or last positions of them."""
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    layout = reduction_layout(source, target, plan.attributes.Axes)
    if not layout.reduced:
        return ArrayJob(_zero if index else _copy)
    parameters = {
        g.INVERT: inversion(source.data_type, least=least),
        g.LAST: int(last),
        g.INDEX_SIZE: target.data_type.bits // 8 if index else 0,
    }
    work = cut(layout, source.data_type.bits // 8, parameters)
    # Time goes by bytes here, and pieces by elements of 32 bits.
    visited = max(1, work.elements * source.data_type.bits // 32)
    element = ELEMENTS[source.data_type]
    function = extreme_columns.columns if work.by_columns else extreme.rows
    steps = (Step(Kernel(function, element), work.geometry, work.units, visited),)
    if work.segments == 1:
        return StepsJob(steps, 0)
    finish = Step(Kernel(extreme.finish, element), work.whole, work.outputs, work.segments)
    return StepsJob((*steps, finish), 2 * work.outputs * work.segments)


def _zero(source: Array, target: Array) -> None:
    target[...] = 0


def _copy(source: Array, target: Array) -> None:
    target[...] = source
