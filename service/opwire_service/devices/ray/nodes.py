"""Which devices the nodes of a cluster have, and how they are called. Pure: what Ray says of nodes is an argument."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

CPU, GPU = "CPU", "GPU"
"""The resources of a node, as Ray calls them."""

LONGEST_NAME = 100
"""Characters of a node's name."""

_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]+")


class Wanted(NamedTuple):
    """A device that a node has.

    Attributes:
        node: its id.
        device: ``cpu``, or ``cuda:0`` and so on.
        threads: of a ``cpu``; 0 of a GPU.
    """

    node: str
    device: str
    threads: int


def wanted(nodes: Iterable[Mapping[str, Any]], draining: Iterable[str] = ()) -> list[Wanted]:
    """The devices of the nodes that live and do not drain.

    Args:
        nodes: as ``ray.nodes()`` lists them.
        draining: ids of nodes.
    """
    found, leaving = [], frozenset(draining)
    for node in nodes:
        identity = node["NodeID"]
        if not node["Alive"] or identity in leaving:
            continue
        threads = int(node["Resources"].get(CPU, 0))
        if threads:
            found.append(Wanted(identity, "cpu", threads))
        found += [Wanted(identity, f"cuda:{index}", 0) for index in range(int(node["Resources"].get(GPU, 0)))]
    return found


class Names:
    """The names of nodes: that which the node was given, or its machine's.

    Where several nodes have the same one, those seen later have a part of their id behind it; one that has fallen
    silent leaves its name to another.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __getitem__(self, node: str) -> str:
        return self._names[node]

    def follow(self, nodes: Iterable[Mapping[str, Any]], silent: Container[str] = ()) -> None:
        """Names the nodes that live, as ``ray.nodes()`` lists them, and forgets the others.

        Args:
            silent: ids of nodes that none of their devices is heard of.
        """
        alive = {node["NodeID"]: node for node in nodes if node["Alive"]}
        for gone in self._names.keys() - alive.keys():
            del self._names[gone]
        for identity in sorted(alive.keys() - self._names.keys()):
            name = _name(alive[identity])
            holder = next((each for each, taken in self._names.items() if taken == name), None)
            if holder is not None and holder in silent:
                self._names[holder] = _distinct(name, holder)
                holder = None
            self._names[identity] = name if holder is None else _distinct(name, identity)


def _distinct(name: str, identity: str) -> str:
    return f"{name}-{identity[:8]}"


def _name(node: Mapping[str, Any]) -> str:
    given = str(node.get("NodeName") or "")
    if not given or given == node["NodeManagerAddress"]:
        given = str(node.get("NodeManagerHostname") or node["NodeManagerAddress"])
    return _UNUSUAL.sub("-", given)[:LONGEST_NAME].strip("-") or "node"
