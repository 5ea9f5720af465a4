"""Graphs that are a whole request by themselves, and the tensors of their constants."""

from __future__ import annotations

from typing import Any

from ..graph import without_constants
from .framing import Parts
from .payloads import read_payload


def is_bare_graph(document: object) -> bool:
    """Returns whether a request is a graph by itself."""
    if not isinstance(document, dict) or "operator" in document or "graph" in document:
        return False
    return "nodes" in document or "Nodes" in document


def without_payloads(graph: Any, parts: Parts, pointer: str) -> Any:
    """Returns a graph without the tensors of its constants, which are located in the body all the same."""
    if not isinstance(graph, dict):
        return graph
    kept, held = without_constants(graph, pointer)
    for tensor, at in held.values():
        read_payload(tensor, parts, at)
    return kept
