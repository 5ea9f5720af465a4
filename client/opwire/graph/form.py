"""A graph as it was written, in either spelling: nodes, and edges between their tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

MOST_NODES = 4096
"""Nodes of a graph (our rule)."""

MOST_EDGES = 16 * MOST_NODES
"""Edges of a graph (our rule)."""

MOST_VIOLATIONS = MOST_NODES
"""Of all that is wrong with a graph so much is reported, so that the answer to a large one is small."""

LONGEST_NAME = 256
"""Letters of a name of a node, an input or an output (our rule)."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operator, or a constant.

    Attributes:
        name: no other node has it.
        pointer: where its operator stands in the request, or the node itself if it is a constant.
        operator: ``{"type", "desc"}``, unchecked; UNREAD if there is none, which is reported; None for a constant.
        is_constant: whether it is one.
    """

    name: str
    pointer: str
    operator: object
    is_constant: bool = False


class End(NamedTuple):
    """One end of an edge.

    Attributes:
        node: its index; None for an input or an output of the graph.
        slot: a tensor of the node, by its name or by its number among the inputs or outputs of its desc struct, each
            tensor of an array counted; or the index of a graph's input or output.
    """

    node: int | None
    slot: str | int


class Edge(NamedTuple):
    """The bytes of one tensor become those of another one.

    Attributes:
        source: an output of a node, or an input of the graph; None if the request names neither.
        target: an input of a node, or an output of the graph; None likewise.
        pointer: where the edge stands in the request.
    """

    source: End | None
    target: End | None
    pointer: str


@dataclass(slots=True)
class GraphForm:
    """A graph as read; what its ends name need not exist.

    Attributes:
        pointer: where it stands in the request.
        nodes, edges: in the order of the request.
        inputs, outputs: names.
        is_whole: whether all nodes and edges could be told apart, so that what is not connected can be said.
    """

    pointer: str
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    is_whole: bool = True
