"""The elements that go into one element of an output, read in bounded pieces whatever their strides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from opwire.tensor import Array

from ...execution import Stop, Stopped
from ..layout import coordinates

CHUNK = 16384
"""Elements read at a time: a few milliseconds of exact arithmetic."""


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a view in row-major order. A view with strides of 0 may have 2**32 of them in 4 bytes.

    Attributes:
        view: any shape and strides.
        stop: asked before each chunk.
        chunk: elements in a chunk, the last one may have fewer.
    """

    view: Array
    stop: Stop
    chunk: int = CHUNK

    def __iter__(self) -> Iterator[Array]:
        """Copies of the elements, chunk by chunk, 1-dimensional.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        for start in range(0, self.view.size, self.chunk):
            if self.stop():
                raise Stopped
            yield self.view.flat[start : start + self.chunk]


def groups(axes: tuple[int, ...], source: Array, target: Array) -> Iterator[tuple[Array, Array]]:
    """The parts of a reduction: views of the elements reduced together, and of the output element they go to.

    The dimensions of the first view are the axes in ascending order; the second has one element.
    """
    reduced = sorted(axes)
    kept = [i for i in range(source.ndim) if i not in axes]
    source, target = source.transpose(kept + reduced), target.transpose(kept + reduced)
    for coordinate in coordinates(source.shape[: len(kept)]):
        yield source[(*coordinate, ...)], target[(*coordinate, ...)]
