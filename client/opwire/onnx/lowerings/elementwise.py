"""Operators that compute each element by itself."""

from __future__ import annotations

from functools import partial, reduce

from ...client.graph_tensors import GraphTensor
from ..lowering import NodeLowering, broadcast, lowers

_UNARY = {
    "Sqrt": "ELEMENT_WISE_SQRT",
    "Reciprocal": "ELEMENT_WISE_RECIP",
    "Exp": "ELEMENT_WISE_EXP",
    "Log": "ELEMENT_WISE_LOG",
    "Ceil": "ELEMENT_WISE_CEIL",
    "Floor": "ELEMENT_WISE_FLOOR",
    "Neg": "ELEMENT_WISE_NEGATE",
    "Sign": "ELEMENT_WISE_SIGN",
    "Erf": "ELEMENT_WISE_ERF",
    "Sin": "ELEMENT_WISE_SIN",
    "Cos": "ELEMENT_WISE_COS",
    "Tan": "ELEMENT_WISE_TAN",
    "Asin": "ELEMENT_WISE_ASIN",
    "Acos": "ELEMENT_WISE_ACOS",
    "Atan": "ELEMENT_WISE_ATAN",
    "Sinh": "ELEMENT_WISE_SINH",
    "Cosh": "ELEMENT_WISE_COSH",
    "Asinh": "ELEMENT_WISE_ASINH",
    "Acosh": "ELEMENT_WISE_ACOSH",
    "Atanh": "ELEMENT_WISE_ATANH",
}
"""Functions of one tensor, without attributes."""

_BINARY = {
    "Add": "ELEMENT_WISE_ADD",
    "Sub": "ELEMENT_WISE_SUBTRACT",
    "Mul": "ELEMENT_WISE_MULTIPLY",
    "Div": "ELEMENT_WISE_DIVIDE",
}
"""Functions of two tensors that are broadcast, of their data type."""


def _unary(operator: str, node: NodeLowering) -> GraphTensor:
    return node.emit(operator, InputTensor=node.lifted(0))


def _binary(operator: str, node: NodeLowering) -> GraphTensor:
    a, b = broadcast([node.tensor(0), node.tensor(1)])
    return node.emit(operator, ATensor=a, BTensor=b)


for _name, _operator in _UNARY.items():
    lowers(_name)(partial(_unary, _operator))
for _name, _operator in _BINARY.items():
    lowers(_name)(partial(_binary, _operator))


@lowers("Relu")
def relu(node: NodeLowering) -> GraphTensor:
    return node.emit("ACTIVATION_RELU", InputTensor=node.lifted(0))


@lowers("Sum")
def sum_(node: NodeLowering) -> GraphTensor:
    tensors = broadcast(node.tensor(i) for i in range(node.input_count))
    if len(tensors) == 1:
        return tensors[0]
    return reduce(lambda a, b: node.emit("ELEMENT_WISE_ADD", ATensor=a, BTensor=b), tensors)


@lowers("Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze")
def identity(node: NodeLowering) -> GraphTensor:
    """Returns the same elements; the sizes are those that the schema infers."""
    return node.tensor(0)
