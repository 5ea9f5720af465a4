"""Products on the tensors of a run: matrices times matrices, or filters times the columns of a convolution."""

from __future__ import annotations

from operator import mul
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from opwire.tensor import Array

from ...convolutions import PhaseDimension
from ..jit.compiler import Kernel
from ..run.pool import Find
from .boxes import Box
from .calls import CALLS, CLEAR
from .finishing import Finish
from .multiplying import MULTIPLY
from .packing import PACK
from .single_rows import MULTIPLY_ROW
from .unfolding import UNFOLD
from .widening import WIDEN
from .window import SPATIAL, Window
from .workspace import Sizes

Tile: TypeAlias = tuple[Any, ...]
"""First batch index, then slices: matrices, rows, images, and positions; those of a matrix are its columns."""


def tile_of(box: Box) -> Tile:
    """Returns a box of a product as a tile."""
    batch, *inner = box
    return batch.start, *inner


class Located(NamedTuple):
    """An array with its address, because NumPy is slow to return it."""

    array: Array
    address: int
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: Array) -> Located:
        return cls(array, array.ctypes.data, array.strides)

    def at(self, *place: int) -> int:
        """Returns the address of an element; omitted indices are 0."""
        return self.address + sum(map(mul, place, self.strides))


class Columns(NamedTuple):
    """The right operand: a matrix, or the columns of a convolution's input, as a window sees them.

    Attributes:
        source: ``[batch, matrices, channels, images, *spatial]``; a matrix has a channel per row and a single image.
        lines: its spatial dimensions; those of a matrix are its columns.
        zero_point: integer that stands for 0.
    """

    source: Located
    lines: tuple[PhaseDimension, ...]
    zero_point: int = 0

    @classmethod
    def of_matrices(cls, matrices: Array) -> Columns:
        """Returns the columns of ``[batch, matrices, rows, columns]``."""
        count = matrices.shape[3]
        line = PhaseDimension(count, 0, 1, count, 0, 1, 1, 0, 1, 0)
        return cls(Located.of(matrices[:, :, :, None]), (line,))

    def window(self, tile: Tile) -> Window:
        """Returns the window through which kernels read the columns of a tile."""
        source = self.source.array
        _, group, channel, image, *steps = (step // source.itemsize for step in source.strides)
        axes = [
            (step, line.taps, line.size, line.base + at.start * line.step, line.step, line.turn, at.stop - at.start)
            for step, line, at in zip(steps, self.lines, tile[4:], strict=True)
        ]
        axes = [(0, 1, 1, 0, 1, 0, 1)] * (SPATIAL - len(axes)) + axes
        images = tile[3].stop - tile[3].start
        return Window(group=group, channel=channel, image=image, images=images, zero_point=self.zero_point, axes=axes)

    def move(self, window: Window, tile: Tile) -> None:
        """Moves a window to another tile of the same shape."""
        for i, (line, place) in enumerate(zip(self.lines, tile[4:], strict=True)):
            window.axes[SPATIAL - len(self.lines) + i].base = line.base + place.start * line.step

    def start(self, tile: Tile) -> int:
        """Returns the address of the first image of a tile."""
        return self.source.at(tile[0], tile[1].start, 0, tile[3].start)

    def corner(self, tile: Tile, channel: int) -> int:
        """Returns the address of the first column of a matrix, in the row of a channel."""
        starts = (line.base + at.start * line.step for line, at in zip(self.lines, tile[4:], strict=True))
        return self.source.at(tile[0], tile[1].start, channel, tile[3].start, *starts)

    def matrices(self, tile: Tile) -> Array | None:
        """Returns the columns of a tile as a view ``[matrices, rows, columns]``, or None if there is no such view."""
        inner = []
        for line, at in zip(self.lines, tile[4:], strict=True):
            if line.taps > 1 or line.base < 0 or line.base + (line.length - 1) * line.step >= line.size:
                return None
            begin, last = (line.base + j * line.step for j in (at.start, at.stop - 1))
            inner.append(slice(begin, last + 1, line.step))
        view: Array = self.source.array[(tile[0], tile[1], slice(None), tile[3], *inner)]
        try:
            return view.reshape(*view.shape[:2], -1, copy=False)
        except ValueError:
            return None


class Product(NamedTuple):
    """The products of a run.

    Attributes:
        left: ``[batch, matrices, rows, depth]``.
        columns: the right operand.
        addend: what is added to the sums, broadcast to the shape of the target, or None.
        target: ``[batch, matrices, rows, images, *positions]``.
        sizes: workspace sizes of a tile.
        finish: how sums are finished, or None where the caller of ``sums`` does that.
        find: returns the kernels.
        is_left_fixed: whether no run changes the left operand.
        is_repeated: whether it runs again on the same tensors, so that preparing every tile pays off.
    """

    left: Located
    columns: Columns
    addend: Located | None
    target: Located
    sizes: Sizes
    finish: Finish | None
    find: Find
    is_left_fixed: bool = False
    is_repeated: bool = False

    @property
    def depth(self) -> int:
        """Number of products in a sum."""
        return self.left.array.shape[3]

    @property
    def parts(self) -> list[slice]:
        """The products in a sum, cut into those that are summed at once."""
        return [slice(k, min(k + self.sizes.depth, self.depth)) for k in range(0, self.depth, self.sizes.depth)]

    @property
    def is_compiled(self) -> bool:
        """Whether kernels finish the sums."""
        return self.finish is not None and self.finish.is_compiled

    @property
    def layout(self) -> tuple[tuple[int, ...] | None, ...]:
        """The strides of the arrays."""
        addend = None if self.addend is None else self.addend.strides
        return self.left.strides, self.columns.source.strides, addend, self.target.strides


def kernels_of(dtype: np.dtype[Any], left: np.dtype[Any]) -> tuple[Kernel, ...]:
    """Returns the kernels that sum products, for types of the columns and of the left operand."""
    matrices = (PACK[dtype.type], MULTIPLY_ROW[dtype.type]) if dtype.type in PACK else ()
    return CALLS, CLEAR, WIDEN[left.type], *matrices, UNFOLD[dtype.type], MULTIPLY
