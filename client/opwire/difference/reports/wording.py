"""How reports put results into words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from ..results import Differences, NodeDifference, Worst

_LISTED = 8


def title(node: NodeDifference) -> str:
    """Returns the name of a node, with those that it was compared together with."""
    return f"{node.name} with {', '.join(node.members)}" if node.members else node.name


def verdict_text(node: NodeDifference) -> str:
    """Returns the verdict on a node, and what it is like."""
    return f"{node.verdict}: {node.detail}" if node.detail else str(node.verdict)


def describe_worst(node: NodeDifference) -> str:
    """Returns the worst element of a node in words; "" if none differs."""
    tensor = node.worst_tensor
    return "" if tensor is None or tensor.worst is None else element_text(tensor.name, tensor.worst)


def element_text(tensor: str, worst: Worst) -> str:
    """Returns an element in words: its coordinates, both values, and the elements that it was computed from."""
    at = ", ".join(map(str, worst.index))
    inputs = ", ".join(f"{name} {value!s}" for name, value in worst.inputs.items())
    said = f"{tensor}[{at}] is {worst.actual!s} instead of {worst.exact!s}"
    return f"{said}, from {inputs}" if inputs else said


def ulp_text(value: float) -> str:
    """Returns a distance; "" if it is not known."""
    return "" if math.isnan(value) else f"{value:.4g}"


def percent(share: float) -> str:
    """Returns a share, which is 100 % only if it is whole; "" if it is not known."""
    if math.isnan(share):
        return ""
    rounded = f"{100 * share:.1f} %"
    return "99.9 %" if share < 1 and rounded == "100.0 %" else rounded


def summary_lines(found: Differences) -> Iterator[str]:
    """Yields how many nodes have each verdict and, where errors grow from node to node, the first that is wrong."""
    counts = Counter(str(node.verdict) for node in found.by_severity)
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "no nodes"
    yield f"{found.subject} against {found.side}: {listed}"
    if found.failure:
        yield f"the side failed: {found.failure}"
    if found.unused:
        more = f" and {len(found.unused) - _LISTED} more" if len(found.unused) > _LISTED else ""
        yield f"the side also has {', '.join(found.unused[:_LISTED])}{more}, which the model does not have"
    for folder in found.repros[:_LISTED]:
        yield f"opwire diff {folder} reproduces it alone"
    first = next((node for node in found.nodes if node in found.wrong), None)
    if found.cumulative and first is not None:
        yield f"the first that is wrong, in the order of the model: {title(first)} ({first.operator})"
