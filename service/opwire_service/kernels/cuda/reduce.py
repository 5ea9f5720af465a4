"""REDUCE: which accumulator a function of a data type has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from opwire.check import Plan
from opwire.operators.reduce import ReduceFunction
from opwire.tensor import Array, DataType

from ...devices.device import Stop
from .. import exact, logarithm
from ..reference.elements import CHUNK, Elements
from .argreduce import extreme
from .reduction import Accumulator, Reduction

POSITIONS = {ReduceFunction.ARGMAX: True, ReduceFunction.ARGMIN: False}

EXTREMES = {ReduceFunction.MAX: True, ReduceFunction.MIN: False}
"""Function -> whether the greatest element wins."""

_SUM_MACROS = ("SQUARED", "MAGNITUDE", "LOGARITHM", "ROOT", "MEAN")

SUMS: dict[ReduceFunction, tuple[str, ...]] = {
    ReduceFunction.AVERAGE: ("MEAN",),
    ReduceFunction.L1: ("MAGNITUDE",),
    ReduceFunction.L2: ("SQUARED", "ROOT"),
    ReduceFunction.LOG_SUM: ("LOGARITHM",),
    ReduceFunction.SUM: (),
    ReduceFunction.SUM_SQUARE: ("SQUARED",),
}
"""Function -> the macros of ``sums`` that are set."""

EXACT: dict[ReduceFunction, Callable[[exact.Chunks, exact.FloatFormat], exact.Float]] = {
    ReduceFunction.AVERAGE: exact.average,
    ReduceFunction.L1: exact.l1,
    ReduceFunction.L2: exact.l2,
    ReduceFunction.LOG_SUM: logarithm.log_sum,
    ReduceFunction.MULTIPLY: exact.multiply,
    ReduceFunction.SUM: exact.exact_sum,
    ReduceFunction.SUM_SQUARE: exact.sum_square,
}

INTEGERS: dict[ReduceFunction, tuple[str, str, int]] = {
    ReduceFunction.L1: ("(x < 0 ? U(0) - U(x) : U(x))", "a + b", 0),
    ReduceFunction.MULTIPLY: ("U(x)", "a * b", 1),
    ReduceFunction.SUM: ("U(x)", "a + b", 0),
    ReduceFunction.SUM_SQUARE: ("U(x) * U(x)", "a + b", 0),
}
"""Function -> what an element x becomes, how two results combine, and the result of nothing."""


def job(plan: Plan, processors: int) -> Reduction:
    """The job of a plan of REDUCE."""
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    accumulator = _accumulator(plan.attributes.Function, source.data_type)
    return Reduction(source, target, plan.attributes.Axes, accumulator, processors)


def _accumulator(function: ReduceFunction, data_type: DataType) -> Accumulator:
    if function in POSITIONS:
        return extreme(data_type, greatest=POSITIONS[function], first=True, position=True)
    if function in EXTREMES:
        return extreme(data_type, greatest=EXTREMES[function], first=True, position=False)
    if not data_type.is_float:
        term, combine, start = INTEGERS[function]
        macros = ("UNSIGNED", f"u{data_type.bits}"), ("TERM", term), ("COMBINE", combine), ("START", start)
        return Accumulator("integers", data_type.bits // 8, macros)
    half = data_type is DataType.FLOAT16
    format_ = ("HALF", int(half))
    if function is ReduceFunction.LOG_SUM_EXP:
        quick = Accumulator(
            "log_sum_exp_quick", 16, (format_,), row_batch=8 if half else 4, row_blocks=4 if half else 6, column_batch=8
        )
        return Accumulator("log_sum_exp", 32, (), most_lanes=4, row_blocks=2, column_blocks=2, quick=quick)
    recompute = partial(_recompute, EXACT[function], exact.FORMATS[data_type])
    if function is ReduceFunction.MULTIPLY:
        careful = Accumulator("product", 32, (format_,), recompute, most_lanes=4, column_blocks=2)
        return replace(careful, quick=replace(careful, column_batch=8 if half else 4, column_blocks=4))
    flags = tuple((name, int(name in SUMS[function])) for name in _SUM_MACROS)
    careful = Accumulator("sums", 24, (format_, *flags), recompute)
    return replace(careful, quick=careful) if "SQUARED" in SUMS[function] else careful


def _recompute(
    compute: Callable[[exact.Chunks, exact.FloatFormat], exact.Float],
    to: exact.FloatFormat,
    elements: Array,
    stop: Stop,
) -> exact.Float:
    return compute(Elements(elements, stop, CHUNK), to)
