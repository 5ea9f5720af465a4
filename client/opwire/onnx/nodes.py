"""The nodes of a prepared model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx
from onnx import AttributeProto, NodeProto, TensorProto

from .errors import ModelError
from .reading import subgraphs

Domain = str

DEFAULT_DOMAIN = ""


@dataclass(frozen=True, slots=True, eq=False)
class ModelNode:
    """A node of a prepared model.

    Attributes:
        name: its name; those without one are named by their operator and place.
        proto: the node as the model has it.
        domain: the domain of its operator, "" for that of ONNX itself.
        since: the version since which its operator is as in the model's opset; 0 if ONNX does not know it.
        schema: the operator's schema, or None.
        attributes: its attributes as Python values, with the defaults of the schema.
    """

    name: str
    proto: NodeProto
    domain: Domain
    since: int
    schema: onnx.defs.OpSchema | None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def operator(self) -> str:
        """The operator: ``Conv``, or ``com.microsoft.Gelu``."""
        return f"{self.domain}.{self.proto.op_type}" if self.domain else self.proto.op_type

    @property
    def inputs(self) -> list[str]:
        return list(self.proto.input)

    @property
    def outputs(self) -> list[str]:
        return list(self.proto.output)

    def reads(self) -> Iterator[str]:
        """Yields the names of the tensors that it reads, including those that its subgraphs take from outside."""
        yield from (name for name in self.proto.input if name)
        yield from captured(self.proto)

    def __str__(self) -> str:
        return f"node {self.name} ({self.operator})"


def captured(proto: NodeProto) -> Iterator[str]:
    """Yields the names that the subgraphs of a node take from outside."""
    for graph in subgraphs(proto.attribute):
        known = {each.name for each in (*graph.input, *graph.initializer)}
        known |= {name for node in graph.node for name in node.output}
        for node in graph.node:
            yield from (name for name in (*node.input, *captured(node)) if name and name not in known)
        yield from (each.name for each in graph.output if each.name not in known)


def make_node(proto: NodeProto, opsets: Mapping[Domain, int], place: int) -> ModelNode:
    """Returns a node of a model.

    Args:
        proto: the node.
        opsets: the versions of the operator sets that the model uses.
        place: its place among the nodes, which names it if it has no name.

    Raises:
        ModelError: its operator set is not among those of the model.
    """
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    name = proto.name or f"{proto.op_type}_{place}"
    if domain not in opsets and domain not in UNVERSIONED:
        raise ModelError(f"node {name} is of domain {proto.domain or 'ai.onnx'}, which the model does not import")
    schema = _schema(proto.op_type, opsets.get(domain, 1), domain)
    attributes: dict[str, Any] = {}
    if schema is not None:
        defaults = {key: each.default_value for key, each in schema.attributes.items()}
        attributes = {key: _python(each) for key, each in defaults.items() if each.type}
    attributes |= {each.name: _python(each) for each in proto.attribute}
    since = 0 if schema is None else schema.since_version
    return ModelNode(name, proto, domain, since or UNVERSIONED.get(domain, 0), schema, attributes)


UNVERSIONED = {"com.microsoft": 1, "com.microsoft.dml": 1}
"""Domains of ONNX Runtime, which models use without an import at times; all their operators are of version 1."""


def _schema(op_type: str, version: int, domain: Domain) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None


def _python(attribute: AttributeProto) -> Any:
    """Returns an attribute as a Python value: numbers, text, lists, a TensorProto or a GraphProto."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, TensorProto):
        return value
    if attribute.type == AttributeProto.STRINGS:
        return [each.decode(errors="replace") for each in value]
    return value if isinstance(value, int | float | str) or not isinstance(value, (list, tuple)) else list(value)
