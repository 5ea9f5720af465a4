"""Strided views of tensors: elements in any order, forward or backward, once or repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from opwire.tensor import BufferTensorDesc

from ..layout import Loop, collapse


class StridedDimension(NamedTuple):
    """The size of a dimension and its element stride, which is negative if reversed and 0 if repeated."""

    size: int
    step: int


@dataclass(frozen=True, slots=True)
class View:
    """Elements of a tensor.

    Attributes:
        tensor: number of the tensor within its job.
        offset: offset of the first element.
        dimensions: the dimensions, outermost first.
    """

    tensor: int
    offset: int
    dimensions: tuple[StridedDimension, ...]

    @classmethod
    def of(cls, tensor: int, desc: BufferTensorDesc) -> View:
        """Returns a view of all elements of a tensor."""
        return cls(tensor, 0, tuple(map(StridedDimension, desc.sizes, desc.element_strides)))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(dimension.size for dimension in self.dimensions)

    def taken(self, axis: int, start: int, size: int, step: int = 1) -> View:
        """Slices a dimension; a step of 0 repeats one element."""
        whole = self.dimensions[axis]
        offset = self.offset + start * whole.step
        return replace(self, offset=offset)._with(axis, (StridedDimension(size, step * whole.step),))

    def split(self, axis: int, *sizes: int) -> View:
        """Splits a dimension into several, row-major."""
        step, parts = self.dimensions[axis].step, []
        for size in reversed(sizes):
            parts.append(StridedDimension(size, step))
            step *= size
        return self._with(axis, reversed(parts))

    def repeated(self, axis: int, size: int) -> View:
        """Inserts a broadcast dimension of the given size before ``axis``."""
        return self._with(axis, (StridedDimension(size, 0), self.dimensions[axis]))

    def ordered(self, *axes: int) -> View:
        """Permutes the dimensions."""
        return replace(self, dimensions=tuple(self.dimensions[axis] for axis in axes))

    def _with(self, axis: int, dimensions: Iterable[StridedDimension]) -> View:
        before, after = self.dimensions[:axis], self.dimensions[axis + 1 :]
        return replace(self, dimensions=(*before, *dimensions, *after))


class Copy(NamedTuple):
    """A strided copy of elements.

    Attributes:
        source, target: numbers of the tensors.
        source_offset, target_offset: offsets of the first elements.
        loops: the fewest loops that visit all elements, the smallest target stride innermost; target strides are
            never negative.
        band: half-open range of the diagonals of the two innermost loops to copy; None for all elements.
    """

    source: int
    target: int
    source_offset: int
    target_offset: int
    loops: tuple[Loop, ...]
    band: tuple[int, int] | None = None


def copy(source: View, target: View) -> Copy:
    """Returns the copy from one view to another of the same sizes."""
    assert source.sizes == target.sizes
    source_offset, target_offset, loops = source.offset, target.offset, []
    for (size, step), (_, out) in zip(source.dimensions, target.dimensions, strict=True):
        if size == 1:
            continue
        if out < 0:
            source_offset += (size - 1) * step
            target_offset += (size - 1) * out
            step, out = -step, -out
        loops.append(Loop(size, step, out))
    loops.sort(key=lambda loop: loop.target, reverse=True)
    return Copy(source.tensor, target.tensor, source_offset, target_offset, collapse(loops))


def copy_band(source: View, target: View, begin: int, end: int) -> Copy:
    """Returns the copy of the diagonals ``[begin, end)`` of matrices; diagonals above the main one are positive."""
    pairs = zip(source.dimensions, target.dimensions, strict=True)
    *outer, rows, columns = (Loop(size, step, out) for (size, step), (_, out) in pairs)
    loops = *(loop for loop in outer if loop.size > 1), rows, columns
    return Copy(source.tensor, target.tensor, source.offset, target.offset, loops, (begin, end))


Phases = Sequence[Sequence[Copy]]
"""Phases of copies: order within a phase is free, and each phase may read what earlier ones wrote."""
