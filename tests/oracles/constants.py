"""Tensors generated from a number, in fractions and integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer, fraction_of, oracle

from .movement import attribute_as, number_as, raw

Inputs = Mapping[str, Array]


def _constant(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    desc = plan.outputs["OutputTensor"]
    dtype = desc.data_type.dtype
    return {"OutputTensor": np.full(desc.sizes, attribute_as(plan.attributes.Value, dtype), dtype)}


def _sequence(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    desc = plan.outputs["OutputTensor"]
    dtype = desc.data_type.dtype
    start, delta = plan.attributes.ValueStart, plan.attributes.ValueDelta
    terms = [_term(start, delta, k, dtype) for k in range(desc.element_count)]
    return {"OutputTensor": np.array(terms, dtype).reshape(desc.sizes)}


def _term(start: Any, delta: Any, k: int, dtype: np.dtype[Any]) -> Any:
    if dtype.kind != "f":
        return number_as(start + k * delta, dtype)
    first, step = fraction_of(start), fraction_of(delta)
    if first is None or step is None or first + k * step == 0:
        return dtype.type(start + k * delta)
    return oracle.rounded(first + k * step, dtype)


def _diagonal(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    attributes, desc = plan.attributes, plan.outputs["OutputTensor"]
    dtype = desc.data_type.dtype
    value = attribute_as(attributes.Value, dtype)
    result = np.zeros(desc.sizes, dtype)
    for at in np.ndindex(desc.sizes):
        if at[-2] + attributes.Offset == at[-1]:
            result[at] = value
    return {"OutputTensor": result}


def _band(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    attributes, desc = plan.attributes, plan.outputs["OutputTensor"]
    dtype = desc.data_type.dtype
    value = raw(np.array([attribute_as(attributes.Value, dtype)]))[0]
    given = inputs.get("InputTensor")
    result = np.zeros(desc.sizes, value.dtype) if given is None else raw(given).copy()
    begin, end = attributes.DiagonalFillBegin, attributes.DiagonalFillEnd
    for at in np.ndindex(desc.sizes):
        diagonal = at[-1] - at[-2]
        if (begin <= diagonal < end) if begin <= end else not (end <= diagonal < begin):
            result[at] = value
    return {"OutputTensor": result.view(dtype)}


EXPECTED = {
    "FILL_VALUE_CONSTANT": _constant,
    "FILL_VALUE_SEQUENCE": _sequence,
    "DIAGONAL_MATRIX": _diagonal,
    "DIAGONAL_MATRIX1": _band,
}
