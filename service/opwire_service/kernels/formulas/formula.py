"""The resolved formula of a plan, with the data types and arrays it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opwire.check import Plan
from opwire.formulas import ChannelValue, Expression, InputElement, Operation
from opwire.tensor import Array, DataType

from .resolve import resolve


@dataclass(frozen=True, slots=True)
class PlanFormula:
    """The elementwise computation of a plan.

    Attributes:
        expression: the resolved formula.
        inputs: data types of the tensors it names, including those of ``channels``.
        output: data type of the result.
        output_name: name of the output.
        channels: per-channel numbers of the desc, as FLOAT32 arrays that broadcast.
    """

    expression: Expression
    inputs: Mapping[str, DataType]
    output: DataType
    output_name: str
    channels: Mapping[str, Array]


def formula_of(plan: Plan) -> PlanFormula:
    """Returns the formula of a plan whose operator has one."""
    formula = plan.operator.formula
    assert formula is not None
    (name, target), *_ = plan.outputs.items()
    inputs = {name: desc.data_type for name, desc in plan.inputs.items()}
    channels = {
        name: np.array(getattr(plan.attributes, name), np.float32).reshape(-1, *(1,) * (target.rank - 2))
        for name in _per_channel(formula)
    }
    expression = resolve(formula, lambda name: getattr(plan.attributes, name), inputs)
    return PlanFormula(
        expression,
        {**inputs, **dict.fromkeys(channels, DataType.FLOAT32)},
        target.data_type,
        name,
        channels,
    )


def _per_channel(formula: Expression) -> set[str]:
    match formula:
        case ChannelValue(name):
            return {name}
        case Operation(_, operands):
            return set().union(*map(_per_channel, operands))
    return set()


def tensors(expression: Expression) -> set[str]:
    """Returns the names of the tensors in a resolved expression."""
    match expression:
        case InputElement(name):
            return {name}
        case Operation(_, operands):
            return set().union(*map(tensors, operands))
    return set()


def primitives(expression: Expression) -> set[str]:
    """Returns the names of the primitives in a resolved expression."""
    match expression:
        case Operation(primitive, operands):
            return {primitive}.union(*map(primitives, operands))
    return set()
