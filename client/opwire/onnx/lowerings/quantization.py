"""Quantization: with a scale and a zero point for a tensor, for each index along an axis, or for each block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import ml_dtypes
import numpy as np

from ...client.graph_tensors import GraphTensor
from ...tensor import Array, DataType
from ..errors import NotLowered
from ..lowering import MICROSOFT, NodeLowering, lifted, lowers, spread
from ..types import data_type_of, element_type_name

_LINEAR = (DataType.INT8, DataType.UINT8)
"""The types that ELEMENT_WISE_QUANTIZE_LINEAR returns."""


class _Layout(NamedTuple):
    """How a quantized tensor is viewed, and its parameters with it, by sizes of the same rank.

    Attributes:
        sizes: those of the tensor.
        parameters: those of scale and zero point, each 1 or that of the tensor, or one that divides it.
    """

    sizes: Sequence[int]
    parameters: Sequence[int]


def _layout(node: NodeLowering, *, blocks: bool) -> _Layout:
    """Returns how tensor and parameters are viewed.

    Args:
        node: the node, whose first two inputs are the tensor and the scale.
        blocks: whether the operator takes one parameter for several elements; else blocks become a dimension.
    """
    sizes, given = node.sizes(0) or (1,), node.sizes(1)
    block = int(node.attribute("block_size", 0))
    if prod(given) == 1 and not block:
        return _Layout(sizes, (1,) * len(sizes))
    axis = node.axis(node.attribute("axis", 1), len(sizes))
    if not block:
        return _along(sizes, axis, given, flat=not blocks)
    counts = [*sizes]
    if len(given) != len(sizes) or sizes[axis] % block or given[axis] * block != sizes[axis]:
        raise NotLowered(f"its blocks of {block} do not divide the size {sizes[axis]} of axis {axis}")
    if blocks:
        return _Layout(sizes, given)
    counts[axis : axis + 1] = [given[axis], block]
    outer, inner = prod(counts[:axis]), prod(counts[axis + 2 :])
    return _Layout((outer, given[axis], block, inner), (outer, given[axis], 1, inner))


def _along(sizes: Sequence[int], axis: int, given: Sequence[int], *, flat: bool) -> _Layout:
    """Returns the layout of parameters along an axis; dimensions before and after it are merged beyond rank 4."""
    if len(given) != 1 or given[0] != sizes[axis]:
        raise NotLowered(f"its scale has the sizes {list(given)}; axis {axis} of its input has {sizes[axis]} elements")
    if flat and len(sizes) > 4:
        sizes, axis = (1, prod(sizes[:axis]), sizes[axis], prod(sizes[axis + 1 :])), 2
    return _Layout(sizes, [size if i == axis else 1 for i, size in enumerate(sizes)])


def _spread_parameter(tensor: GraphTensor, layout: _Layout) -> GraphTensor:
    return spread(lifted(tensor.reshape(layout.parameters), 4), lifted_sizes(layout.sizes))


def lifted_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Returns sizes with ones before them, up to rank 4."""
    return (*(1,) * (4 - len(sizes)), *sizes)


def _zero_point(node: NodeLowering, data_type: DataType, layout: _Layout) -> GraphTensor:
    """Returns the zero point spread like the tensor; 0 if it is left out, which needs a higher level."""
    if node.has(2):
        return _spread_parameter(node.tensor(2), layout)
    return node.filled(0, data_type, lifted_sizes(layout.sizes))


def _quantized_type(node: NodeLowering) -> DataType:
    """Returns the type to quantize to: that of the zero point, the one that is named, or UINT8."""
    if node.has(2):
        return node.data_type(2)
    named = int(node.attribute("output_dtype", 0))
    found = data_type_of(named) if named else DataType.UINT8
    if found is None:
        raise NotLowered(f"it quantizes to {element_type_name(named)}, which DirectML lacks")
    return found


def quantize(node: NodeLowering) -> GraphTensor:
    """Lowers round(x / y_scale) + y_zero_point, saturated; halves are rounded to even."""
    data_type = _quantized_type(node)
    if data_type.is_packed:
        return _quantize_nibbles(node, data_type)
    layout = _layout(node, blocks=False)
    x = lifted(node.tensor(0).reshape(layout.sizes), 4)
    x = x if x.data_type is DataType.INT32 else node.cast(x, DataType.FLOAT32)
    scale = _spread_parameter(node.cast(node.tensor(1), DataType.FLOAT32), layout)
    zero_point = _zero_point(node, data_type, layout)
    if data_type not in _LINEAR:
        return _quantize_stepwise(node, x, scale, zero_point)
    return node.emit(
        "ELEMENT_WISE_QUANTIZE_LINEAR",
        InputTensor=x,
        ScaleTensor=scale,
        ZeroPointTensor=zero_point,
        OutputTensor=node.desc(data_type, x.sizes),
    )


