"""Registered graphs as models: their tensors are of one shape and type each, and they have no parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from opwire.desc import as_integer, show
from opwire.errors import ContractViolation, NotFoundError, ProblemCode
from opwire.graph import GRAPH
from opwire.tensor import BufferTensorDesc
from opwire.violation import Code, Violation

from ..engine.registered_graph import RegisteredGraph
from .datatypes import NAMES
from .models import ServedModel, no_version, version_at


def graph_model(graph: RegisteredGraph, version: str | None = None) -> ServedModel:
    """The model of a registered graph, whose one version is the level that it was registered for.

    Raises:
        NotFoundError: it has no such version, or tensors that the protocol cannot carry.
    """
    own = version_at(graph.level)
    if version not in (None, own):
        raise no_version(graph.name, version, [own])
    reason = _cannot_be_carried(graph)
    if reason is not None:
        detail = f"the graph {show(graph.name)} is no model: {reason}; /v1/execute runs it"
        raise NotFoundError(ProblemCode.NOT_FOUND, detail)
    inputs, outputs = (dict.fromkeys(descs, False) for descs in (graph.inputs, graph.outputs))
    return ServedModel(graph.name, GRAPH, graph.level, own, (own,), inputs, outputs, (), {}, graph)


def graph_models(graphs: Iterable[RegisteredGraph]) -> Iterator[ServedModel]:
    """The models of those graphs that can be models."""
    return (graph_model(graph) for graph in graphs if _cannot_be_carried(graph) is None)


def _cannot_be_carried(graph: RegisteredGraph) -> str | None:
    for name, desc in (*graph.inputs.items(), *graph.outputs.items()):
        if desc.data_type not in NAMES:
            return f"{show(name)} is of type {desc.data_type.name}, which the protocol does not have"
    if graph.strided:
        return f"{show(graph.strided[0])} is laid out with strides, which the protocol does not have"
    return None


def refuse_other_descs(graph: RegisteredGraph, given: Mapping[str, Any]) -> None:
    """Refuses inputs of another type or shape than the graph has.

    Args:
        given: for each input, in the order of the request, its ``DataType`` and ``Sizes``.

    Raises:
        ContractViolation: with every violation.
    """
    found = [
        violation
        for i, (name, desc) in enumerate(given.items())
        for violation in _differences(name, graph.inputs[name], desc, f"/inputs/{i}")
    ]
    if found:
        raise ContractViolation(found, "; ".join(violation.message for violation in found))


def _differences(name: str, right: BufferTensorDesc, given: Mapping[str, Any], pointer: str) -> Iterator[Violation]:
    if given["DataType"] != right.data_type.name:
        message = f"{show(name)} is {NAMES[right.data_type]} in this graph"
        yield Violation(Code.DATA_TYPES_DIFFER, f"{pointer}/datatype", message, [NAMES[right.data_type]])
    shape = given["Sizes"]
    sizes = [as_integer(size) for size in shape] if isinstance(shape, list) and len(shape) == right.rank else None
    if sizes != list(right.sizes):
        message = f"{show(shape)} given; {show(name)} has the shape {list(right.sizes)} in this graph"
        yield Violation(Code.SIZES_MISMATCH, f"{pointer}/shape", message, [list(right.sizes)])
