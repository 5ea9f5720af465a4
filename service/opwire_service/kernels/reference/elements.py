"""The elements that contribute to an output element, read in chunks of bounded size whatever their strides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from opwire.tensor import Array

from ...execution import Stop, Stopped
from ..layout import coordinates

CHUNK = 16384
"""Elements per chunk: a few milliseconds of exact arithmetic."""


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a view in row-major order. With strides of 0, a view may have 2**32 elements in 4 bytes.

    Attributes:
        view: an array of any shape and strides.
        stop: polled before each chunk.
        chunk: elements per chunk; the last one may be shorter.
    """

    view: Array
    stop: Stop
    chunk: int = CHUNK

    def __iter__(self) -> Iterator[Array]:
        """Yields copies of the elements as 1-dimensional chunks.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        for start in range(0, self.view.size, self.chunk):
            if self.stop():
                raise Stopped
            yield self.view.flat[start : start + self.chunk]


def groups(axes: tuple[int, ...], source: Array, target: Array) -> Iterator[tuple[Array, Array]]:
    """Yields the parts of a reduction: views of the elements reduced together and of their output element.

    The first view has the axes as its dimensions, in ascending order; the second has one element.
    """
    reduced = sorted(axes)
    kept = [i for i in range(source.ndim) if i not in axes]
    source, target = source.transpose(kept + reduced), target.transpose(kept + reduced)
    for coordinate in coordinates(source.shape[: len(kept)]):
        yield source[(*coordinate, ...)], target[(*coordinate, ...)]
