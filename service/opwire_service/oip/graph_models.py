"""Registered graphs as models. Each of their tensors has a fixed shape and data type, and they have no parameters."""

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
    """Returns the model of a registered graph. Its only version is the feature level it was registered for.

    Raises:
        NotFoundError: the version does not exist, or the graph has tensors that the protocol does not support.
    """
    own = version_at(graph.level)
    if version not in (None, own):
        raise no_version(graph.name, version, [own])
    reason = _cannot_be_carried(graph)
    if reason is not None:
        detail = f"graph {show(graph.name)} is not available as a model: {reason}; use /v1/execute to run it"
        raise NotFoundError(ProblemCode.NOT_FOUND, detail)
    inputs, outputs = (dict.fromkeys(descs, False) for descs in (graph.inputs, graph.outputs))
    return ServedModel(graph.name, GRAPH, graph.level, own, (own,), inputs, outputs, (), {}, graph)


def graph_models(graphs: Iterable[RegisteredGraph]) -> Iterator[ServedModel]:
    """Yields the models of those graphs that the protocol supports."""
    return (graph_model(graph) for graph in graphs if _cannot_be_carried(graph) is None)


def _cannot_be_carried(graph: RegisteredGraph) -> str | None:
    for name, desc in (*graph.inputs.items(), *graph.outputs.items()):
        if desc.data_type not in NAMES:
            return f"{show(name)} has the data type {desc.data_type.name}, which the protocol does not support"
    if graph.strided:
        return f"{show(graph.strided[0])} has strides, which the protocol does not support"
    return None


def refuse_other_descs(graph: RegisteredGraph, given: Mapping[str, Any]) -> None:
    """Refuses inputs whose data type or shape differs from the graph's.

    Args:
        graph: the registered graph.
        given: ``DataType`` and ``Sizes`` of each input, in the order of the request.

    Raises:
        ContractViolation: some inputs differ; lists all violations.
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
