"""Topological sorting."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Set


def ordered(needs: Mapping[int, Set[int]]) -> tuple[list[int], list[int]]:
    """Sorts nodes topologically, keeping their order where possible.

    Args:
        needs: the dependencies of each node, which must be nodes too.

    Returns:
        The nodes in order, and the nodes of a cycle, if there is one.
    """
    missing = {node: len(needed) for node, needed in needs.items()}
    users: dict[int, list[int]] = {node: [] for node in needs}
    for node, needed in needs.items():
        for each in needed:
            users[each].append(node)
    ready = deque(node for node, count in missing.items() if count == 0)
    order = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for user in users[node]:
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    left = {node for node, count in missing.items() if count > 0}
    return order, _cycle(needs, left) if left else []


def _cycle(needs: Mapping[int, Set[int]], left: Set[int]) -> list[int]:
    """Returns the nodes of one cycle: each remaining node needs another one, so following them leads into a cycle."""
    node = min(left)
    seen: dict[int, int] = {}
    while node not in seen:
        seen[node] = len(seen)
        node = min(needs[node] & left)
    path = list(seen)
    return path[seen[node] :][::-1]
