"""Generates C for NVRTC from fused activations, in double."""

from __future__ import annotations

from opwire.fields.member import NestedOperator
from opwire.formulas import InputElement
from opwire.tensor import DataType

from ..formulas.formula import PlanFormula
from ..formulas.resolve import activated_expression
from .formula_source import Body, FormulaSource


def activated_source(activation: NestedOperator | None) -> str:
    """Returns the function ``double activated(double)``, the activation or the identity; it needs ``floats``."""
    expression = (
        InputElement("Values") if activation is None else activated_expression(activation, InputElement("Values"))
    )
    formula = PlanFormula(expression, {"Values": DataType.FLOAT64}, DataType.FLOAT64, "Values", {})
    body = Body()
    value = FormulaSource.of(formula).double_value(expression, body)
    lines = "\n".join([*body.lines, f"    return {value};"])
    return f"static __device__ double activated(double x0) {{\n{lines}\n}}\n"
