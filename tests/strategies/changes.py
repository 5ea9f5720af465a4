"""Copies of drawn descs with one tensor changed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from .descs import Desc, Drawn

Place = tuple[str | int, ...]
"""A member, or the name of an array and an index into it."""


def tensor_at(place: Place, desc: Desc) -> Desc:
    """Returns one tensor of a desc."""
    found: Any = desc
    for key in place:
        found = found[key]
    tensor: Desc = found
    return tensor


def changed(drawn: Drawn, *place: str | int, **changes: Any) -> Desc:
    """Returns the desc with some members of one tensor changed."""
    desc = deepcopy(drawn.desc)
    tensor_at(place, desc).update(changes)
    return desc


def resized(drawn: Drawn, name: str, at: int, size: int) -> Desc:
    """Returns the desc with another size of one tensor."""
    desc = deepcopy(drawn.desc)
    desc[name]["Sizes"][at] = size
    return desc
