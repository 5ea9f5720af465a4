"""Operators that ONNX Runtime fuses of others, and those that differ from ones of ONNX in the layout of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import onnx

from ...client.graph_tensors import GraphTensor
from ...schema import schema_of
from ..errors import NotLowered
from ..lowering import FUSED, LOWERINGS, MICROSOFT, NodeLowering, broadcast, lowers
from ..nodes import ModelNode, make_node
from ..types import element_type_of, sizes_of, tensor_type
from ..values import Value
from .activations import fused_activation
from .normalization import normalized
from .transformers import multiplied, product_of

_OPSET = 13
"""The operator set of the operators of ONNX that others are lowered as."""


def _as_onnx(node: ModelNode, operator: str, inputs: Sequence[str], attributes: Mapping[str, Any]) -> ModelNode:
    """Returns a node of an operator of ONNX with the outputs of another node."""
    proto = onnx.helper.make_node(operator, inputs, node.outputs[:1], node.name, **attributes)
    return make_node(proto, {"": _OPSET}, 0)


def _lowered(node: NodeLowering) -> GraphTensor:
    """Returns the output of a node of an operator of ONNX, with its sizes there."""
    made = LOWERINGS["", node.operator](node)
    first = made if isinstance(made, GraphTensor) else made[0]
    assert first is not None  # the outputs of a node that is lowered are asked for
    schema, proto = node.node.schema, node.node.proto
    assert schema is not None
    types = {name: value.type for name in proto.input if name and (value := node.values[name]).type is not None}
    imports = [onnx.helper.make_opsetid("", _OPSET)]
    found = onnx.shape_inference.infer_node_outputs(schema, proto, types, {}, None, imports)
    sizes = sizes_of(found.get(proto.output[0]))
    return first if sizes is None else first.reshape(sizes or (1,))


class _Fusing(NodeLowering):
    """A node that is lowered to one operator, with an activation fused."""

    activation: Mapping[str, Any]

    def emit(self, operator: str, /, **members: Any) -> GraphTensor:
        if "FusedActivation" not in schema_of(operator).members.names:
            return super().emit(operator, **members)
        return super().emit(operator, **members, FusedActivation=self.activation)


def _activation(node: NodeLowering) -> Mapping[str, Any]:
    """Returns the desc of the activation of a node."""
    return fused_activation(node, node.attribute("fused_activation", ""), "fused_")


def _fused(operator: str, node: NodeLowering) -> GraphTensor:
    """Lowers an operator of ONNX with an activation fused."""
    given = node.node.attributes
    if not given.get("spatial", 1) or given.get("training_mode", 0):
        raise NotLowered("it normalizes elements by themselves, or trains")
    known = onnx.defs.get_schema(operator, _OPSET, "").attributes
    attributes = {name: each for name, each in given.items() if name in known}
    if operator == "MeanVarianceNormalization":
        attributes |= _axes(given)
    inner = _Fusing(_as_onnx(node.node, operator, node.node.inputs, attributes), node.graph, node.values)
    inner.activation = _activation(node)
    return _lowered(inner)


def _axes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the axes of a normalization, which the fused operator has as before opset 9."""
    if not attributes.get("normalize_variance", 1):
        raise NotLowered("it leaves the variance as it is")
    across = [0, 1, 2, 3] if attributes.get("across_channels", 0) else [0, 2, 3]
    return {"axes": attributes.get("axes", across)}


for _name in (
    "BatchNormalization",
    "Conv",
    "ConvTranspose",
    "Gemm",
    "InstanceNormalization",
    "MatMul",
    "MeanVarianceNormalization",
):
    lowers(f"DmlFused{_name}", domain=FUSED)(partial(_fused, _name))


@lowers("DmlFusedAdd", "DmlFusedSum", domain=FUSED)
def fused_sum(node: NodeLowering) -> GraphTensor:
    """Lowers a sum with an activation fused into the last addition."""
    tensors = [node.tensor(i) for i in range(node.input_count)]
    rank = max(len(each.sizes) for each in tensors)
    total, *others = broadcast(tensors)
    if not others:
        raise NotLowered("it adds nothing to its input")
    for each in others[:-1]:
        total = node.emit("ELEMENT_WISE_ADD", ATensor=total, BTensor=each)
    found = node.emit("ELEMENT_WISE_ADD1", ATensor=total, BTensor=others[-1], FusedActivation=_activation(node))
    return found.reshape(found.sizes[len(found.sizes) - rank :])


