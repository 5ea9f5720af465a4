"""Index semantics: negative indices count from the end; out of range, reads clamp and writes are dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opwire.tensor import Array

from ...execution import Stop
from .moves import Coordinate, bits, paced


def counted(index: int, size: int) -> int:
    """Returns an index counted from the start of the dimension; it may be out of range."""
    return index + size if index < 0 else index


def clamped(index: int, size: int) -> int:
    """Returns the index of the element to read."""
    return max(0, min(counted(index, size), size - 1))


def found(indices: Sequence[int], sizes: Sequence[int]) -> Coordinate | None:
    """Returns the place to write, or None if it is out of range."""
    place = tuple(counted(index, size) for index, size in zip(indices, sizes, strict=True))
    inside = all(0 <= at < size for at, size in zip(place, sizes, strict=True))
    return place if inside else None


def tuples(indices: Array, stop: Stop) -> Iterator[tuple[Coordinate, list[int]]]:
    """Yields the index tuples along the last dimension, in row-major order, each with its leading coordinate."""
    for coordinate in paced(indices.shape[:-1], stop):
        yield coordinate, [int(indices[(*coordinate, i)]) for i in range(indices.shape[-1])]


def copy(source: Array, target: Array, stop: Stop) -> None:
    """Copies a slice of any size."""
    source, target = bits(source), bits(target)
    for coordinate in paced(target.shape, stop):
        target[coordinate] = source[coordinate]
