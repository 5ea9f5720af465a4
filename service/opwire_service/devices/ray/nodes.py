"""Devices and names of a cluster's nodes. Pure: Ray's list of nodes is an argument."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

CPU, GPU = "CPU", "GPU"
"""Ray's names of a node's resources."""

MAX_NAME_LENGTH = 100
"""Maximum length of a node's name, in characters."""

_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]+")


class Wanted(NamedTuple):
    """A device of a node.

    Attributes:
        node: ID of the node.
        device: name of the device: ``cpu``, ``cuda:0`` etc.
        threads: number of threads of a CPU; 0 for a GPU.
    """

    node: str
    device: str
    threads: int


def wanted(nodes: Iterable[Mapping[str, Any]], draining: Iterable[str] = ()) -> list[Wanted]:
    """Returns the devices of the nodes that are alive and not draining.

    Args:
        nodes: nodes as listed by ``ray.nodes()``.
        draining: IDs of draining nodes.
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
    """The names of nodes: the name given to a node, or its host name.

    If several nodes have the same name, a part of the ID is appended for those seen later. A silent node gives up its
    name to another one.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __getitem__(self, node: str) -> str:
        return self._names[node]

    def follow(self, nodes: Iterable[Mapping[str, Any]], silent: Container[str] = ()) -> None:
        """Names the nodes that are alive and forgets the others.

        Args:
            nodes: nodes as listed by ``ray.nodes()``.
            silent: IDs of nodes whose devices all have stopped responding.
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
    return _UNUSUAL.sub("-", given)[:MAX_NAME_LENGTH].strip("-") or "node"
