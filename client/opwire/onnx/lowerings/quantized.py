"""Operators of ONNX Runtime on quantized tensors, each with its scale and zero point."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import MICROSOFT, NodeLowering, broadcast, lifted, lowers, spread
from .products import matrices, product, quantized_parameters
from .quantization import dynamically_quantized, nibbles
from .windows import members, planar, positions, windows


def _single(node: NodeLowering, i: int) -> GraphTensor | None:
    """Returns a parameter of one element at rank 4, or None if it is left out."""
    return node.tensor(i).reshape(1, 1, 1, 1) if node.has(i) else None


def _singles(node: NodeLowering, **places: int) -> dict[str, GraphTensor | None]:
    """Returns scale and zero point of tensors, given where the scale is among the inputs by the prefix of members."""
    found: dict[str, GraphTensor | None] = {}
    for name, i in places.items():
        found |= {f"{name}ScaleTensor": _single(node, i), f"{name}ZeroPointTensor": _single(node, i + 1)}
    return found


def _dequantized(node: NodeLowering, x: GraphTensor, scale: int) -> GraphTensor:
    """Emits (x - zero point) * scale at rank 4, given where the scale is among the inputs."""
    return node.emit(
        "ELEMENT_WISE_DEQUANTIZE_LINEAR",
        InputTensor=x,
        **_parameters(node, scale, x.sizes, x.data_type),
        OutputTensor=node.desc(DataType.FLOAT32, x.sizes),
    )


def _quantized(node: NodeLowering, x: GraphTensor, scale: int, data_type: DataType) -> GraphTensor:
    return node.emit(
        "ELEMENT_WISE_QUANTIZE_LINEAR",
        InputTensor=x,
        **_parameters(node, scale, x.sizes, data_type),
        OutputTensor=node.desc(data_type, x.sizes),
    )


def _parameters(node: NodeLowering, scale: int, sizes: Sequence[int], data_type: DataType) -> dict[str, GraphTensor]:
    """Returns a scale and a zero point spread over sizes; a zero point that is left out is 0."""
    zero_point = _single(node, scale + 1)
    given = node.tensor(scale).reshape(1, 1, 1, 1)
    return {
        "ScaleTensor": spread(given, sizes),
        "ZeroPointTensor": node.filled(0, data_type, sizes) if zero_point is None else spread(zero_point, sizes),
    }


@lowers("QLinearAdd", domain=MICROSOFT)
def qlinear_add(node: NodeLowering) -> GraphTensor:
    sizes = np.broadcast_shapes(node.sizes(0), node.sizes(3))
    a, b = broadcast([node.tensor(0), node.tensor(3)])
    return node.emit(
        "ELEMENT_WISE_QUANTIZED_LINEAR_ADD",
        ATensor=a,
        BTensor=b,
        OutputTensor=node.desc(a.data_type, a.sizes),
        **_ranked(_singles(node, A=1, B=4, Output=6), len(a.sizes)),
    ).reshape(sizes or (1,))


def _ranked(parameters: dict[str, GraphTensor | None], rank: int) -> dict[str, GraphTensor | None]:
    """Returns parameters of one element at a rank."""
    return {name: None if each is None else each.reshape((1,) * rank) for name, each in parameters.items()}


@lowers("QLinearSigmoid", domain=MICROSOFT)
def qlinear_sigmoid(node: NodeLowering) -> GraphTensor:
    sizes, x = node.sizes(0), _in_one_row(node.tensor(0))
    found = node.emit("ACTIVATION_SIGMOID", InputTensor=_dequantized(node, x, 1))
    return _quantized(node, found, 3, x.data_type).reshape(sizes or (1,))


def _in_one_row(tensor: GraphTensor) -> GraphTensor:
    return tensor.reshape(1, 1, 1, -1) if len(tensor.sizes) > 4 else lifted(tensor, 4)


@lowers("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(node: NodeLowering) -> GraphTensor:
    """Lowers a JOIN of tensors with parameters of their own, each as [outer, 1, joined, inner]."""
    places = range(2, node.input_count, 3)
    axis = node.axis(int(node.attribute("axis")), node.rank(2))
    sizes = list(node.sizes(2))
    sizes[axis] = sum(node.sizes(i)[axis] for i in places)
    outer, inner = prod(sizes[:axis]), prod(sizes[axis + 1 :])
    parts = [_dequantized(node, node.tensor(i).reshape(outer, 1, -1, inner), i + 1) for i in places]
    joined = node.emit("JOIN", InputTensors=parts, Axis=2)
    return _quantized(node, joined, 0, node.data_type(2)).reshape(sizes)


@lowers("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(node: NodeLowering) -> GraphTensor:
    last = bool(node.attribute("channels_last", 0))
    x = _channels_first(node.tensor(0), last=last)
    found = windows(node, x.sizes[2:], node.attribute("kernel_shape"))
    outputs = positions(x.sizes[2:], found, ceil=bool(node.attribute("ceil_mode", 0)))
    viewed = planar(x)
    missing = len(viewed.sizes) - len(x.sizes)
    given = members(found, IncludePadding=bool(node.attribute("count_include_pad", 0)))
    output = (*x.sizes[:2], *(1,) * missing, *outputs)
    y = _average_pooled(node, viewed, output, given)
    return _channels_last(y.reshape((*x.sizes[:2], *outputs)), last=last)


@lowers("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(node: NodeLowering) -> GraphTensor:
    last = bool(node.attribute("channels_last", 0))
    x = _channels_first(node.tensor(0), last=last)
    viewed = planar(x, 4)
    count = len(viewed.sizes) - 2
    arrays = {"Strides": 1, "Dilations": 1, "StartPadding": 0, "EndPadding": 0}
    given: dict[str, object] = {name: [value] * count for name, value in arrays.items()}
    given |= {"WindowSize": list(viewed.sizes[2:]), "IncludePadding": False}
    y = _average_pooled(node, viewed, (*x.sizes[:2], *(1,) * count), given)
    return _channels_last(y.reshape((*x.sizes[:2], *(1,) * (len(x.sizes) - 2))), last=last)


def _average_pooled(node: NodeLowering, x: GraphTensor, output: Sequence[int], given: dict[str, object]) -> GraphTensor:
    return node.emit(
        "QUANTIZED_LINEAR_AVERAGE_POOLING",
        InputTensor=x,
        OutputTensor=node.desc(x.data_type, output),
        **_singles(node, Input=1, Output=3),
        **given,
    )


def _channels_first(tensor: GraphTensor, *, last: bool) -> GraphTensor:
    """Returns a view of a tensor whose channels are last with the channels after the batch."""
    rank = len(tensor.sizes)
    return tensor.transpose(0, rank - 1, *range(1, rank - 1)) if last else tensor


def _channels_last(tensor: GraphTensor, *, last: bool) -> GraphTensor:
    return tensor.transpose(0, *range(2, len(tensor.sizes)), 1) if last else tensor


@lowers("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(node: NodeLowering) -> GraphTensor:
    """Lowers (A - zero point) (B - zero point), times both scales, plus a bias."""
    a, b = matrices(node.tensor(0), node.tensor(1))
    parameters = {
        **quantized_parameters(node, "A", (2, 4), -2, a.sizes[2]),
        **quantized_parameters(node, "B", (3, 5), -1, b.sizes[3]),
    }
    return _product_of_integers(node, a, b, parameters, node.optional(6))


@lowers("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(node: NodeLowering) -> GraphTensor:
    """Lowers a product of A, quantized by its own range, with B; plus a bias."""
    a, b = matrices(node.tensor(0), node.tensor(1))
    quantized = dynamically_quantized(node, a)
    parameters = {
        "AScaleTensor": quantized["OutputScaleTensor"],
        "AZeroPointTensor": quantized["OutputZeroPointTensor"],
        **quantized_parameters(node, "B", (2, 3), -1, b.sizes[3]),
    }
    return _product_of_integers(node, quantized, b, parameters, node.optional(4))


def _product_of_integers(
    node: NodeLowering, a: GraphTensor, b: GraphTensor, parameters: dict[str, GraphTensor], bias: GraphTensor | None
) -> GraphTensor:
    sizes = (*a.sizes[:3], b.sizes[3])
    found = node.emit(
        "MATRIX_MULTIPLY_INTEGER_TO_FLOAT",
        ATensor=a,
        BTensor=b,
        BiasTensor=None if bias is None else spread(lifted(bias, 4), sizes),
        OutputTensor=node.desc(parameters["AScaleTensor"].data_type, sizes),
        **parameters,
    )
    return found.reshape(_product_sizes(node.sizes(0), node.sizes(1)))


def _product_sizes(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """Returns the sizes of a product of matrices, of at least one dimension."""
    batch = np.broadcast_shapes(tuple(a[:-2]), tuple(b[:-2]))
    return (*batch, *(a[-2:-1]), *(b[-1:] if len(b) > 1 else ())) or (1,)


@lowers("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(node: NodeLowering) -> GraphTensor:
    """Lowers A B^T + bias for weights B of [N, K] with a scale, and a zero point, for each block of a row."""
    k, n = (int(node.attribute(name)) for name in ("K", "N"))
    bits, block = int(node.attribute("bits", 4)), int(node.attribute("block_size"))
    if bits not in (4, 8) or k % block or node.has(4):
        raise NotLowered(f"it has {bits} bits, blocks of {block} for {k} columns" + " in another order" * node.has(4))
    blocks = k // block
    weights = _unpacked(node, 1, bits, (n, k))
    scale = node.tensor(2).reshape(n, blocks)
    kind, tensors = "SCALE", [scale]  # without zero points, those are the middle of the range
    if node.has(3):
        if node.data_type(3) is not DataType.UINT8:
            raise NotLowered(f"its zero points are {node.data_type(3).name}, and DirectML takes those of the weights")
        kind, tensors = "SCALE_ZERO_POINT", [scale, _unpacked(node, 3, bits, (n, blocks))]
    output = node.desc(scale.data_type, (n, k))
    b = node.emit(
        "DEQUANTIZE", InputTensor=weights, QuantizationType=kind, QuantizationTensors=tensors, OutputTensor=output
    )
    a = node.tensor(0)
    found = product(node, a.reshape(1, 1, -1, k), lifted(b, 4), node.optional(5))
    return found.reshape(*a.sizes[:-1], n)


def _unpacked(node: NodeLowering, i: int, bits: int, sizes: tuple[int, int]) -> GraphTensor:
    """Returns rows of numbers, which start at a whole byte; the lower half of a byte comes first."""
    rows, count = sizes
    if bits == 8:
        return node.tensor(i).reshape(sizes)
    given = node.constant(i).reshape(rows, -1)
    halves = np.stack([given & 15, given >> 4], -1).reshape(rows, -1)
    return nibbles(node, halves[:, :count])
