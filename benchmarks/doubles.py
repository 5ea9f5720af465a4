"""Evaluates ONNX models in float64, node by node: with ONNX Runtime where it can, else with the onnx package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.lib.stride_tricks import sliding_window_view
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


def _convolved(node: NodeProto, model: onnx.ModelProto, given: Mapping[str, Array]) -> dict[str, Array]:
    """Multiplies the windows of each group; the onnx package fills dilated filters up, which takes tens of GB."""
    x, filters = given[node.input[0]], given[node.input[1]]
    rank = filters.ndim - 2
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    strides, dilations = (attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    extents = [(taps - 1) * step + 1 for taps, step in zip(filters.shape[2:], dilations, strict=True)]
    pads = _padding(attributes, x.shape[2:], extents, strides)
    windows = sliding_window_view(np.pad(x, [(0, 0), (0, 0), *pads]), extents, tuple(range(2, 2 + rank)))
    every: tuple[Any, ...] = (..., *(slice(None, None, step) for step in (*strides, *dilations)))
    windows = windows[every]
    groups, taps = attributes.get("group", 1), range(1, 1 + rank)
    axes = (1, *(1 + rank + i for i in taps)), (1, *(1 + i for i in taps))
    parts = zip(np.split(windows, groups, 1), np.split(filters, groups), strict=True)
    sums = np.concatenate([np.tensordot(part, weights, axes) for part, weights in parts], -1)
    bias = given[node.input[2]] if len(node.input) > 2 and node.input[2] else 0
    return {node.output[0]: np.moveaxis(sums + bias, -1, 1)}


def _padding(
    attributes: Mapping[str, Any], sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """Returns the padding of each spatial dimension of a convolution."""
    auto = attributes.get("auto_pad", b"NOTSET")
    if not auto.startswith(b"SAME"):
        pads = attributes.get("pads", [0] * 2 * len(sizes))
        return list(zip(pads[: len(sizes)], pads[len(sizes) :], strict=True))
    missing = [
        max((-(-size // step) - 1) * step + extent - size, 0)
        for size, extent, step in zip(sizes, extents, strides, strict=True)
    ]
    halves = [(each // 2, each - each // 2) for each in missing]
    return halves if auto == b"SAME_UPPER" else [(end, begin) for begin, end in halves]


_OTHERWISE = {"Resize": _resized, "GlobalMaxPool": _pooled, "Conv": _convolved}
"""Operators that neither package evaluates in float64, rightly and in little memory."""


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
