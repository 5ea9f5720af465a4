"""Tensors with dimensions in the order of the input's strides, in which tiles are copied and traversed fastest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opwire.tensor import Array, BufferTensorDesc

from .tiles import Slices, Tiles


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Dimension order for an operator whose tensors have the same shape or broadcast to it.

    Attributes:
        order: the tensor dimension at each arranged position, by descending stride.
        axes: arranged positions of the axes that make up a row.
        tiles: tiles of the arranged shape.
    """

    order: tuple[int, ...]
    axes: tuple[int, ...]
    tiles: Tiles

    @classmethod
    def of(cls, desc: BufferTensorDesc, axes: Iterable[int] = ()) -> Arrangement:
        """Returns the arrangement of an input whose rows extend along ``axes``."""
        strides = desc.element_strides
        order = tuple(sorted(range(desc.rank), key=lambda i: -strides[i]))
        along = tuple(sorted(order.index(axis) for axis in axes))
        tiles = Tiles([desc.sizes[i] for i in order], [strides[i] for i in order], along)
        return cls(order, along, tiles)

    @property
    def neighbors(self) -> bool:
        """Whether a row's elements are contiguous in a tile, so that NumPy sums them pairwise."""
        return self.axes == tuple(range(len(self.order) - len(self.axes), len(self.order)))

    def sums(self, x: Array) -> Array:
        """Returns the sum of each row of a C-contiguous tile with whole rows; it broadcasts to the tile."""
        if not self.neighbors:
            total: Array = x.sum(self.axes, keepdims=True)
            return total
        kept = x.shape[: x.ndim - len(self.axes)]
        return x.reshape(*kept, -1).sum(-1).reshape(*kept, *(1 for _ in self.axes))

    def arranged(self, array: Array) -> Array:
        """Returns a view in this order, in which broadcast dimensions (stride 0) have one element."""
        view = array.transpose(self.order)
        return view[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in view.strides)]

    def whole_row(self, place: Sequence[int], at: Slices) -> Slices:
        """Returns the slices of the whole row that contains an element, given by its place in a tile."""
        return tuple(
            slice(None) if i in self.axes else slice((part.start or 0) + k, (part.start or 0) + k + 1)
            for i, (k, part) in enumerate(zip(place, at, strict=True))
        )

    def row(self, number: int) -> Slices:
        """Returns the slices of a row, where a tile holds only part of one."""
        at = self.tiles.at(number * self.tiles.tiles_of_row)
        return tuple(slice(None) if i in self.axes else part for i, part in enumerate(at))


def part_of(array: Array, at: Slices) -> Array:
    """Returns the part of an arranged tensor at a tile's slices; broadcast dimensions keep their one element."""
    return array[tuple(slice(None) if size == 1 else part for size, part in zip(array.shape, at, strict=True))]
