"""Evaluates nodes in NumPy, with the evaluator of the ``onnx`` package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from .errors import ModelError
from .nodes import Domain, ModelNode


class HostNode:
    """A node that runs on the CPU, in NumPy.

    Attributes:
        node: the node.
        reason: why it has no DirectML operators.
    """

    def __init__(self, node: ModelNode, reason: str, opsets: Mapping[Domain, int]) -> None:
        self.node = node
        self.reason = reason
        self._opsets = opsets
        self._evaluator: ReferenceEvaluator | None = None

    @property
    def inputs(self) -> list[str]:
        """The names of the tensors that it reads, each once."""
        return list(dict.fromkeys(self.node.reads()))

    def run(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Returns its outputs by name.

        Raises:
            ModelError: it cannot be evaluated.
        """
        ignored = next((name for name in _IGNORED.get(self.node.operator, ()) if self._gives(name)), None)
        if ignored is not None:
            raise ModelError(
                f"{self.node} has no DirectML operators ({self.reason}), and onnx.reference ignores its {ignored}"
            )
        try:
            if self._evaluator is None:
                self._evaluator = evaluator(self.node, self._opsets)
            with np.errstate(all="ignore"):
                outputs = self._evaluator.run(None, {name: tensors[name] for name in self.inputs})
        except ModelError:
            raise
        except Exception as error:  # of any class: implementations check little
            said = f"{self.node} has no DirectML operators ({self.reason}), and fails in onnx.reference"
            raise ModelError(f"{said}: {type(error).__name__}: {error}") from error
        return dict(zip(filter(None, self.node.outputs), outputs, strict=True))

    def _gives(self, name: str) -> bool:
        """Returns whether an attribute or an input is given."""
        formal = [] if self.node.schema is None else [each.name for each in self.node.schema.inputs]
        given = {each.name for each in self.node.proto.attribute}
        return name in given | {key for key, found in zip(formal, self.node.inputs, strict=False) if found}


_IGNORED: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    ("RNN", "GRU", "LSTM"), ("activations", "clip", "sequence_lens")
)
"""Attributes and inputs that onnx.reference does not heed."""


def evaluator(node: ModelNode, opsets: Mapping[Domain, int]) -> ReferenceEvaluator:
    """Returns an evaluator of a single node. If the package lacks its version of an operator, a later one stands in."""
    untyped = onnx.TypeProto()
    infos = [onnx.helper.make_value_info(name, untyped) for name in dict.fromkeys(node.reads())]
    outputs = [onnx.helper.make_value_info(name, untyped) for name in node.outputs if name]
    graph = onnx.helper.make_graph([node.proto], node.name, infos, outputs)
    reason: Exception | None = None
    for version in _versions(node, opsets):
        imports = [onnx.helper.make_opsetid(*each) for each in {**opsets, node.domain: version}.items()]
        try:
            return ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=imports))
        except Exception as error:  # the package raises several classes, some of them its own
            reason = reason or error
    raise ModelError(
        f"{node} has neither DirectML operators nor an implementation in onnx.reference: {reason}"
    ) from reason


def _versions(node: ModelNode, opsets: Mapping[Domain, int]) -> list[int]:
    """Returns the version of the operator set of a node, and later ones in which the operator has the same attributes.

    The package implements DequantizeLinear from version 19 on, for example, and models have it since version 10.
    """
    own = opsets.get(node.domain, 1)
    if node.domain or node.schema is None:
        return [own]
    given = {each.name for each in node.proto.attribute}
    later = range(own + 1, onnx.defs.onnx_opset_version() + 1)
    schemas = {version: onnx.defs.get_schema(node.proto.op_type, version, node.domain) for version in later}
    return [own, *(version for version, schema in schemas.items() if given <= schema.attributes.keys())]


def evaluate(node: ModelNode, tensors: Mapping[str, Any], opsets: Mapping[Domain, int]) -> dict[str, Any]:
    """Returns the outputs of a constant node by name."""
    return HostNode(node, "it is constant", opsets).run(tensors)
