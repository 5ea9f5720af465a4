"""ONNX models as subjects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..errors import OpwireError
from ..onnx import Model, ModelError, Node
from ..onnx.errors import NotLowered
from ..onnx.model import Isolated as GraphOfNode
from ..onnx.preparing import RANDOM
from ..onnx.values import storable
from ..tensor import Array
from .subjects import Isolated, Runner, Subject, SubjectNode, TensorType

_CHOICES: Mapping[str, Sequence[Any]] = {
    "coordinate_transformation_mode": (
        "half_pixel",
        "asymmetric",
        "align_corners",
        "pytorch_half_pixel",
        "tf_half_pixel_for_nn",
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "count_include_pad": (0, 1),
    "select_last_index": (0, 1),
    "linear_before_reset": (0, 1),
    "fmod": (0, 1),
    "mode": ("DCR", "CRD", "nearest", "linear"),
    "approximate": ("none", "tanh"),
    "auto_pad": ("SAME_UPPER", "SAME_LOWER", "VALID"),
}
"""Attributes that are taken for each other, with their values."""

_SAID: Mapping[tuple[str, Any], str] = {
    ("select_last_index", 1): "the last instead of the first on ties",
    ("select_last_index", 0): "the first instead of the last on ties",
    ("count_include_pad", 1): "padding counted",
    ("count_include_pad", 0): "padding not counted",
    ("approximate", "tanh"): "GELU by tanh",
    ("auto_pad", "SAME_UPPER"): "padding as by auto_pad SAME_UPPER",
    ("auto_pad", "SAME_LOWER"): "padding as by auto_pad SAME_LOWER",
    ("auto_pad", "VALID"): "padding left out",
}
"""What choices are called, where the attribute does not say it."""


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
        try:
            value = self.model.value(tensor)
        except KeyError:
            return None
        if value.sizes is None or not value.element_type:
            return None
        return TensorType(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.element_type)), value.sizes)

    def run(self, node: SubjectNode, tensors: Mapping[str, Array], runner: Runner) -> dict[str, Array]:
        if node.operator in RANDOM:
            raise ModelError("its results differ from run to run")
        return self.model.run_node(node.origin, tensors, runner)

    def isolated(self, node: SubjectNode) -> Isolated | None:
        if node.reason:
            return None
        return _isolated(self.model.isolated(node.origin))

    def variants(self, node: SubjectNode) -> Iterator[tuple[str, Isolated]]:
        if node.reason:
            return
        rank = max((len(known.sizes) for name in node.outputs if (known := self.type_of(name))), default=0)
        given = node.origin.model_node.attributes
        for name, choices in {"axis": range(rank), **_CHOICES}.items():
            for other in choices if name in given else ():
                if other in (given[name], given[name] + rank if isinstance(given[name], int) else None):
                    continue
                try:
                    alone = self.model.isolated(node.origin, {name: other})
                except (NotLowered, OpwireError, ValueError):  # other sizes come out
                    continue
                yield _SAID.get((name, other), f"{name} {other} instead of {given[name]}"), _isolated(alone)

    def constant(self, tensor: str) -> Array | None:
        array = self.model.value(tensor).array
        return None if array is None else storable(array)

    def write_part(
        self, nodes: Sequence[SubjectNode], inputs: Mapping[str, Array], folder: Path
    ) -> tuple[str, Mapping[str, str]]:
        origins: list[Node] = [node.origin for node in nodes]
        read = dict.fromkeys(name for node in origins for name in node.reads)
        constants = [name for name in read if self.model.value(name).is_constant]
        opsets = {domain: version for node in origins for domain, version in node.opsets.items()}
        imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        graph = helper.make_graph(
            [node.model_node.proto for node in origins],
            nodes[-1].name,
            [_info(name, array) for name, array in inputs.items()],
            [
                helper.make_value_info(name, self.model.value(name).type or onnx.TypeProto())
                for name in nodes[-1].outputs
            ],
            [numpy_helper.from_array(np.asarray(self.model.value(name).array), name) for name in constants],
        )
        model = helper.make_model(
            graph, opset_imports=imports, ir_version=helper.find_min_ir_version_for(imports, ignore_unknown=True)
        )
        is_large = sum(tensor.ByteSize() for tensor in graph.initializer) > _LARGE
        onnx.save(model, folder / _FILE, save_as_external_data=is_large)
        return _FILE, {}


def _isolated(alone: GraphOfNode) -> Isolated:
    return Isolated(alone.graph.to_json(), alone.graph.constants, alone.feeds, alone.results)


_FILE = "model.onnx"
_LARGE = 1 << 30
"""Bytes of constants from which on they are in a file of their own; a model has less than 2 GiB."""


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
