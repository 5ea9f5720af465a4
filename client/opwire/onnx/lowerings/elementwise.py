"""Arithmetic, comparisons, logic and bits: operators that compute each element by itself, and are broadcast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any

import numpy as np

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, broadcast, lifted, lowers

_UNARY: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "Sqrt": ("ELEMENT_WISE_SQRT", {}),
    "Reciprocal": ("ELEMENT_WISE_RECIP", {}),
    "Exp": ("ELEMENT_WISE_EXP", {}),
    "Log": ("ELEMENT_WISE_LOG", {}),
    "Ceil": ("ELEMENT_WISE_CEIL", {}),
    "Floor": ("ELEMENT_WISE_FLOOR", {}),
    "Round": ("ELEMENT_WISE_ROUND", {"RoundingMode": "HALVES_TO_NEAREST_EVEN"}),
    "Sign": ("ELEMENT_WISE_SIGN", {}),
    "Erf": ("ELEMENT_WISE_ERF", {}),
    "Sin": ("ELEMENT_WISE_SIN", {}),
    "Cos": ("ELEMENT_WISE_COS", {}),
    "Tan": ("ELEMENT_WISE_TAN", {}),
    "Asin": ("ELEMENT_WISE_ASIN", {}),
    "Acos": ("ELEMENT_WISE_ACOS", {}),
    "Atan": ("ELEMENT_WISE_ATAN", {}),
    "Sinh": ("ELEMENT_WISE_SINH", {}),
    "Cosh": ("ELEMENT_WISE_COSH", {}),
    "Asinh": ("ELEMENT_WISE_ASINH", {}),
    "Acosh": ("ELEMENT_WISE_ACOSH", {}),
    "Atanh": ("ELEMENT_WISE_ATANH", {}),
    "BitwiseNot": ("ELEMENT_WISE_BIT_NOT", {}),
    "Not": ("ELEMENT_WISE_LOGICAL_NOT", {}),
}
"""Functions of one tensor, of its data type, with the members of the desc that do not depend on the node."""

_BINARY = {
    "Add": "ELEMENT_WISE_ADD",
    "Sub": "ELEMENT_WISE_SUBTRACT",
    "Mul": "ELEMENT_WISE_MULTIPLY",
    "Div": "ELEMENT_WISE_DIVIDE",
    "BitwiseAnd": "ELEMENT_WISE_BIT_AND",
    "BitwiseOr": "ELEMENT_WISE_BIT_OR",
    "BitwiseXor": "ELEMENT_WISE_BIT_XOR",
    "And": "ELEMENT_WISE_LOGICAL_AND",
    "Or": "ELEMENT_WISE_LOGICAL_OR",
    "Xor": "ELEMENT_WISE_LOGICAL_XOR",
}
"""Functions of two tensors that are broadcast, of their data type."""

_COMPARISONS = {
    "Equal": "ELEMENT_WISE_LOGICAL_EQUALS",
    "Greater": "ELEMENT_WISE_LOGICAL_GREATER_THAN",
    "Less": "ELEMENT_WISE_LOGICAL_LESS_THAN",
    "GreaterOrEqual": "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL",
    "LessOrEqual": "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL",
}
"""Comparisons of two tensors that are broadcast."""

_VARIADIC = {"Sum": "ELEMENT_WISE_ADD", "Max": "ELEMENT_WISE_MAX", "Min": "ELEMENT_WISE_MIN"}
"""Functions of one tensor or more, which are broadcast, as a chain of functions of two."""


def _unary(operator: str, members: Mapping[str, Any], node: NodeLowering) -> GraphTensor:
    return node.emit(operator, InputTensor=node.lifted(0), **members)


def _operands(node: NodeLowering) -> list[GraphTensor]:
    """Returns the two inputs with common sizes.

    Raises:
        NotLowered: they are broadcast as before opset 7.
    """
    if node.attribute("broadcast"):
        raise NotLowered("it is broadcast along an axis, as before opset 7")
    return broadcast([node.tensor(0), node.tensor(1)])


def _binary(operator: str, node: NodeLowering) -> GraphTensor:
    a, b = _operands(node)
    return node.emit(operator, ATensor=a, BTensor=b)


def compared(node: NodeLowering, operator: str, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    """Adds a comparison of two tensors of the same sizes; its results are booleans, that is bytes."""
    return node.emit(operator, ATensor=a, BTensor=b, OutputTensor=node.desc(DataType.UINT8, a.sizes))


def _comparison(operator: str, node: NodeLowering) -> GraphTensor:
    return compared(node, operator, *_operands(node))


def _chain(operator: str, node: NodeLowering) -> GraphTensor:
    tensors = broadcast(node.tensor(i) for i in range(node.input_count))
    return reduce(lambda a, b: node.emit(operator, ATensor=a, BTensor=b), tensors)


def _register() -> None:
    for name, (operator, members) in _UNARY.items():
        lowers(name)(partial(_unary, operator, members))
    tables: list[tuple[Mapping[str, str], Callable[[str, NodeLowering], GraphTensor]]] = [
        (_BINARY, _binary),
        (_COMPARISONS, _comparison),
        (_VARIADIC, _chain),
    ]
    for table, lowering in tables:
        for name, operator in table.items():
            lowers(name)(partial(lowering, operator))


_register()


@lowers("Mean")
def mean(node: NodeLowering) -> GraphTensor:
    """Lowers the mean: MEAN has two operands; of more, the sum is divided."""
    if node.input_count == 2:
        return _chain("ELEMENT_WISE_MEAN", node)
    total = _chain("ELEMENT_WISE_ADD", node)
    if node.input_count == 1:
        return total
    count = node.filled(node.input_count, total.data_type, total.sizes)
    return node.emit("ELEMENT_WISE_DIVIDE", ATensor=total, BTensor=count)


@lowers("Neg")
def neg(node: NodeLowering) -> GraphTensor:
    """Lowers the negation: a scale of -1 for floats, which lower levels have. The bias keeps the sign of zeros."""
    x = node.lifted(0)
    if x.data_type.is_float:
        return node.emit("ELEMENT_WISE_IDENTITY", InputTensor=x, ScaleBias={"Scale": -1.0, "Bias": -0.0})
    return node.emit("ELEMENT_WISE_NEGATE", InputTensor=x)


@lowers("Abs")
def abs_(node: NodeLowering) -> GraphTensor:
    x = node.lifted(0)
    is_unsigned = not x.data_type.is_float and x.data_type.limits[0] == 0
    return x if is_unsigned else node.emit("ELEMENT_WISE_ABS", InputTensor=x)


@lowers("IsNaN")
def is_nan(node: NodeLowering) -> GraphTensor:
    x = node.lifted(0)
    return node.emit("ELEMENT_WISE_IS_NAN", InputTensor=x, OutputTensor=node.desc(DataType.UINT8, x.sizes))


@lowers("IsInf")
def is_inf(node: NodeLowering) -> GraphTensor:
    x = node.lifted(0)
    detected = (bool(node.attribute("detect_positive")), bool(node.attribute("detect_negative")))
    booleans = node.desc(DataType.UINT8, x.sizes)
    if not any(detected):
        return node.emit("FILL_VALUE_CONSTANT", ValueDataType="UINT8", Value=0, OutputTensor=booleans)
    mode = {(True, True): "EITHER", (True, False): "POSITIVE", (False, True): "NEGATIVE"}[detected]
    return node.emit("ELEMENT_WISE_IS_INFINITY", InputTensor=x, InfinityMode=mode, OutputTensor=booleans)


@lowers("Mod")
def mod(node: NodeLowering) -> GraphTensor:
    """Lowers the remainder, which has the sign of the divisor, or that of the dividend if ``fmod`` is 1."""
    if node.attribute("fmod"):
        return _binary("ELEMENT_WISE_MODULUS_TRUNCATE", node)
    if node.data_type(0).is_float and not (node.is_constant(1) and np.isfinite(node.constant(1)).all()):
        raise NotLowered("its divisor may be infinite, for which DirectML has no remainder")
    return _binary("ELEMENT_WISE_MODULUS_FLOOR", node)


@lowers("BitShift")
def bit_shift(node: NodeLowering) -> GraphTensor:
    return _binary(f"ELEMENT_WISE_BIT_SHIFT_{node.attribute('direction')}", node)


@lowers("Where")
def where(node: NodeLowering) -> GraphTensor:
    condition, a, b = broadcast([node.tensor(0), node.tensor(1), node.tensor(2)])
    return node.emit("ELEMENT_WISE_IF", ConditionTensor=condition, ATensor=a, BTensor=b)


@lowers("Pow")
def pow_(node: NodeLowering) -> GraphTensor:
    """Lowers the power: a single constant exponent of floats is an attribute of CONSTANT_POW."""
    if node.data_type(0).is_float and node.is_constant(1) and node.constant(1).size == 1:
        x = lifted(node.tensor(0), node.rank(1))
        exponent = float(node.constant(1).reshape(()))
        return node.emit("ELEMENT_WISE_CONSTANT_POW", InputTensor=lifted(x, 4), Exponent=exponent)
    a, b = broadcast([node.tensor(0), _exponent(node)])
    return node.emit("ELEMENT_WISE_POW", InputTensor=a, ExponentTensor=b)


def _exponent(node: NodeLowering) -> GraphTensor:
    """Returns the exponents; constant ones of 64 bits, which POW lacks, in 32 bits where they fit."""
    if node.data_type(1) in (DataType.INT64, DataType.UINT64) and node.is_constant(1):
        array = node.constant(1)
        least, greatest = DataType.INT32.limits
        if array.size and least <= array.min() and array.max() <= greatest:
            return node.graph.constant(array.astype("i4").reshape(array.shape or (1,)))
    return node.tensor(1)


@lowers("Affine")
def affine(node: NodeLowering) -> GraphTensor:
    """Lowers alpha x + beta, an operator of early versions of ONNX."""
    scale = {"Scale": node.attribute("alpha", 1.0), "Bias": node.attribute("beta", 0.0)}
    made = node.emit("ELEMENT_WISE_IDENTITY", InputTensor=node.lifted(0), ScaleBias=scale)
    return made.reshape(node.tensor(0).sizes)


@lowers("ImageScaler")
def image_scaler(node: NodeLowering) -> GraphTensor:
    """Lowers scale x + bias of each channel, an operator of early versions of ONNX."""
    scale, bias = node.attribute("scale", 1.0), node.attribute("bias", [])
    return node.emit("VALUE_SCALE_2D", InputTensor=node.tensor(0), Scale=scale, Bias=bias)
