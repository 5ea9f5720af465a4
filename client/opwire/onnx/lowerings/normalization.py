"""Normalization by mean and variance, or by norms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, lifted, lowers, spread
from .windows import per_channel, planar

_LEAST_NORMAL = 2.0**-126


@lowers("BatchNormalization")
def batch_normalization(node: NodeLowering) -> list[GraphTensor]:
    """Lowers (X - mean) / sqrt(variance + epsilon) * scale + B, with mean and variance given or those of the batch."""
    data_type = node.data_type(0)
    x = planar(node.tensor(0), 4)
    computed = data_type if node.data_type(1) is node.data_type(3) is data_type else DataType.FLOAT32
    given = [node.cast(_of_channels(node, i, x), computed) for i in range(1, 5)]
    x = node.cast(x, computed)
    if node.attribute("training_mode", 0):
        return _trained(node, x, given)
    if any(node.wants(i) for i in range(1, 5)):
        raise NotLowered("it returns mean and variance, so it trains, in a way that later versions do not have")
    scale, bias, mean, variance = given
    found = node.emit(
        "BATCH_NORMALIZATION",
        InputTensor=x,
        MeanTensor=mean,
        VarianceTensor=variance,
        ScaleTensor=scale,
        BiasTensor=bias,
        Spatial=bool(node.attribute("spatial", 1)),
        Epsilon=node.attribute("epsilon", 1e-5),
    )
    return [node.cast(found, data_type)]


def _of_channels(node: NodeLowering, i: int, x: GraphTensor) -> GraphTensor:
    """Returns a parameter with an element for each channel, or for each element of a batch entry (spatial 0)."""
    given = node.tensor(i)
    if given.desc.element_count == x.sizes[1]:
        return per_channel(given, 4)
    return given.reshape(1, *x.sizes[1:])


def _trained(node: NodeLowering, x: GraphTensor, given: Sequence[GraphTensor]) -> list[GraphTensor]:
    """Lowers the training mode; mean and variance move towards those of the batch by 1 - momentum."""
    scale, bias, *running = given
    found = node.emit(
        "BATCH_NORMALIZATION_TRAINING",
        InputTensor=x,
        ScaleTensor=scale,
        BiasTensor=bias,
        Epsilon=node.attribute("epsilon", 1e-5),
    )
    momentum = float(node.attribute("momentum", 0.9))
    current = [found["OutputMeanTensor"], found["OutputVarianceTensor"]]
    moved = [_mixed(node, *each, momentum) for each in zip(running, current, strict=True)]
    types = [node.data_type(0), node.data_type(3), node.data_type(3)]
    return [node.cast(tensor, data_type) for tensor, data_type in zip([found, *moved], types, strict=True)]


def _mixed(node: NodeLowering, a: GraphTensor, b: GraphTensor, share: float) -> GraphTensor:
    """Returns share * a + (1 - share) * b."""
    one, other = (scaled(node, tensor, scale) for tensor, scale in ((a, share), (b, 1 - share)))
    return node.emit("ELEMENT_WISE_ADD", ATensor=one, BTensor=other)


def scaled(node: NodeLowering, tensor: GraphTensor, scale: float, bias: float = 0.0) -> GraphTensor:
    """Returns scale * tensor + bias."""
    return node.emit("ELEMENT_WISE_IDENTITY", InputTensor=tensor, ScaleBias={"Scale": scale, "Bias": bias})


def normalized(
    node: NodeLowering, x: GraphTensor, scale: GraphTensor | None, bias: GraphTensor | None, epsilon: float
) -> GraphTensor:
    """Emits a normalization of rank 4 over the last two dimensions; a scale needs a bias below level 5_2."""
    if scale is not None and bias is None:
        bias = node.filled(0.0, x.data_type, scale.sizes)
    return node.emit(
        "MEAN_VARIANCE_NORMALIZATION",
        InputTensor=x,
        ScaleTensor=scale,
        BiasTensor=bias,
        CrossChannel=False,
        NormalizeVariance=True,
        Epsilon=epsilon,
    )


@lowers("InstanceNormalization")
def instance_normalization(node: NodeLowering) -> GraphTensor:
    x = planar(node.tensor(0), 4)
    scale, bias = per_channel(node.tensor(1), 4), per_channel(node.tensor(2), 4)
    return normalized(node, x, scale, bias, node.attribute("epsilon", 1e-5))


@lowers("GroupNormalization")
def group_normalization(node: NodeLowering) -> GraphTensor:
    """Lowers a normalization of groups of channels; before version 21, scale and bias belong to groups."""
    sizes, groups = node.sizes(0), int(node.attribute("num_groups"))
    batch, channels = sizes[:2]
    if channels % groups:
        raise NotLowered(f"its {channels} channels do not form {groups} groups of the same size")
    x = node.tensor(0).reshape(batch, groups, channels // groups, prod(sizes[2:]))
    scale, bias = (_stashed(node, node.tensor(i).reshape(1, groups, -1, 1)) for i in (1, 2))
    found = normalized(node, _stashed(node, x), scale, bias, node.attribute("epsilon", 1e-5))
    return node.cast(found, node.data_type(0)).reshape(sizes)


def _stashed(node: NodeLowering, tensor: GraphTensor) -> GraphTensor:
    """Returns a tensor in the type that statistics are computed in: FLOAT32 unless told otherwise."""
    return node.cast(tensor, DataType.FLOAT32) if node.attribute("stash_type", 1) == 1 else tensor


@lowers("LayerNormalization")
def layer_normalization(node: NodeLowering) -> list[GraphTensor | None]:
    """Lowers a normalization over the last dimensions, as the last of [rows, 1, 1, elements]."""
    x, data_type = node.tensor(0), node.data_type(0)
    axis = node.axis(node.attribute("axis", -1), len(x.sizes))
    rows, inner = prod(x.sizes[:axis]), x.sizes[axis:]
    stashed = _stashed(node, x.reshape(rows, 1, 1, prod(inner)))
    scale = _stashed(node, _inner(node.tensor(1), x.sizes, axis))
    bias = _stashed(node, _inner(node.tensor(2), x.sizes, axis)) if node.has(2) else None
    epsilon = float(node.attribute("epsilon", 1e-5))
    y = node.cast(normalized(node, stashed, scale, bias, epsilon), data_type).reshape(x.sizes)
    if not (node.wants(1) or node.wants(2)):
        return [y]
    mean = _average(node, stashed)
    return [y, mean, _inverse_deviation(node, stashed, mean, epsilon) if node.wants(2) else None]


def _inner(parameter: GraphTensor, sizes: Sequence[int], axis: int) -> GraphTensor:
    """Returns a scale or bias as [1 or rows, 1, 1, elements] for a tensor that is normalized from an axis on."""
    outer = len(parameter.sizes) - (len(sizes) - axis)
    if prod(parameter.sizes[: max(outer, 0)]) == 1:
        inner = parameter.sizes[max(outer, 0) :]
        return lifted(spread(parameter.reshape(inner or (1,)), sizes[axis:]), 4).reshape(1, 1, 1, prod(sizes[axis:]))
    return lifted(spread(parameter, sizes), 4).reshape(prod(sizes[:axis]), 1, 1, prod(sizes[axis:]))


def _average(node: NodeLowering, x: GraphTensor) -> GraphTensor:
    """Returns the averages along the last dimension of rank 4."""
    output = node.desc(x.data_type, (*x.sizes[:3], 1))
    return node.emit("REDUCE", Function="AVERAGE", InputTensor=x, OutputTensor=output, Axes=[3])


def _inverse_deviation(node: NodeLowering, x: GraphTensor, mean: GraphTensor, epsilon: float) -> GraphTensor:
    """Returns 1 / sqrt(variance + epsilon) of the last dimension."""
    distance = node.emit("ELEMENT_WISE_SUBTRACT", ATensor=x, BTensor=spread(mean, x.sizes))
    square = node.emit("ELEMENT_WISE_MULTIPLY", ATensor=distance, BTensor=distance)
    variance = _average(node, square)
    root = node.emit("ELEMENT_WISE_SQRT", InputTensor=variance, ScaleBias={"Scale": 1.0, "Bias": epsilon})
    return node.emit("ELEMENT_WISE_RECIP", InputTensor=root)


@lowers("RMSNormalization")
def rms_normalization(node: NodeLowering) -> GraphTensor:
    x = node.tensor(0)
    axis = node.axis(node.attribute("axis", -1), len(x.sizes))
    rows = x.reshape(prod(x.sizes[:axis]), 1, 1, prod(x.sizes[axis:]))
    scale = _inner(node.tensor(1), x.sizes, axis)
    return root_mean_square(node, rows, scale, float(node.attribute("epsilon", 1e-5))).reshape(x.sizes)


def root_mean_square(node: NodeLowering, x: GraphTensor, scale: GraphTensor, epsilon: float) -> GraphTensor:
    """Returns x / sqrt(mean(x^2) + epsilon) * scale of rows of n elements: sqrt(n) x / sqrt(sum(x^2) + n epsilon)."""
    count = x.sizes[3]
    divided = node.emit("LP_NORMALIZATION", InputTensor=_stashed(node, x), Axis=3, Epsilon=epsilon * count, P=2)
    found = node.cast(scaled(node, divided, sqrt(count)), x.data_type)
    factor = node.cast(spread(scale, x.sizes), x.data_type)
    return node.emit("ELEMENT_WISE_MULTIPLY", ATensor=found, BTensor=factor)


@lowers("LpNormalization")
def lp_normalization(node: NodeLowering) -> GraphTensor:
    """Lowers X / norm. A tiny epsilon makes elements without a norm 0, as ONNX has them."""
    x = node.tensor(0)
    axis = node.axis(node.attribute("axis", -1), len(x.sizes))
    viewed = x.reshape(1, prod(x.sizes[:axis]), x.sizes[axis], prod(x.sizes[axis + 1 :]))
    return node.emit("LP_NORMALIZATION", InputTensor=viewed, Axis=2, Epsilon=_LEAST_NORMAL, P=node.attribute("p", 2))


@lowers("LRN")
def lrn(node: NodeLowering) -> GraphTensor:
    return node.emit(
        "LOCAL_RESPONSE_NORMALIZATION",
        InputTensor=planar(node.tensor(0), 4),
        CrossChannel=True,
        LocalSize=node.attribute("size"),
        Alpha=node.attribute("alpha", 1e-4),
        Beta=node.attribute("beta", 0.75),
        Bias=node.attribute("bias", 1.0),
    )


@lowers("MeanVarianceNormalization")
def mean_variance_normalization(node: NodeLowering) -> GraphTensor:
    """Lowers (X - mean) / (deviation + 1e-9); as an epsilon under the root, this is its square."""
    x = node.lifted(0)
    rank = node.rank(0)
    axes = sorted(len(x.sizes) - rank + node.axis(axis, rank) for axis in node.attribute("axes", [0, 2, 3]))
    return node.emit("MEAN_VARIANCE_NORMALIZATION1", InputTensor=x, Axes=axes, NormalizeVariance=True, Epsilon=1e-9**2)
