"""Fused activations as C for NVRTC, in double."""

from __future__ import annotations

from opwire.fields.member import NestedOperator
from opwire.formulas import Tensor
from opwire.tensor import DataType

from ..formulas.formula import PlanFormula
from ..formulas.resolve import activated_expression
from .formula_source import FormulaSource


def activated_source(activation: NestedOperator | None) -> str:
    """The function ``double activated(double)``: the activation, or the value itself; it needs ``floats``."""
    expression = Tensor("Values") if activation is None else activated_expression(activation, Tensor("Values"))
    formula = PlanFormula(expression, {"Values": DataType.FLOAT64}, DataType.FLOAT64, "Values", {})
    return FormulaSource.of(formula).in_double("activated")
