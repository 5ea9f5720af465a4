"""ONNX models as subjects."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from ..onnx import Model, Node
from ..tensor import Array
from .subjects import Isolated, Runner, Subject, SubjectNode, TensorType


class OnnxSubject(Subject):
    """The nodes of an ONNX model."""

    def __init__(self, model: Model, name: str) -> None:
        self.model = model
        self.name = name
        self.inputs = {each: known for each in model.inputs if (known := self.type_of(each)) is not None}
        self.outputs = model.outputs
        self.nodes = [self._node(node) for node in model.nodes]

    def _node(self, node: Node) -> SubjectNode:
        value = self.model.value
        read = dict.fromkeys(name for name in node.reads if not value(name).is_constant)
        produced = tuple(name for name in node.outputs if name)
        return SubjectNode(node.name, node.operator, tuple(read), produced, node.reason, node)

    def type_of(self, tensor: str) -> TensorType | None:
        value = self.model.value(tensor)
        if value.sizes is None or not value.element_type:
            return None
        return TensorType(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.element_type)), value.sizes)

    def run(self, node: SubjectNode, tensors: Mapping[str, Array], runner: Runner) -> dict[str, Array]:
        return self.model.run_node(node.origin, tensors, runner)

    def isolated(self, node: SubjectNode) -> Isolated | None:
        if node.reason:
            return None
        alone = self.model.isolated(node.origin)
        return Isolated(alone.graph.to_json(), alone.graph.constants, alone.feeds, alone.results)
