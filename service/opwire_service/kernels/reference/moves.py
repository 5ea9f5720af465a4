"""Elements that are moved: each element of an output is one of an input, bit for bit, or a constant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from opwire.tensor import Array

from ...execution import Stop, Stopped
from ..layout import coordinates

Coordinate = tuple[int, ...]

PACE = 1024
"""Elements between two questions whether to stop: a few milliseconds."""


def paced(sizes: Sequence[int], stop: Stop) -> Iterator[Coordinate]:
    """The coordinates of a tensor in row-major order.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    for count, coordinate in enumerate(coordinates(sizes)):
        if count % PACE == 0 and stop():
            raise Stopped
        yield coordinate


def bits(array: Array) -> Array:
    """The same elements as unsigned integers, which are copied as they are, NaN too."""
    return array.view(np.dtype(f"<u{array.dtype.itemsize}"))


def view_at(array: Array, place: Sequence[int]) -> Array:
    """What stands at a place of the outermost dimensions: a view, of a single element too."""
    index: tuple[Any, ...] = (*place, ...)
    view: Array = array[index]
    return view


def move(
    source: Array, target: Array, place: Callable[[Coordinate], Coordinate | None], stop: Stop, otherwise: int = 0
) -> None:
    """Fills a tensor with elements of another one.

    Args:
        source: where the elements come from.
        target: all of it is written.
        place: says for a coordinate of the target which one of the source goes there, None for no one.
        stop: asked now and then.
        otherwise: the bits of an element where none goes.
    """
    source, target = bits(source), bits(target)
    for coordinate in paced(target.shape, stop):
        found = place(coordinate)
        target[coordinate] = otherwise if found is None else source[found]


def bits_of(number: float, dtype: np.dtype[np.generic]) -> int:
    """The bits of a number that a type can hold."""
    return int(bits(np.array(number, dtype)))
