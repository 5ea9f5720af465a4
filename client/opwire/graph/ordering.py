"""An order of nodes in which each comes after those that it needs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Set


def ordered(needs: Mapping[int, Set[int]]) -> tuple[list[int], list[int]]:
    """The nodes in such an order, those first that come first; and the nodes of a circle, if there is one.

    Args:
        needs: for each node those that it needs, which are nodes as well.
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
    return order, _circle(needs, left) if left else []


def _circle(needs: Mapping[int, Set[int]], left: Set[int]) -> list[int]:
    """The nodes of one circle: each of those that are left needs another one, so going on leads into one."""
    node = min(left)
    seen: dict[int, int] = {}
    while node not in seen:
        seen[node] = len(seen)
        node = min(needs[node] & left)
    path = list(seen)
    return path[seen[node] :][::-1]
