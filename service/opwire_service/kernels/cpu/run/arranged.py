"""Tensors in the order of the input's memory, which is the order in which tiles are copied and walked fastest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opwire.tensor import Array, BufferTensorDesc

from .tiles import Slices, Tiles


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The dimensions of an operator whose tensors have one shape, or broadcast to it.

    Attributes:
        order: the dimension of the tensors that each is.
        axes: those along which a row lies.
        tiles: of them.
    """

    order: tuple[int, ...]
    axes: tuple[int, ...]
    tiles: Tiles

    @classmethod
    def of(cls, desc: BufferTensorDesc, axes: Iterable[int] = ()) -> Arrangement:
        """The arrangement of an input with rows along axes."""
        strides = desc.element_strides
        order = tuple(sorted(range(desc.rank), key=lambda i: -strides[i]))
        along = tuple(sorted(order.index(axis) for axis in axes))
        tiles = Tiles([desc.sizes[i] for i in order], [strides[i] for i in order], along)
        return cls(order, along, tiles)

    @property
    def neighbours(self) -> bool:
        """Whether the elements of a row that a tile has follow each other in it, so that they are added up in pairs."""
        return self.axes == tuple(range(len(self.order) - len(self.axes), len(self.order)))

    def sums(self, x: Array) -> Array:
        """The sum of each row of a tile that has whole rows, C-contiguous, in an array that broadcasts to it."""
        if not self.neighbours:
            total: Array = x.sum(self.axes, keepdims=True)
            return total
        kept = x.shape[: x.ndim - len(self.axes)]
        return x.reshape(*kept, -1).sum(-1).reshape(*kept, *(1 for _ in self.axes))

    def arranged(self, array: Array) -> Array:
        """A view in this order, in which dimensions that repeat have one element."""
        view = array.transpose(self.order)
        return view[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in view.strides)]

    def row(self, number: int) -> Slices:
        """The slices of the row of a tile that has a part of one."""
        at = self.tiles.at(number * self.tiles.tiles_of_row)
        return tuple(slice(None) if i in self.axes else part for i, part in enumerate(at))


def part_of(array: Array, at: Slices) -> Array:
    """The part of an arranged tensor at the slices of a tile: of what repeats its one element."""
    return array[tuple(slice(None) if size == 1 else part for size, part in zip(array.shape, at, strict=True))]
