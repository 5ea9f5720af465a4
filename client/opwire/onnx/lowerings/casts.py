"""Casts and limits."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, broadcast, lowers, relabelled
from ..types import data_type_of, element_type_name
from .elementwise import compared

_UNSIGNED = {
    DataType.INT8: DataType.UINT8,
    DataType.INT16: DataType.UINT16,
    DataType.INT32: DataType.UINT32,
    DataType.INT64: DataType.UINT64,
}
"""The unsigned type of each signed one."""


@lowers("Cast")
def cast(node: NodeLowering) -> GraphTensor:
    return _cast(node, node.attribute("to"))


@lowers("CastLike")
def cast_like(node: NodeLowering) -> GraphTensor:
    return _cast(node, node.value(1).element_type)


@lowers("BitCast")
def bit_cast(node: NodeLowering) -> GraphTensor:
    """Returns a view of the same bytes as elements of another type."""
    x, to = node.tensor(0), node.attribute("to")
    data_type = data_type_of(to)
    if data_type is None or to == TensorProto.BOOL:  # whose bytes are 0 and 1 in DirectML
        raise NotLowered(f"it casts to {element_type_name(to)}, which DirectML lacks")
    return relabelled(x, data_type)


def _cast(node: NodeLowering, to: int) -> GraphTensor:
    x, data_type = node.lifted(0), data_type_of(to)
    if data_type is None:
        raise NotLowered(f"it casts to {element_type_name(to)}, which DirectML lacks")
    if to == node.value(0).element_type:
        return x
    if to == TensorProto.BOOL:
        return not_zero(node, x)
    if x.data_type.is_float or data_type.is_float:
        return node.cast(x, data_type)
    return _integer(node, x, data_type)


def not_zero(node: NodeLowering, x: GraphTensor) -> GraphTensor:
    """Returns booleans that say which elements are not zero; NaN is not.

    FLOAT64, which is not compared, is zero where all bits but that of the sign are.
    """
    if x.data_type is DataType.FLOAT64:
        bits = relabelled(x, DataType.UINT64)
        magnitude = node.filled(2**63 - 1, DataType.UINT64, x.sizes)
        x = node.emit("ELEMENT_WISE_BIT_AND", ATensor=bits, BTensor=magnitude)
    zeros = node.filled(0, x.data_type, x.sizes)
    return node.emit("ELEMENT_WISE_LOGICAL_NOT", InputTensor=compared(node, "ELEMENT_WISE_LOGICAL_EQUALS", x, zeros))


def _integer(node: NodeLowering, x: GraphTensor, data_type: DataType) -> GraphTensor:
    """Casts integers to integers, of which ONNX keeps the low bits, and CAST only where 8 bits are enough for them."""
    if x.data_type.bits == data_type.bits:
        return relabelled(x, data_type)
    if data_type.bits > 8 or x.data_type.bits <= 8:
        return node.cast(x, data_type)
    unsigned = relabelled(x, _UNSIGNED.get(x.data_type, x.data_type))
    mask = node.filled(255, unsigned.data_type, unsigned.sizes)
    low = node.emit("ELEMENT_WISE_BIT_AND", ATensor=unsigned, BTensor=mask)
    return relabelled(node.cast(low, DataType.UINT8), data_type)


@lowers("Clip")
def clip(node: NodeLowering) -> GraphTensor:
    """Lowers a clip: constant limits are attributes, others operands of MAX and MIN."""
    if node.since < 11:
        return _clipped(node, node.attribute("min"), node.attribute("max"))
    if all(node.is_constant(i) or not node.has(i) for i in (1, 2)):
        least, greatest = (node.constant(i).reshape(()) if node.has(i) else None for i in (1, 2))
        return _clipped(node, least, greatest)
    x = node.lifted(0)
    for i, operator in ((1, "ELEMENT_WISE_MAX"), (2, "ELEMENT_WISE_MIN")):
        if node.has(i):
            a, b = broadcast([x, node.tensor(i)])
            x = node.emit(operator, ATensor=a, BTensor=b)
    return x


def _clipped(node: NodeLowering, least: Any, greatest: Any) -> GraphTensor:
    """Clips to constant limits. A maximum below the minimum is the result everywhere, in DirectML the minimum."""
    x = node.lifted(0)
    low, high = _limits(x.data_type)
    greatest = high if greatest is None else greatest.item() if isinstance(greatest, np.ndarray) else greatest
    least = low if least is None else least.item() if isinstance(least, np.ndarray) else least
    least = min(least, greatest)
    if least == low and greatest == high:
        return x
    form = {"InputTensor": x, "Min": least, "Max": greatest}
    typed = ("ELEMENT_WISE_CLIP1", {**form, "MinMaxDataType": x.data_type.name})
    plain = ("ELEMENT_WISE_CLIP", {**form, "Min": float(least), "Max": float(greatest)})
    # As floats, limits of the type itself round outward, and saturate.
    fits = x.data_type.is_float or all(
        each in (low, high) or float(np.float32(each)) == each for each in (least, greatest)
    )
    return node.emit_lowest(plain, typed) if fits else node.emit(typed[0], **typed[1])


def _limits(data_type: DataType) -> tuple[float, float]:
    if not data_type.is_float:
        return data_type.limits
    greatest = float(np.finfo(data_type.dtype).max)
    return -greatest, greatest
