"""The formula of a plan: resolved, with the data types and the arrays that it reads."""

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
    """What a plan computes for each element.

    Attributes:
        expression: resolved.
        inputs: the data types of the tensors that it names, those of ``channels`` included.
        output: the data type of the result.
        output_name: of the one output.
        channels: numbers of the desc that belong to channels, as FLOAT32 arrays that broadcast.
    """

    expression: Expression
    inputs: Mapping[str, DataType]
    output: DataType
    output_name: str
    channels: Mapping[str, Array]


def formula_of(plan: Plan) -> PlanFormula:
    """The formula of a plan of an operator that has one."""
    formula = plan.operator.formula
    assert formula is not None
    (name, target), *_ = plan.outputs.items()
    inputs = {name: desc.data_type for name, desc in plan.inputs.items()}
    first = next(iter(inputs.values()))
    channels = {
        name: np.array(getattr(plan.attributes, name), np.float32).reshape(-1, *(1,) * (target.rank - 2))
        for name in _per_channel(formula)
    }
    expression = resolve(formula, lambda name: getattr(plan.attributes, name), first)
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
    """The names of the tensors in a resolved expression."""
    match expression:
        case InputElement(name):
            return {name}
        case Operation(_, operands):
            return set().union(*map(tensors, operands))
    return set()


def primitives(expression: Expression) -> set[str]:
    """The names of what is called in a resolved expression."""
    match expression:
        case Operation(primitive, operands):
            return {primitive}.union(*map(primitives, operands))
    return set()
