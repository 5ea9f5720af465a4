"""Shared by operators along several axes. DirectML accepts an axis that is given twice; it counts once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..operator import Attributes


def distinct(axes: Iterable[int]) -> tuple[int, ...]:
    """Returns the axes without repetitions."""
    return tuple(dict.fromkeys(axes))


class AlongAxes(Attributes):
    """The attributes of an operator along ``Axes``, each of which it has once."""

    def __init__(self, *, Axes: Iterable[int], **values: Any) -> None:
        super().__init__(**values, Axes=distinct(Axes))
