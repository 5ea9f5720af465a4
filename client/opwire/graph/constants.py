"""Separates the tensors of constants from a graph in JSON, so that it describes all graphs with such constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..desc import is_object, pointer_to
from .form import MOST_NODES
from .names import NodeNames

CONSTANT = "constant:"
"""Prefix of the names of the inputs of a graph's plan that are its constants."""

HELD = ""
"""Placeholder for a constant's tensor that was taken out of a graph."""


Replace = Callable[[str, Any, str], Any]
"""Returns the replacement for a constant's tensor, given the name of its node, the tensor and the pointer to it."""


def without_constants(graph: Mapping[str, Any], pointer: str) -> tuple[dict[str, Any], dict[str, tuple[Any, str]]]:
    """Returns a graph without the tensors of its constants, and these by the names of their nodes, with their pointers.

    Malformed parts are left as they are, for ``check_graph`` to report.
    """
    taken: dict[str, tuple[Any, str]] = {}

    def take(name: str, tensor: Any, at: str) -> str:
        taken[name] = (tensor, at)
        return HELD

    return _replaced(graph, pointer, take), taken


def with_constants(graph: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a graph with tensors, by the names of their nodes, restored where ``without_constants`` removed them."""
    return _replaced(graph, "", lambda name, _, __: tensors[name])


def _replaced(graph: Mapping[str, Any], pointer: str, replace: Replace) -> dict[str, Any]:
    if "Nodes" in graph:
        nodes = graph["Nodes"]
        if not isinstance(nodes, list) or len(nodes) > MOST_NODES:
            return dict(graph)
        names = NodeNames()
        at = [pointer_to(pointer, "Nodes", i) for i in range(len(nodes))]
        kept = [_numbered(node, names.of(node, i), at[i], replace) for i, node in enumerate(nodes)]
        return {**graph, "Nodes": kept}
    given = graph.get("nodes")
    if not is_object(given) or len(given) > MOST_NODES:
        return dict(graph)
    return {**graph, "nodes": {name: _named(node, name, pointer, replace) for name, node in given.items()}}


def _named(node: Any, name: str, pointer: str, replace: Replace) -> Any:
    if not is_object(node) or "constant" not in node:
        return node
    return {**node, "constant": replace(name, node["constant"], pointer_to(pointer, "nodes", name, "constant"))}


def _numbered(node: Any, name: str, pointer: str, replace: Replace) -> Any:
    desc = node.get("Desc") if is_object(node) else None
    if not is_object(desc) or "Data" not in desc:
        return node
    return {**node, "Desc": {**desc, "Data": replace(name, desc["Data"], pointer_to(pointer, "Desc", "Data"))}}
