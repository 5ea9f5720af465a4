"""Fused activations as C: functions of a double, accurate to a few ULPs."""

from __future__ import annotations

import struct

from opwire.fields.member import NestedOperator
from opwire.formulas import Constant, Expression, InputElement, Operation

from ...formulas.resolve import activated_expression
from ..formula_source import Body
from ..primitives import FLOATS, TRUTHS

_VALUE = InputElement("Value")


def activated_source(activation: NestedOperator | None) -> str:
    """Returns the function ``activated`` of ``operands.cu``; without an activation it is the identity.

    Raises:
        ValueError: the activation is not elementwise.
    """
    body = Body()
    result = _value(activated_expression(activation, _VALUE), body)
    lines = [*body.lines, f"    return {result};"]
    return "static __device__ double activated(double x) {\n" + "\n".join(lines) + "\n}\n"


def _value(expression: Expression, body: Body) -> str:
    key = "double", expression
    if key in body.names:
        return body.names[key]
    match expression:
        case InputElement():
            return "x"
        case Constant(number):
            (bits,) = struct.unpack("<Q", struct.pack("<d", number))
            return f"__longlong_as_double({bits:#x}ll)"
        case Operation(primitive, operands):
            given = [_value(operand, body) for operand in operands]
            value = FLOATS[primitive].format(*given) if primitive in FLOATS else f"{primitive}({', '.join(given)})"
            return body.variable(*key, "bool" if primitive in TRUTHS else "double", value)
        case _:
            pass
    raise TypeError(expression)
