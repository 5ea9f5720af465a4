"""REDUCE: exact arithmetic for floats, wrapping arithmetic for integers, comparisons for extremes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.enums import ReduceFunction
from opwire.tensor import Array, DataType

from ...execution import Arrays, Stop
from .. import exact, logarithm
from .argreduce import write_positions
from .elements import CHUNK, Elements, groups
from .extreme import FIRST_GREATEST, FIRST_LEAST

POSITIONS = {ReduceFunction.ARGMIN: FIRST_LEAST, ReduceFunction.ARGMAX: FIRST_GREATEST}

EXTREMES = {ReduceFunction.MIN: FIRST_LEAST, ReduceFunction.MAX: FIRST_GREATEST}

FLOATS: dict[ReduceFunction, Callable[[exact.Chunks, exact.FloatFormat], exact.Float]] = {
    ReduceFunction.AVERAGE: exact.average,
    ReduceFunction.L1: exact.l1,
    ReduceFunction.L2: exact.l2,
    ReduceFunction.LOG_SUM: logarithm.log_sum,
    ReduceFunction.LOG_SUM_EXP: logarithm.log_sum_exp,
    ReduceFunction.MULTIPLY: exact.multiply,
    ReduceFunction.SUM: exact.exact_sum,
    ReduceFunction.SUM_SQUARE: exact.sum_square,
}

INTEGERS: dict[ReduceFunction, tuple[Callable[[int], int], Callable[[Iterable[int]], int]]] = {
    ReduceFunction.L1: (abs, sum),
    ReduceFunction.MULTIPLY: (int, prod),
    ReduceFunction.SUM: (int, sum),
    ReduceFunction.SUM_SQUARE: (lambda value: value * value, sum),
}
"""The term of each element, and how terms combine."""

CHUNKS = {ReduceFunction.LOG_SUM_EXP: 128, ReduceFunction.MULTIPLY: 1024}
"""Elements between polls of ``stop``, for functions where fewer than usual take milliseconds."""


def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    function, axes = plan.attributes.Function, plan.attributes.Axes
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    if function in POSITIONS:
        write_positions(POSITIONS[function], axes, source, target, stop)
        return
    data_type = plan.inputs["InputTensor"].data_type
    for view, place in groups(axes, source, target):
        elements = Elements(view, stop, CHUNKS.get(function, CHUNK))
        if function in EXTREMES:
            place[...] = EXTREMES[function].winner(elements)[1]
        elif data_type.is_float:
            place[...] = FLOATS[function](elements, exact.FORMATS[data_type])
        else:
            place[...] = _wrapping(function, elements, data_type)


def _wrapping(function: ReduceFunction, elements: Elements, data_type: DataType) -> Array:
    """Returns the result modulo 2**bits as a 0-dimensional array."""
    term, combine = INTEGERS[function]
    result = combine(())
    for values in elements:
        result = combine((result, *map(term, values.tolist()))) % (1 << data_type.bits)
    return np.array(result, f"<u{data_type.dtype.itemsize}").view(data_type.dtype)


KERNELS = {"REDUCE": run}
