"""Evaluates ONNX models in float64, node by node: with ONNX Runtime where it can, else with the onnx package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from opwire.tensor import Array

_SINGLES = {"Resize": (2,), "Upsample": (1,)}
"""Inputs that are FLOAT32 whatever the data is, by operator."""


def evaluate(path: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the outputs of a model whose FLOAT32 tensors are all float64.

    Raises:
        Exception: neither package evaluates a node in float64.
    """
    model = onnx.load(path)
    known = {each.name: _wide(numpy_helper.to_array(each)) for each in model.graph.initializer}
    known |= {name: _wide(array) for name, array in inputs.items()}
    for node in model.graph.node:
        _widen(node)
        given = {name: known[name] for name in _reads(node)}
        for at in _SINGLES.get(node.op_type, ()):
            if at < len(node.input) and node.input[at]:
                given[node.input[at]] = given[node.input[at]].astype(np.float32)
        known |= _OTHERWISE.get(node.op_type, _run)(node, model, given)
    return {each.name: known[each.name] for each in model.graph.output}


def _resized(node: NodeProto, model: onnx.ModelProto, given: Mapping[str, Array]) -> dict[str, Array]:
    """Moves elements as two FLOAT32 whose sum they nearly are; no package interpolates float64 in little memory."""
    if any(each.name == "mode" and each.s != b"nearest" for each in node.attribute):
        raise NotImplementedError("Resize that interpolates")
    name = node.input[0]
    high = given[name].astype(np.float32)
    low = (given[name] - high).astype(np.float32)
    parts = [_run(node, model, {**given, name: part})[node.output[0]] for part in (high, low)]
    return {node.output[0]: parts[0] + parts[1]}


def _pooled(node: NodeProto, model: onnx.ModelProto, given: Mapping[str, Array]) -> dict[str, Array]:
    """Takes the maximum of each channel, which the onnx package takes of all channels."""
    values = given[node.input[0]]
    return {node.output[0]: values.max(tuple(range(2, values.ndim)), keepdims=True)}


_OTHERWISE = {"Resize": _resized, "GlobalMaxPool": _pooled}
"""Operators that neither package can evaluate in float64."""


def _run(node: NodeProto, model: onnx.ModelProto, given: Mapping[str, Array]) -> dict[str, Array]:
    """Runs one node."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    names = [name for name in node.output if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph([node], "node", infos, outputs)
    single = helper.make_model(
        graph, opset_imports=model.opset_import, functions=model.functions, ir_version=model.ir_version
    )
    found: Any
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(single.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found = session.run(names, given)
    except Exception:  # it lacks the operator for float64
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(single).run(names, dict(given))
    return {name: _wide(np.asarray(array)) for name, array in zip(names, found, strict=True)}


def _reads(node: NodeProto) -> Iterator[str]:
    """Yields the tensors that a node reads, those of its subgraphs included."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            own = {each.name for each in (*graph.initializer, *graph.input)}
            own |= {name for each in graph.node for name in each.output}
            yield from (name for each in graph.node for name in _reads(each) if name not in own)


def _widen(node: NodeProto) -> None:
    """Gives the attributes of a node and of its subgraphs float64 in place of FLOAT32."""
    for attribute in node.attribute:
        if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE
        elif attribute.type == AttributeProto.TENSOR:
            attribute.t.CopyFrom(numpy_helper.from_array(_wide(numpy_helper.to_array(attribute.t))))
        for graph in (attribute.g, *attribute.graphs):
            for each in graph.initializer:
                each.CopyFrom(numpy_helper.from_array(_wide(numpy_helper.to_array(each)), each.name))
            for inner in graph.node:
                _widen(inner)


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array
