"""Replaces nodes by the bodies of their functions: those of the model, and those that ONNX defines its operators by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto

from .nodes import Domain, ModelNode
from .reading import subgraphs

Opsets = Mapping[Domain, int]


def schema_function(node: ModelNode, types: Sequence[TypeProto | None], version: int) -> FunctionProto | None:
    """Returns the body that ONNX defines the operator of a node by, or None.

    Args:
        node: the node.
        types: the types of its inputs.
        version: the version of the operator set that the model uses.
    """
    schema: Any = node.schema  # its type lacks what C++ defines
    if schema is None:
        return None
    if schema.has_context_dependent_function:
        given = [(each or TypeProto()).SerializeToString() for each in types]
        known = [each for each in schema.context_dependent_function_opset_versions if each <= version]
        if not known:
            return None
        body = schema.get_context_dependent_function_with_opset_version(
            max(known), node.proto.SerializeToString(), given
        )
        return FunctionProto.FromString(body) if body else None
    if schema.has_function:
        known = [each for each in schema.function_opset_versions if each <= version]
        return FunctionProto.FromString(schema.get_function_with_opset_version(max(known))) if known else None
    return None


def opsets_of(function: FunctionProto, outer: Opsets) -> Opsets:
    """Returns the operator sets of a function's body."""
    own = {each.domain if each.domain != "ai.onnx" else "": each.version for each in function.opset_import}
    return {**outer, **own}


def expanded(node: ModelNode, function: FunctionProto) -> Iterator[NodeProto]:
    """Yields the nodes of a function's body in place of a node, with names of their own."""
    prefix = f"{node.name}/"
    names = {"": ""}
    names |= dict.fromkeys(function.input, "")  # inputs at the end may be left out
    names |= dict(zip(function.input, node.inputs, strict=False))
    names |= {inner: outer for inner, outer in zip(function.output, node.outputs, strict=False) if outer}
    attributes = {each.name: each for each in function.attribute_proto}
    attributes |= _defaults(node) | {each.name: each for each in node.proto.attribute}
    for number, proto in enumerate(function.node):
        inner = NodeProto()
        inner.CopyFrom(proto)
        inner.name = f"{prefix}{proto.name or f'{proto.op_type}_{number}'}"
        _rename(inner, names, prefix)
        _refer(inner, attributes)
        yield inner


def _defaults(node: ModelNode) -> dict[str, AttributeProto]:
    found = {} if node.schema is None else node.schema.attributes
    return {name: each.default_value for name, each in found.items() if each.default_value.type}


def _rename(node: NodeProto, names: dict[str, str], prefix: str) -> None:
    for tensors in (node.input, node.output):
        for i, name in enumerate(tensors):
            tensors[i] = names.setdefault(name, prefix + name)
    for graph in subgraphs(node.attribute):
        _rename_graph(graph, names, prefix)


def _rename_graph(graph: GraphProto, names: dict[str, str], prefix: str) -> None:
    for info in (*graph.input, *graph.initializer):
        info.name = names.setdefault(info.name, prefix + info.name)
    for node in graph.node:
        _rename(node, names, prefix)
    for info in graph.output:
        info.name = names.get(info.name, info.name)
    del graph.value_info[:]


def _refer(node: NodeProto, given: Mapping[str, AttributeProto]) -> None:
    """Replaces references to the attributes of the function by their values; those without one are left out."""
    kept = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            kept.append(attribute)
        elif attribute.ref_attr_name in given:
            value = AttributeProto()
            value.CopyFrom(given[attribute.ref_attr_name])
            value.name = attribute.name
            kept.append(value)
    copies = [AttributeProto.FromString(each.SerializeToString()) for each in kept]
    del node.attribute[:]
    node.attribute.extend(copies)
    for graph in subgraphs(node.attribute):
        for inner in graph.node:
            _refer(inner, given)


def branch(node: ModelNode, graph: GraphProto) -> Iterator[NodeProto]:
    """Yields the nodes of a subgraph in place of a node that has it: the branch of an ``If`` that is taken."""
    names = dict(zip((each.name for each in graph.output), node.outputs, strict=False))
    defined = {name for each in graph.node for name in each.output} | {each.name for each in graph.initializer}
    prefix = f"{node.name}/"
    renamed = {name: names.get(name, prefix + name) for name in defined}
    for tensor in graph.initializer:
        yield onnx.helper.make_node("Constant", [], [renamed[tensor.name]], prefix + tensor.name, value=tensor)
    for number, proto in enumerate(graph.node):
        inner = NodeProto()
        inner.CopyFrom(proto)
        inner.name = f"{prefix}{proto.name or f'{proto.op_type}_{number}'}"
        _rename_known(inner, renamed)
        yield inner
    for inner_name, outer in names.items():
        if inner_name not in defined and outer:  # the branch returns a tensor from outside
            yield onnx.helper.make_node("Identity", [inner_name], [outer], f"{prefix}{inner_name}")


def concatenated(node: ModelNode, members: Sequence[str]) -> Iterator[NodeProto]:
    """Yields nodes in place of a ConcatFromSequence whose sequence has known members."""
    axis, makes_axis = int(node.attributes["axis"]), bool(node.attributes.get("new_axis"))
    names = list(members)
    if makes_axis:
        axes = f"{node.name}/axes"
        yield onnx.helper.make_node("Constant", [], [axes], axes, value_ints=[axis])
        names = [f"{node.name}/{i}" for i in range(len(members))]
        for name, member in zip(names, members, strict=True):
            yield onnx.helper.make_node("Unsqueeze", [member, axes], [name], name)
    yield onnx.helper.make_node("Concat", names, node.outputs, node.name, axis=axis)


def _rename_known(node: NodeProto, names: Mapping[str, str]) -> None:
    """Renames the tensors of a node, and of its subgraphs, that have another name outside."""
    for tensors in (node.input, node.output):
        for i, name in enumerate(tensors):
            tensors[i] = names.get(name, name)
    for graph in subgraphs(node.attribute):
        inner = {each: new for each, new in names.items() if each not in {info.name for info in graph.input}}
        for each in graph.node:
            _rename_known(each, inner)
        for info in graph.output:
            info.name = inner.get(info.name, info.name)
