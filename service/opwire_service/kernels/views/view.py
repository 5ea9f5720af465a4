"""A view of a tensor: where its elements lie, in any order, forwards or backwards, each once or repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from opwire.tensor import BufferTensorDesc

from ..layout import Loop, collapse


class StridedDimension(NamedTuple):
    """How many elements there are, and the step in memory from one to the next: backwards, or 0 where it repeats."""

    size: int
    step: int


@dataclass(frozen=True, slots=True)
class View:
    """Elements of a tensor.

    Attributes:
        tensor: the number of the tensor among those of a job.
        offset: of the first element.
        dimensions: outermost first.
    """

    tensor: int
    offset: int
    dimensions: tuple[StridedDimension, ...]

    @classmethod
    def of(cls, tensor: int, desc: BufferTensorDesc) -> View:
        """All elements of a tensor."""
        return cls(tensor, 0, tuple(map(StridedDimension, desc.sizes, desc.element_strides)))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(dimension.size for dimension in self.dimensions)

    def taken(self, axis: int, start: int, size: int, step: int = 1) -> View:
        """Some elements of a dimension: every one from ``start`` on, every second, or one again and again."""
        whole = self.dimensions[axis]
        offset = self.offset + start * whole.step
        return replace(self, offset=offset)._with(axis, (StridedDimension(size, step * whole.step),))

    def split(self, axis: int, *sizes: int) -> View:
        """A dimension as several, row-major."""
        step, parts = self.dimensions[axis].step, []
        for size in reversed(sizes):
            parts.append(StridedDimension(size, step))
            step *= size
        return self._with(axis, reversed(parts))

    def repeated(self, axis: int, size: int) -> View:
        """With a dimension more, before one: all elements again and again."""
        return self._with(axis, (StridedDimension(size, 0), self.dimensions[axis]))

    def ordered(self, *axes: int) -> View:
        """The dimensions in another order."""
        return replace(self, dimensions=tuple(self.dimensions[axis] for axis in axes))

    def _with(self, axis: int, dimensions: Iterable[StridedDimension]) -> View:
        before, after = self.dimensions[:axis], self.dimensions[axis + 1 :]
        return replace(self, dimensions=(*before, *dimensions, *after))


class Copy(NamedTuple):
    """Elements to copy.

    Attributes:
        source, target: numbers of tensors.
        source_offset, target_offset: of the first element.
        loops: the fewest that visit all elements, the narrowest step in the target innermost; none goes backwards in
            the target.
        band: of which diagonals of the two innermost loops elements are copied; None for all, of any loops.
    """

    source: int
    target: int
    source_offset: int
    target_offset: int
    loops: tuple[Loop, ...]
    band: tuple[int, int] | None = None


def copy(source: View, target: View) -> Copy:
    """What copies the elements of one view to the places of another one of the same sizes."""
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
    """What copies of matrices the diagonals from ``begin`` to before ``end``: those above the main one are positive."""
    pairs = zip(source.dimensions, target.dimensions, strict=True)
    *outer, rows, columns = (Loop(size, step, out) for (size, step), (_, out) in pairs)
    loops = *(loop for loop in outer if loop.size > 1), rows, columns
    return Copy(source.tensor, target.tensor, source.offset, target.offset, loops, (begin, end))


Phases = Sequence[Sequence[Copy]]
"""Copies that can be made in any order, and those that read what the ones before have written."""
