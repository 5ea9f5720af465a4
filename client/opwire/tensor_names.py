"""Tensor names: the member's name, or ``MEMBER[0]``, ``MEMBER[1]``, ... for the tensors of an array member."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TypeVar, cast

from .desc import pointer_to

T = TypeVar("T")

_ELEMENT = re.compile(r"(.+)\[(0|[1-9][0-9]{0,9})\]", re.DOTALL)


def element(member: str, index: int) -> str:
    """Returns the name of a tensor of an array member."""
    return f"{member}[{index}]"


def split(name: str) -> tuple[str, int | None]:
    """Splits a tensor's name into its member and, for an array, its index."""
    found = _ELEMENT.fullmatch(name) if name.endswith("]") else None
    return (name, None) if found is None else (found[1], int(found[2]))


def place(pointer: str, name: str) -> str:
    """Returns the pointer to a tensor below an object that has the members."""
    member, index = split(name)
    return pointer_to(pointer, member) if index is None else pointer_to(pointer, member, index)


def arrays(names: Iterable[str]) -> frozenset[str]:
    """Returns the members whose tensors form a complete array: ``MEMBER[0]``, ``MEMBER[1]``, ... in order.

    A graph may have tensors of any names, such as the second alone, or one that is called as an array is.
    """
    listed = list(names)
    runs = [(member, [split(name)[1] for name in run]) for member, run in groupby(listed, lambda name: split(name)[0])]
    counts = Counter((*listed, *(member for member, _ in runs)))
    return frozenset(member for member, indices in runs if counts[member] == 1 and indices == list(range(len(indices))))


def in_groups(tensors: Mapping[str, T]) -> Mapping[str, T]:
    """Returns tensors in the order in which ``grouped`` has them."""
    return ungrouped(grouped(tensors)) if _has_elements(tensors) else tensors


def _has_elements(tensors: Iterable[str]) -> bool:
    for name in tensors:  # noqa: SIM110 # several times as fast as ``any``
        if name[-1:] == "]":
            return True
    return False


def grouped(tensors: Mapping[str, T]) -> dict[str, T | list[T]]:
    """Groups tensors by member: a single tensor, or the list of an array's tensors; others keep their names."""
    if not _has_elements(tensors):  # almost always
        return dict(tensors)
    first: dict[str, int] = {}
    for name in tensors:
        first.setdefault(split(name)[0], len(first))
    names = sorted(tensors, key=lambda name: (first[split(name)[0]], split(name)[1] or 0))
    whole = arrays(names)
    found: dict[str, T | list[T]] = {}
    for name in names:
        member = split(name)[0]
        if member in whole:
            cast(list[T], found.setdefault(member, [])).append(tensors[name])
        else:
            found[name] = tensors[name]
    return found


def ungrouped(members: Mapping[str, T | list[T]]) -> dict[str, T]:
    """The inverse of ``grouped``."""
    found: dict[str, T] = {}
    for member, given in members.items():
        if isinstance(given, list):
            found.update((element(member, i), tensor) for i, tensor in enumerate(given))
        else:
            found[member] = given
    return found
