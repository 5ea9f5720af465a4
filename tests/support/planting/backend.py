"""ONNX Runtime, node by node, with the results of some nodes replaced by those of a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, helper, numpy_helper

from opwire.tensor import Array

Run = Callable[[NodeProto, Sequence[Array | None]], list[Array]]
"""Runs a node with the tensors of its inputs, None for those left out."""

Plant = Callable[[NodeProto, Sequence[Array | None], list[Array]], list[Array]]
"""Returns the results of a node with a fault, if it is to have one."""


class Backend:
    """ONNX Runtime's CPU provider on a model, one node at a time."""

    def __init__(self, model: ModelProto) -> None:
        self._model = model
        self._sessions: dict[tuple[object, ...], onnxruntime.InferenceSession] = {}

    def run(self, inputs: Mapping[str, Array], plant: Plant) -> dict[str, Array]:
        """Returns every tensor that a node produces; nodes read what those before them gave, faults included."""
        constants = {each.name: numpy_helper.to_array(each) for each in self._model.graph.initializer}
        tensors = {**constants, **inputs}
        for node in self._model.graph.node:
            given = [tensors[name] if name else None for name in node.input]
            results = plant(node, given, self.node(node, given))
            tensors |= {name: array for name, array in zip(node.output, results, strict=True) if name}
        return {name: tensors[name] for node in self._model.graph.node for name in node.output if name}

    def node(self, node: NodeProto, inputs: Sequence[Array | None]) -> list[Array]:
        """Runs a node."""
        names = [name if array is not None else "" for name, array in zip(node.input, inputs, strict=True)]
        given = {name: np.asarray(array) for name, array in zip(names, inputs, strict=True) if array is not None}
        types = tuple((name, array.dtype.str, array.shape) for name, array in given.items())
        key = (node.SerializeToString(), tuple(names), types)
        if key not in self._sessions:
            self._sessions[key] = self._session(node, names, given)
        session = self._sessions[key]
        found = session.run(None, {each.name: given[each.name] for each in session.get_inputs()})
        return [np.asarray(each) for each in found]

    def _session(
        self, node: NodeProto, names: Sequence[str], given: Mapping[str, Array]
    ) -> onnxruntime.InferenceSession:
        copy = NodeProto()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(names)
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in given.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name, type=onnx.TypeProto()) for name in node.output if name]
        graph = helper.make_graph([copy], "node", infos, outputs)
        model = helper.make_model(graph, opset_imports=self._model.opset_import, ir_version=self._model.ir_version)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
