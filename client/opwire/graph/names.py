"""Names for nodes that have none, or whose names are repeated or mean something else in a graph in named form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..desc import is_object
from .form import LONGEST_NAME, MOST_NODES

INPUT = "input:"
"""Prefix of a source that is an input of the graph."""

_LONGEST_END = len(f"#{10 * MOST_NODES}")
"""Maximum length of what follows a repeated name."""


class NodeNames:
    """Unique names for the nodes of a list, in which names may be missing or repeated.

    Args:
        used: names that are in use already.
    """

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = set(used)
        self._next: dict[str, int] = {}
        """The next number to try after each name, so that repeated names are not searched again and again."""

    def of(self, node: Any, index: int) -> str:
        """Returns the name of a node; an invalid name counts as missing."""
        desc = node.get("Desc") if is_object(node) else None
        given = desc.get("Name") if is_object(desc) else None
        return self.claim(given if isinstance(given, str) and 0 < len(given) <= LONGEST_NAME else f"{index}", index)

    def claim(self, name: str, number: int) -> str:
        """Returns a name, followed by a number from ``number`` on if it is in use already."""
        stem = name[: LONGEST_NAME - _LONGEST_END]
        while name in self._used:
            number = max(number, self._next.get(stem, 0))
            self._next[stem] = number + 1
            name = f"{stem}#{number}"
        self._used.add(name)
        return name


def unmistakable(names: Iterable[str], slots: Sequence[Iterable[str]]) -> list[str]:
    """Returns unique names for nodes that cannot be mistaken for an input of the graph or a tensor of another node.

    Args:
        names: the names of the nodes.
        slots: the outputs of each node.
    """
    found = _unique(name.replace(":", "_", 1) if name.startswith(INPUT) else name for name in names)
    spelled = {f"{name}.{slot}" for name, listed in zip(found, slots, strict=True) for slot in listed}
    return found if spelled.isdisjoint(found) else _unique(name.replace(".", "_") for name in found)


def _unique(names: Iterable[str]) -> list[str]:
    claimed = NodeNames()
    return [claimed.claim(name, i) for i, name in enumerate(names)]
