"""Tensor names: the member's name, or ``MEMBER[0]``, ``MEMBER[1]``, ... for the tensors of an array member."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from typing import TypeVar

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


def grouped(tensors: Mapping[str, T]) -> dict[str, T | list[T]]:
    """Groups tensors by member: a single tensor, or the list of an array's tensors, which must be consecutive."""
    found: dict[str, T | list[T]] = {}
    for member, names in groupby(tensors, lambda name: split(name)[0]):
        listed = list(names)
        is_array = split(listed[0])[1] is not None
        found[member] = [tensors[name] for name in listed] if is_array else tensors[listed[0]]
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
