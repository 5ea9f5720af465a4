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
    return _arrays({name: split(name) for name in names})


def _arrays(parts: Mapping[str, tuple[str, int | None]]) -> frozenset[str]:
    runs = [(member, [index for _, index in run]) for member, run in groupby(parts.values(), lambda part: part[0])]
    counts = Counter((*parts, *(member for member, _ in runs)))
    return frozenset(member for member, indices in runs if counts[member] == 1 and indices == list(range(len(indices))))


def grouped(tensors: Mapping[str, T]) -> dict[str, T | list[T]]:
    """Groups tensors by member: a single tensor, or the list of an array's tensors; others keep their names."""
    if "]" not in "".join(tensors):  # almost always
        return dict(tensors)
    split_names = [(name, split(name)) for name in tensors]
    first: dict[str, int] = {}
    for _, (member, _) in split_names:
        first.setdefault(member, len(first))
    parts = dict(sorted(split_names, key=lambda item: (first[item[1][0]], item[1][1] or 0)))
    whole = _arrays(parts)
    found: dict[str, T | list[T]] = {}
    for name, (member, _) in parts.items():
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