def _quantize_stepwise(node: NodeLowering, x: GraphTensor, scale: GraphTensor, zero_point: GraphTensor) -> GraphTensor:
    """Quantizes to a type that no operator does; FLOAT32 has all integers of 16 bits."""
    data_type = zero_point.data_type
    if data_type not in (DataType.INT16, DataType.UINT16):
        raise NotLowered(f"it quantizes to {data_type.name}, which DirectML does not")
    quotient = node.emit("ELEMENT_WISE_DIVIDE", ATensor=node.cast(x, DataType.FLOAT32), BTensor=scale)
    rounded = node.emit("ELEMENT_WISE_ROUND", InputTensor=quotient, RoundingMode="HALVES_TO_NEAREST_EVEN")
    moved = node.emit("ELEMENT_WISE_ADD", ATensor=rounded, BTensor=node.cast(zero_point, DataType.FLOAT32))
    least, greatest = data_type.limits
    kept = node.emit("ELEMENT_WISE_CLIP", InputTensor=moved, Min=float(least), Max=float(greatest))
    return node.cast(kept, data_type)


def dequantize(node: NodeLowering) -> GraphTensor:
    """Lowers (x - x_zero_point) * x_scale."""
    named = int(node.attribute("output_dtype", 0))
    wanted = data_type_of(named) if named else node.data_type(1)
    if wanted is None:
        raise NotLowered(f"it returns {element_type_name(named)}, which DirectML lacks")
    data_type = node.data_type(0)
    if data_type.is_packed:
        return _dequantize_nibbles(node, wanted)
    layout = _layout(node, blocks=False)
    x = lifted(node.tensor(0).reshape(layout.sizes), 4)
    found = node.emit(
        "ELEMENT_WISE_DEQUANTIZE_LINEAR",
        InputTensor=x,
        ScaleTensor=_spread_parameter(node.cast(node.tensor(1), DataType.FLOAT32), layout),
        ZeroPointTensor=_zero_point(node, data_type, layout),
        OutputTensor=node.desc(DataType.FLOAT32, x.sizes),
    )
    return node.cast(found, wanted)


def _quantize_nibbles(node: NodeLowering, data_type: DataType) -> GraphTensor:
    x, layout = node.tensor(0), _layout(node, blocks=True)
    scale = node.cast(node.tensor(1), x.data_type).reshape(layout.parameters)
    return node.emit(
        "QUANTIZE",
        InputTensor=x,
        OutputTensor=node.desc(data_type, x.sizes),
        **_tensors(node, scale, data_type, layout),
    )


def _dequantize_nibbles(node: NodeLowering, wanted: DataType) -> GraphTensor:
    x, layout = node.tensor(0), _layout(node, blocks=True)
    scale = node.tensor(1).reshape(layout.parameters)
    found = node.emit(
        "DEQUANTIZE",
        InputTensor=x,
        OutputTensor=node.desc(scale.data_type, x.sizes),
        **_tensors(node, scale, x.data_type, layout),
    )
    return node.cast(found, wanted)


def _tensors(node: NodeLowering, scale: GraphTensor, data_type: DataType, layout: _Layout) -> dict[str, object]:
    """Returns the members for scale and zero point; without one, unsigned types would take the middle of the range."""
    if node.has(2):
        zero_point = node.tensor(2).reshape(layout.parameters)
    elif data_type.limits[0] < 0:
        return {"QuantizationType": "SCALE", "QuantizationTensors": [scale]}
    else:
        zero_point = nibbles(node, np.zeros(layout.parameters, np.uint8))
    return {"QuantizationType": "SCALE_ZERO_POINT", "QuantizationTensors": [scale, zero_point]}


def nibbles(node: NodeLowering, array: Array) -> GraphTensor:
    """Returns a constant of UINT4."""
    return node.graph.constant(array.astype(ml_dtypes.uint4))


def _as_given(lowering: Callable[[NodeLowering], GraphTensor], node: NodeLowering) -> GraphTensor:
    """Returns a result with the sizes of the input."""
    found, sizes = lowering(node), node.sizes(0) or (1,)
    return found if found.sizes == sizes else found.reshape(sizes)


for _domain in ("", MICROSOFT):
    lowers("QuantizeLinear", domain=_domain)(partial(_as_given, quantize))
    lowers("DequantizeLinear", domain=_domain)(partial(_as_given, dequantize))


@lowers("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: NodeLowering) -> list[GraphTensor]:
    x = node.lifted(0)
    found = dynamically_quantized(node, x)
    return [found, found["OutputScaleTensor"], found["OutputZeroPointTensor"]]


def dynamically_quantized(node: NodeLowering, x: GraphTensor) -> GraphTensor:
    """Emits a quantization to UINT8 with scale and zero point from the elements."""
    one = (1,) * len(x.sizes)
    return node.emit(
        "DYNAMIC_QUANTIZE_LINEAR",
        InputTensor=x,
        OutputTensor=node.desc(DataType.UINT8, x.sizes),
        OutputScaleTensor=node.desc(DataType.FLOAT32, one),
        OutputZeroPointTensor=node.desc(DataType.UINT8, one),
    )
