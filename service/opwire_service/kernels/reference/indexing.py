"""The one rule for indices: negative ones count from the end; outside, the nearest is read and nothing written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opwire.tensor import Array

from ...execution import Stop
from .moves import Coordinate, bits, paced


def counted(index: int, size: int) -> int:
    """An index of a dimension counted from its start; it may lie outside."""
    return index + size if index < 0 else index


def clamped(index: int, size: int) -> int:
    """The element that is read."""
    return max(0, min(counted(index, size), size - 1))


def found(indices: Sequence[int], sizes: Sequence[int]) -> Coordinate | None:
    """The place that is written, or None if it lies outside."""
    place = tuple(counted(index, size) for index, size in zip(indices, sizes, strict=True))
    inside = all(0 <= at < size for at, size in zip(place, sizes, strict=True))
    return place if inside else None


def tuples(indices: Array, stop: Stop) -> Iterator[tuple[Coordinate, list[int]]]:
    """The tuples along the last dimension of the indices, in row-major order, each with its coordinate before it."""
    for coordinate in paced(indices.shape[:-1], stop):
        yield coordinate, [int(indices[(*coordinate, i)]) for i in range(indices.shape[-1])]


def copy(source: Array, target: Array, stop: Stop) -> None:
    """Copies a slice, whatever its size."""
    source, target = bits(source), bits(target)
    for coordinate in paced(target.shape, stop):
        target[coordinate] = source[coordinate]
