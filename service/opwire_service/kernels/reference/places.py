"""The coordinates of a tensor, one at a time, for work that may be told to stop in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...execution import Stop, Stopped
from ..layout import coordinates

ASKED = 32
"""Elements between two questions whether to stop: a few milliseconds of slow arithmetic."""


def places(sizes: Sequence[int], stop: Stop, asked: int = ASKED) -> Iterator[tuple[Any, ...]]:
    """The coordinates in row-major order.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    for number, place in enumerate(coordinates(sizes)):
        if number % asked == 0 and stop():
            raise Stopped
        yield place
