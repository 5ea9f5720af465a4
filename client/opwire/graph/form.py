"""A graph as given, in either form: nodes, and edges between their tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..tensor import BufferTensorDesc

MOST_NODES = 4096
"""Maximum number of nodes of a graph (opwire's own limit)."""

MOST_EDGES = 16 * MOST_NODES
"""Maximum number of edges of a graph (opwire's own limit)."""

MOST_VIOLATIONS = MOST_NODES
"""Maximum number of violations reported for a graph, to keep the answers to large ones small."""

LONGEST_NAME = 256
"""Maximum length of the name of a node, an input or an output (opwire's own limit)."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operator, or a constant.

    Attributes:
        name: the unique name of the node.
        pointer: the pointer to its operator or, for a constant, to the node itself.
        operator: ``{"type", "desc"}``, unchecked; UNREAD if it is missing, which is reported; None for a constant.
        is_constant: whether it is a constant.
    """

    name: str
    pointer: str
    operator: object
    is_constant: bool = False


class End(NamedTuple):
    """One end of an edge.

    Attributes:
        node: the index of the node; None for an input or an output of the graph.
        slot: the tensor of the node, by name or by number among the inputs or outputs of its desc struct, counting each
            tensor of an array; or the index of an input or output of the graph.
    """

    node: int | None
    slot: str | int


class Edge(NamedTuple):
    """An edge: the target tensor takes its bytes from the source tensor.

    Attributes:
        source: an output of a node, or an input of the graph; None if the request names neither.
        target: an input of a node, or an output of the graph; None if the request names neither.
        pointer: the pointer to the edge in the request.
    """

    source: End | None
    target: End | None
    pointer: str


@dataclass(slots=True)
class GraphForm:
    """A graph as read. The ends of its edges need not exist.

    Attributes:
        pointer: the pointer to the graph in the request.
        nodes, edges: in the order of the request.
        inputs, outputs: the names of the inputs and outputs.
        declared: the descs of the inputs that have one of their own, by index.
        is_whole: whether all nodes and edges were identified, so that missing connections can be reported.
    """

    pointer: str
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    declared: dict[int, BufferTensorDesc] = field(default_factory=dict)
    is_whole: bool = True
