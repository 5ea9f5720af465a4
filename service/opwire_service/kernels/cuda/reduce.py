"""REDUCE: the accumulator for each function and data type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from opwire.check import Plan
from opwire.enums import ReduceFunction
from opwire.tensor import Array, DataType

from ...execution import Stop
from .. import exact, logarithm
from ..formulas import coefficients
from ..reference.elements import CHUNK, Elements
from .argreduce import extreme
from .job import Card
from .pair_source import single
from .reduction import Accumulator, Reduction, Tuning

POSITIONS = {ReduceFunction.ARGMAX: True, ReduceFunction.ARGMIN: False}

EXTREMES = {ReduceFunction.MAX: True, ReduceFunction.MIN: False}
"""Maps a function to whether the greatest element wins."""

_SUM_MACROS = ("SQUARED", "MAGNITUDE", "LOGARITHM", "ROOT", "MEAN")

SUMS: dict[ReduceFunction, tuple[str, ...]] = {
    ReduceFunction.AVERAGE: ("MEAN",),
    ReduceFunction.L1: ("MAGNITUDE",),
    ReduceFunction.L2: ("SQUARED", "ROOT"),
    ReduceFunction.LOG_SUM: ("LOGARITHM",),
    ReduceFunction.SUM: (),
    ReduceFunction.SUM_SQUARE: ("SQUARED",),
}
"""Maps a function to the macros of ``sums`` that are set."""

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
"""Maps a function to the term of an element x, the operation that combines two results, and the initial value."""

_TERMS = tuple((f"TERM{6 - i}", single(each)) for i, each in enumerate(coefficients.EXP_REST_OF_FLOATS))
"""Macros of ``log_sum_exp_quick``: terms of the rest of the exponential."""

SETTLING_EXPONENTIALS = Tuning(row_blocks=2, column_blocks=2)
SETTLING_PRODUCT = Tuning(column_blocks=2)
"""Tunings of the accumulators that settle what quick passes leave undecided; these need many registers."""

TUNINGS: dict[tuple[str, DataType], Tuning] = {
    ("sums", DataType.FLOAT32): Tuning(),
    ("sums", DataType.FLOAT16): Tuning(lanes=4, column_batch=8, row_blocks=5),
    ("squares", DataType.FLOAT32): Tuning(row_batch=8),
    ("squares", DataType.FLOAT16): Tuning(lanes=4, column_batch=8, row_blocks=5),
    ("product", DataType.FLOAT32): Tuning(row_batch=8),
    ("product", DataType.FLOAT16): Tuning(lanes=4, row_batch=8, column_batch=8, column_blocks=3),
    ("log_sum_exp", DataType.FLOAT32): Tuning(row_batch=8, column_batch=8),
    ("log_sum_exp", DataType.FLOAT16): Tuning(lanes=4, row_batch=8, column_batch=8),
}
"""Tunings of the accumulators that compute most float results: the fastest ones measured on an H200."""


def job(plan: Plan, card: Card) -> Reduction:
    """Returns the job of a REDUCE plan."""
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    accumulator = accumulator_of(plan.attributes.Function, source.data_type, in_floats=card.prefers_pairs)
    return Reduction(source, target, plan.attributes.Axes, accumulator, card.processors)


def accumulator_of(function: ReduceFunction, data_type: DataType, *, in_floats: bool) -> Accumulator:
    """Returns the accumulator of a function.

    Args:
        function: the function.
        data_type: the type of the elements.
        in_floats: whether floats add faster than doubles, however carefully.
    """
    if function in POSITIONS:
        return extreme(data_type, greatest=POSITIONS[function], first=True, position=True)
    if function in EXTREMES:
        return extreme(data_type, greatest=EXTREMES[function], first=True, position=False)
    if not data_type.is_float:
        term, combine, start = INTEGERS[function]
        macros = ("UNSIGNED", f"u{data_type.bits}"), ("TERM", term), ("COMBINE", combine), ("START", start)
        return Accumulator("integers", data_type.bits // 8, macros)
    format_ = ("HALF", int(data_type is DataType.FLOAT16))
    floats = ("FLOATS", int(in_floats))
    needs = ("float_sums",) if in_floats else ()
    if function is ReduceFunction.LOG_SUM_EXP:
        tuning = TUNINGS["log_sum_exp", data_type]
        quick = Accumulator("log_sum_exp_quick", 16, (format_, floats, *_TERMS), tuning=tuning, needs=needs)
        return Accumulator("log_sum_exp", 32, (), tuning=SETTLING_EXPONENTIALS, quick=quick)
    settle = partial(_settle, EXACT[function], exact.FORMATS[data_type])
    if function is ReduceFunction.MULTIPLY:
        quick = Accumulator("product", 32, (format_,), settle, tuning=TUNINGS["product", data_type])
        return Accumulator("product", 32, (format_,), settle, tuning=SETTLING_PRODUCT, quick=quick)
    flags = (format_, floats, *((name, int(name in SUMS[function])) for name in _SUM_MACROS))
    if "SQUARED" not in SUMS[function]:
        return Accumulator("sums", 24, flags, settle, tuning=TUNINGS["sums", data_type], needs=needs)
    settling = Accumulator("sums", 24, flags, settle, needs=needs)
    return replace(settling, quick=replace(settling, tuning=TUNINGS["squares", data_type]))


def _settle(
    compute: Callable[[exact.Chunks, exact.FloatFormat], exact.Float],
    to: exact.FloatFormat,
    elements: Array,
    stop: Stop,
) -> exact.Float:
    return compute(Elements(elements, stop, CHUNK), to)


JOBS = dict.fromkeys(("REDUCE",), job)
