"""Lowers nodes with the lowerings of their operators."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from onnx import TypeProto
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError

from ..client.graph_tensors import GraphTensor
from ..errors import ContractViolation
from . import lowerings
from .errors import NotLowered
from .graph import ModelGraph
from .lowering import NodeLowering
from .nodes import ModelNode
from .types import element_type_of, tensor_type
from .values import Value


def is_lowered(node: ModelNode) -> bool:
    """Returns whether the operator of a node has a lowering."""
    return (node.domain, node.proto.op_type) in lowerings.LOWERINGS


def lower(node: ModelNode, graph: ModelGraph, values: Mapping[str, Value]) -> list[GraphTensor | None]:
    """Adds the operators of a node to a graph, and returns its outputs; None for one that is not used.

    Raises:
        NotLowered: DirectML has no operators for the node as it is.
    """
    if not is_lowered(node):
        raise NotLowered(f"DirectML has no operator for {node.operator}")
    at = NodeLowering(node, graph, values)
    with graph.lowering(node.name):
        try:
            outputs = lowerings.LOWERINGS[node.domain, node.proto.op_type](at)
        except ContractViolation as error:
            raise NotLowered(error.violations[0].message) from error
        except _MISFITS as error:
            raise NotLowered(_misfit(node, values, error)) from error
        listed = [outputs] if isinstance(outputs, GraphTensor) else list(outputs)
        return [_as_declared(each, node, values, i) for i, each in enumerate(listed)]


_MISFITS = (ArithmeticError, LookupError, TypeError, ValueError, InferenceError, ValidationError)
"""What lowerings raise for tensors and attributes that do not belong together, where ONNX has not refused these."""


def _misfit(node: ModelNode, values: Mapping[str, Value], error: Exception) -> str:
    given = ", ".join(str(values[name]) for name in node.inputs if name)
    return f"it cannot take {given or 'no input'}: {' '.join(str(error).split())}"


def _as_declared(
    tensor: GraphTensor | None, node: ModelNode, values: Mapping[str, Value], i: int
) -> GraphTensor | None:
    """Returns an output with the sizes that the model gives it.

    Raises:
        NotLowered: these have another number of elements.
    """
    if tensor is None or i >= len(node.outputs) or not node.outputs[i]:
        return None
    value = values.get(node.outputs[i])
    sizes = None if value is None else value.sizes
    if sizes is None or tensor.sizes == (sizes or (1,)):
        return tensor
    if prod(sizes) != tensor.desc.element_count:
        raise NotLowered(f"its output {value} has the sizes {list(tensor.sizes)}")
    return tensor.reshape(sizes or (1,))


def output_types(node: ModelNode, values: Mapping[str, Value]) -> dict[str, TypeProto]:
    """Returns the types of a node's outputs as its lowering makes them, for operators that ONNX has no schema of."""
    try:
        outputs = lower(node, ModelGraph(), values)
    except NotLowered:
        return {}
    named = zip(node.outputs, outputs, strict=False)
    return {
        name: tensor_type(element_type_of(tensor.data_type), tensor.sizes)
        for name, tensor in named
        if name and tensor is not None
    }
