"""Why a tensor has other sizes than it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def sizes_cause(actual: Sequence[int], exact: Sequence[int], graph: Mapping[str, Any] | None) -> str:
    """Returns why sizes differ, or "" if it is not known.

    Args:
        actual, exact: the sizes of the side's tensor, and those of the exact one.
        graph: the operators that compute it.
    """
    if len(actual) != len(exact) or tuple(actual) == tuple(exact):
        return ""
    if sorted(actual) == sorted(exact):
        return "the axes are in another order"
    changes = [a - b for a, b in zip(actual, exact, strict=True)]
    strides = [each for node in (graph or {}).get("nodes", {}).values() for each in _strides(node)]
    if any(changes[:2]) or not strides or max(strides) == 1:
        return ""
    if set(changes[2:]) <= {0, 1}:
        return "sizes rounded up instead of down (ceil for floor)"
    return "sizes rounded down instead of up (floor for ceil)" if set(changes[2:]) <= {0, -1} else ""


def _strides(node: Mapping[str, Any]) -> list[int]:
    desc = node.get("desc", {})
    return list(desc.get("Strides") or ()) if "WindowSize" in desc or "FilterTensor" in desc else []
