"""Iteration over the coordinates of a tensor that can be stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...execution import Stop, Stopped
from ..layout import coordinates

POLL_EVERY = 32
"""Elements between polls of ``stop``: a few milliseconds of slow arithmetic."""


def places(sizes: Sequence[int], stop: Stop, poll_every: int = POLL_EVERY) -> Iterator[tuple[Any, ...]]:
    """Yields the coordinates in row-major order.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    for number, place in enumerate(coordinates(sizes)):
        if number % poll_every == 0 and stop():
            raise Stopped
        yield place


def group_at(place: Iterable[int], sizes: Iterable[int]) -> tuple[slice, ...]:
    """Returns the index of the elements that share one element of a tensor broadcast along dimensions of size 1."""
    return tuple(slice(None) if size == 1 else slice(at, at + 1) for at, size in zip(place, sizes, strict=True))