@lowers("FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul_activation(node: NodeLowering) -> GraphTensor:
    """Lowers a product of matrices, and the activation of it by itself."""
    product = product_of(node)
    name = f"{node.node.name}/product"
    value = Value(name, tensor_type(element_type_of(product.data_type), product.sizes))
    node.graph.known[name] = product
    activation = node.attribute("activation", "")
    if ("", activation) not in LOWERINGS:
        raise NotLowered(f"its activation is {activation}")
    given = node.node.attributes.items()
    attributes = {key.removeprefix(_OWN): each for key, each in given if key.startswith(_OWN)}
    allowed = onnx.defs.get_schema(activation, _OPSET, "").attributes
    attributes = {key: each for key, each in attributes.items() if key in allowed}
    return _lowered(NodeLowering(_as_onnx(node.node, activation, [name], attributes), node.graph, {name: value}))


_OWN = "activation_"
"""The prefix of the attributes of an activation."""


class _ChannelsLast(NodeLowering):
    """A convolution whose data and filters have their channels last."""

    def sizes(self, i: int) -> tuple[int, ...]:
        batch, *spatial, channels = super().sizes(i)
        return (batch, channels, *spatial)

    def tensor(self, i: int) -> GraphTensor:
        given = super().tensor(i)
        rank = len(given.sizes)
        return given if rank == 1 else given.transpose(0, rank - 1, *range(1, rank - 1))


@lowers("NhwcConv", domain=MICROSOFT)
def nhwc_conv(node: NodeLowering) -> GraphTensor:
    if node.rank(0) != 4:
        raise NotLowered(f"its data has {node.rank(0)} dimensions, and 4 are taken")
    proto = _as_onnx(node.node, "Conv", node.node.inputs, node.node.attributes)
    made = LOWERINGS["", "Conv"](_ChannelsLast(proto, node.graph, node.values))
    assert isinstance(made, GraphTensor)
    return made.transpose(0, 2, 3, 1)


@lowers("ConvTransposeWithDynamicPads", domain=MICROSOFT)
def conv_transpose_with_dynamic_pads(node: NodeLowering) -> GraphTensor:
    """Lowers a transposed convolution whose padding is an input, which must be constant."""
    attributes = dict(node.node.attributes)
    if node.has(2):
        attributes["pads"] = node.integers(2)
    inputs = [*node.node.inputs[:2], *node.node.inputs[3:4]]
    return _lowered(NodeLowering(_as_onnx(node.node, "ConvTranspose", inputs, attributes), node.graph, node.values))


@lowers("GroupNorm")
@lowers("GroupNorm", domain=MICROSOFT)
def group_norm(node: NodeLowering) -> GraphTensor:
    """Lowers a normalization of groups of channels, which may be last, then x sigmoid(x) if that is wanted."""
    x, groups, is_last = node.tensor(0), int(node.attribute("groups")), bool(node.attribute("channels_last", 1))
    channels = x.sizes[-1] if is_last else x.sizes[1]
    if channels % groups:
        raise NotLowered(f"its {channels} channels do not form {groups} groups of the same size")
    batch, count, area = x.sizes[0], channels // groups, prod(x.sizes[1:]) // channels
    strides = (area * channels, count, 1, channels) if is_last else (area * channels, count * area, area, 1)
    viewed = x.with_strides((batch, groups, count, area), strides)
    scale, bias = (node.cast(node.tensor(i).reshape(1, groups, count, 1), x.data_type) for i in (1, 2))
    found = normalized(node, viewed, scale, bias, float(node.attribute("epsilon", 1e-5)))
    if node.attribute("activation", 0):
        found = multiplied(node, found, node.emit("ACTIVATION_SIGMOID", InputTensor=found))
    if not is_last:
        return found.reshape(x.sizes)
    return found.reshape(batch, channels, *x.sizes[1:-1]).transpose(0, *range(2, len(x.sizes)), 1)
