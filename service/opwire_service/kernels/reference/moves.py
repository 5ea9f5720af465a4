"""Element moves: each output element is a bitwise copy of an input element, or a constant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from opwire.tensor import Array

from ...execution import Stop, Stopped
from ..layout import coordinates

Coordinate = tuple[int, ...]

PACE = 1024
"""Elements between polls of ``stop``: a few milliseconds."""


def paced(sizes: Sequence[int], stop: Stop) -> Iterator[Coordinate]:
    """Yields the coordinates of a tensor in row-major order.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    for count, coordinate in enumerate(coordinates(sizes)):
        if count % PACE == 0 and stop():
            raise Stopped
        yield coordinate


def bits(array: Array) -> Array:
    """Views the elements as unsigned integers, which copy bit for bit, NaN included."""
    return array.view(np.dtype(f"<u{array.dtype.itemsize}"))


def view_at(array: Array, place: Sequence[int]) -> Array:
    """Returns the view at a place of the outermost dimensions; of a single element, too."""
    index: tuple[Any, ...] = (*place, ...)
    view: Array = array[index]
    return view


def move(
    source: Array, target: Array, place: Callable[[Coordinate], Coordinate | None], stop: Stop, otherwise: int = 0
) -> None:
    """Fills a tensor with elements of another one.

    Args:
        source: the tensor to read.
        target: the tensor to write, in full.
        place: maps a target coordinate to its source coordinate, or to None for a constant.
        stop: polled regularly.
        otherwise: the bits of the constant.
    """
    source, target = bits(source), bits(target)
    for coordinate in paced(target.shape, stop):
        found = place(coordinate)
        target[coordinate] = otherwise if found is None else source[found]


def bits_of(number: float, dtype: np.dtype[np.generic]) -> int:
    """Returns the bits of a number in a type that can represent it."""
    return int(bits(np.array(number, dtype)))
