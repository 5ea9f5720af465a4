"""The loops of a reduction: any axes and strides, collapsed to the fewest dimensions that visit the same elements.

A dimension of size 1 vanishes, neighbours whose strides fit become one, and the kept dimensions are put in the order of
the input's memory. Nothing here is copied or run; every device reads its loops off a ``ReductionLayout``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple

from opwire.tensor import BufferTensorDesc


class Loop(NamedTuple):
    """A dimension to walk: its size, and the elements to step in the input and in the output (0 where reduced)."""

    size: int
    source: int
    target: int = 0


class ReductionLayout(NamedTuple):
    """The loops of a reduction, outermost first.

    Attributes:
        kept: one point of these loops is one element of the output.
        reduced: one point is one element that goes into it, in the logical order unless the caller gave that up.
    """

    kept: tuple[Loop, ...]
    reduced: tuple[Loop, ...]

    @property
    def kept_count(self) -> int:
        return prod([loop.size for loop in self.kept])

    @property
    def reduced_count(self) -> int:
        return prod([loop.size for loop in self.reduced])


def reduction_layout(
    source: BufferTensorDesc, target: BufferTensorDesc, axes: Iterable[int], *, ordered: bool = True
) -> ReductionLayout:
    """The loops of a reduction of ``source`` along ``axes`` into ``target``, whose sizes there are 1.

    Args:
        source: the input.
        target: the output; it has the rank of the input.
        axes: the reduced dimensions, in any order.
        ordered: whether the reduced elements must be visited in row-major order; if not, in the order of memory.
    """
    reduced_axes = frozenset(axes)
    kept, reduced = list[Loop](), list[Loop]()
    dimensions = zip(source.sizes, source.element_strides, target.element_strides, strict=True)
    for axis, (size, step, out) in enumerate(dimensions):
        if size == 1:
            continue
        if axis in reduced_axes:
            reduced.append(Loop(size, step))
        else:
            kept.append(Loop(size, step, out))
    if not ordered:
        reduced = by_memory(reduced)
    return ReductionLayout(collapse(by_memory(kept)), collapse(reduced))


def by_memory(loops: Iterable[Loop]) -> list[Loop]:
    """The loops with the widest input stride outermost; of equal ones the wider output stride."""
    found = list(loops)
    if len(found) > 1:
        found.sort(key=_STEPS, reverse=True)
    return found


_STEPS = attrgetter("source", "target")


def collapse(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """Merges each loop with the one outside it where a single stride walks both."""
    if len(loops) < 2:
        return tuple(loops)
    merged: list[Loop] = []
    for loop in loops:
        if merged and merged[-1].source == loop.source * loop.size and merged[-1].target == loop.target * loop.size:
            merged[-1] = Loop(merged[-1].size * loop.size, loop.source, loop.target)
        else:
            merged.append(loop)
    return tuple(merged)


def coordinates(sizes: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """The coordinates of a tensor in row-major order, one at a time: ``numpy.ndindex`` makes whole dimensions first."""
    if not sizes:
        yield ()
        return
    for outer in coordinates(sizes[:-1]):
        for i in range(sizes[-1]):
            yield (*outer, i)
