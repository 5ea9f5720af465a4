"""Converts graphs between the named form and DML_GRAPH_DESC."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..desc import is_object
from ..errors import ContractViolation
from ..fields import TensorMember
from ..reading import ReadDesc
from ..tensor import BufferTensorDesc
from ..tensor_names import grouped
from .checking import ReadGraph, read_graph
from .form import End, GraphForm
from .names import INPUT, unmistakable
from .slots import slots


def as_named(graph: object) -> dict[str, Any]:
    """Converts a graph to the named form, with its constants as given and the descs of declared inputs.

    Nodes keep their names unless these could be mistaken for an input of the graph or for a tensor of another node.

    Raises:
        ContractViolation: with every violation that does not depend on the feature level.
    """
    read = _whole(graph)
    nodes: dict[str, Any] = {}
    tensors = _constants(graph)
    slots = [read.descs[i].outputs if i in read.descs else () for i in range(len(read.form.nodes))]
    names = unmistakable([node.name for node in read.form.nodes], slots)
    for i, node in enumerate(read.form.nodes):
        if i in read.descs:
            feeds = {tensor: _source(read, names, read.edges.feeds[i, tensor]) for tensor in read.descs[i].inputs}
            nodes[names[i]] = {**_operator(node.operator), "inputs": grouped(feeds)}
        else:
            nodes[names[i]] = {"constant": tensors[i]}
    outputs = {name: _source(read, names, read.edges.results[number]) for number, name in enumerate(read.form.outputs)}
    return {"nodes": nodes, "inputs": _inputs(read.form), "outputs": outputs}


def as_numbered(graph: object) -> dict[str, Any]:
    """Converts a graph to DML_GRAPH_DESC, with its constants as given. Nodes and edges keep their names as ``Name``.

    DML_GRAPH_DESC has no descs of inputs: declared ones take those of the nodes that read them, as all others do.

    Raises:
        ContractViolation: with every violation that does not depend on the feature level.
    """
    read = _whole(graph)
    tensors = _constants(graph)
    nodes = [
        {"Type": "OPERATOR", "Desc": {"Operator": _operator(node.operator), "Name": node.name}}
        if i in read.descs
        else {"Type": "CONSTANT", "Desc": {"Data": tensors[i], "Name": node.name}}
        for i, node in enumerate(read.form.nodes)
    ]
    inputs: list[dict[str, Any]] = []
    between: list[dict[str, Any]] = []
    for (at, tensor), end in read.edges.feeds.items():
        to = {"ToNodeIndex": at, "ToNodeInputIndex": _number(read.descs[at], tensor, inputs=True)}
        if end.node is None:
            inputs.append({"GraphInputIndex": end.slot, **to, "Name": read.form.inputs[int(end.slot)]})
        else:
            between.append({**_from(read, end), **to})
    outputs = [
        {**_from(read, read.edges.results[number]), "GraphOutputIndex": number, "Name": name}
        for number, name in enumerate(read.form.outputs)
    ]
    return {
        "InputCount": len(read.form.inputs),
        "OutputCount": len(read.form.outputs),
        "Nodes": nodes,
        "InputEdges": inputs,
        "IntermediateEdges": between,
        "OutputEdges": outputs,
    }


def _inputs(form: GraphForm) -> list[str] | dict[str, Any]:
    """Returns the inputs in order, with their descs if some are declared."""
    if not form.declared:
        return list(form.inputs)
    descs = [form.declared.get(number) for number in range(len(form.inputs))]
    return {name: desc and desc.to_json() for name, desc in zip(form.inputs, descs, strict=True)}


def _whole(graph: object) -> ReadGraph:
    read = read_graph(graph, "")
    found = [*(violation for desc in read.descs.values() for violation in desc.structural), *read.report.violations]
    if found:
        raise ContractViolation(found)
    return read


def _constants(graph: object) -> dict[int, Any]:
    """Returns the tensors of the constants, by index of the node."""
    assert is_object(graph)
    if "Nodes" in graph:
        return {i: node["Desc"]["Data"] for i, node in enumerate(graph["Nodes"]) if "Data" in node["Desc"]}
    return {i: node["constant"] for i, node in enumerate(graph["nodes"].values()) if "constant" in node}


def _operator(operator: object) -> Mapping[str, Any]:
    assert is_object(operator)
    return operator


def _source(read: ReadGraph, names: Sequence[str], end: End) -> str:
    if end.node is None:
        return INPUT + read.form.inputs[int(end.slot)]
    name = names[end.node]
    return f"{name}.{end.slot}" if end.node in read.descs else name


def _from(read: ReadGraph, end: End) -> dict[str, Any]:
    assert end.node is not None  # an output that is an input of the graph is rejected earlier
    desc = read.descs.get(end.node)
    number = 0 if desc is None else _number(desc, str(end.slot), inputs=False)
    return {"FromNodeIndex": end.node, "FromNodeOutputIndex": number}


def _number(desc: ReadDesc, tensor: str, *, inputs: bool) -> int:
    assert desc.declared is not None  # else it is rejected earlier
    members: Iterable[TensorMember] = desc.declared.members.inputs if inputs else desc.declared.members.outputs
    tensors: Mapping[str, BufferTensorDesc] = desc.inputs if inputs else desc.outputs
    return list(slots(members, tensors)).index(tensor)
