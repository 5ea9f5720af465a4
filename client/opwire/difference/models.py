"""Reads models to compare: ONNX files, graphs, DxDispatch models and operators as JSON, and folders of nodes."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..check import check
from ..client.calls import BuiltGraph
from ..client.graphs import Graph
from ..dxdispatch import read_model, read_text
from ..errors import ProblemCode, RequestError
from ..graph import INPUT, as_named
from ..reading import read_desc
from ..tensor import Array
from ..tensor_names import grouped
from ..wire import RequestBody, parse_execute, read_inputs
from .dxdispatch_subject import DxDispatchSubject
from .graph_subject import GraphSubject, WrittenGraph
from .repro import is_reproduction, read_reproduction
from .subjects import Subject


def subject_of(
    model: Any, dimensions: Mapping[str, int] | None = None, inputs: Mapping[str, Array] | None = None
) -> Subject:
    """Returns a model as a subject.

    Args:
        model: the path of an ONNX file, of a graph, of an operator or of a DxDispatch model; a graph as JSON, an
            ``opwire.Graph``, an ``opwire.onnx.Model``, or a Subject. Or a folder that reproduces a node.
        dimensions: the sizes of dimensions that an ONNX model names.
        inputs: arrays of its inputs, whose sizes other dimensions take.

    Raises:
        RequestError: it cannot be used.
        ContractViolation: an operator is not valid.
        OSError: it cannot be read.
    """
    if isinstance(model, Subject):
        return model
    if isinstance(model, BuiltGraph):
        return GraphSubject(model, "graph")
    if isinstance(model, Mapping):
        return _json_subject(model, Path(), "graph")
    if isinstance(model, str | PathLike) and is_reproduction(Path(model)):
        return read_reproduction(Path(model))
    if isinstance(model, str | PathLike) and Path(model).suffix.lower() == ".json":
        path = Path(model)
        data = path.read_bytes()
        value = read_text(data)
        if isinstance(value, Mapping) and {"graph", "nodes", "Nodes"} & value.keys():
            return GraphSubject(Graph.load(path), path.name)
        if isinstance(value, Mapping) and "operator" in value:
            return _request_subject(value, data.removeprefix(BOM_UTF8), path.name)
        return _json_subject(value, path.parent, path.name)
    return _onnx_subject(model, dimensions, inputs)


def _json_subject(value: object, folder: Path, name: str) -> Subject:
    if isinstance(value, Mapping):
        if {"resources", "dispatchables", "commands"} & value.keys():
            return DxDispatchSubject(read_model(value), folder, name)
        if {"nodes", "Nodes"} & value.keys():
            return GraphSubject(WrittenGraph(as_named(value), {}), name)
        if {"type", "Type"} & value.keys():
            return _operator(value, name)
    detail = f"{name} is not a model: neither a graph, an operator nor a DxDispatch model"
    raise RequestError(ProblemCode.INVALID_MODEL, detail)


def _request_subject(value: Mapping[str, Any], data: bytes, name: str) -> Subject:
    """Returns the operator of a request with the inputs that the request gives it."""
    if "inputs" not in value:
        return _operator(value["operator"], name)
    request = parse_execute(RequestBody.split(data))
    subject = _operator(request.operator, name)
    subject.given = read_inputs(check(request.operator), request)
    return subject


def _operator(value: Any, name: str) -> Subject:
    """Returns an operator as a graph of one node, whose tensors are called as its members."""
    operator = {"type": value.get("type", value.get("Type")), "desc": value.get("desc", value.get("Desc"))}
    read = read_desc(operator, "")
    node = {**operator, "inputs": grouped({each: INPUT + each for each in read.inputs})}
    kind = str(operator["type"])
    graph = {"nodes": {kind: node}, "outputs": {each: f"{kind}.{each}" for each in read.outputs} or {"": kind}}
    return GraphSubject(WrittenGraph(graph, {}), name)


def _onnx_subject(model: Any, dimensions: Mapping[str, int] | None, inputs: Mapping[str, Array] | None) -> Subject:
    from ..onnx import Model, load  # its package is optional
    from .onnx_subject import OnnxSubject

    if isinstance(model, Model):
        return OnnxSubject(model, "model")
    name = Path(model).name if isinstance(model, str | PathLike) else "model"
    return OnnxSubject(load(model, dimensions=dimensions, like=inputs), name)
