"""Builds small models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

Shape = Sequence[int | str | None]

NEWEST = 21
"""The operator set of a model unless it names one."""


def info(name: str, shape: Shape | None, element_type: int = TensorProto.FLOAT) -> ValueInfoProto:
    """Returns an input or output; a string names a dimension, and None leaves it open."""
    return helper.make_tensor_value_info(name, element_type, shape)


def node(operator: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "", **attributes: Any) -> NodeProto:
    """Returns a node; ``domain`` is an attribute like others."""
    return helper.make_node(operator, inputs, outputs, name or None, **attributes)


def graph(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
) -> GraphProto:
    """Returns a graph whose outputs are of types to be inferred."""
    untyped = [helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in outputs]
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    return helper.make_graph(nodes, "graph", inputs, untyped, arrays)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = NEWEST,
    **others: Any,
) -> ModelProto:
    """Returns a model; ``others`` are those of ``onnx.helper.make_model``."""
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph(nodes, inputs, outputs, constants), opset_imports=imports, **others)
