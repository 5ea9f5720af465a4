"""The loops of a reduction: any axes and strides, collapsed to the fewest dimensions that visit the same elements.

Dimensions of size 1 are dropped, adjacent dimensions with matching strides are merged, and the kept dimensions are
ordered by the input's memory. This module only plans: every device derives its loops from a ``ReductionLayout``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple

from opwire.tensor import BufferTensorDesc


class Loop(NamedTuple):
    """A dimension to iterate: its size and its element strides in the input and in the output (0 where reduced)."""

    size: int
    source: int
    target: int = 0


class ReductionLayout(NamedTuple):
    """The loops of a reduction, outermost first.

    Attributes:
        kept: loops over the elements of the output.
        reduced: loops over the elements reduced into one output, in logical order unless the caller waived that.
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
    """Returns the loops of a reduction of ``source`` along ``axes`` into ``target``.

    Args:
        source: the input.
        target: the output, of the same rank as the input and of size 1 along ``axes``.
        axes: the reduced dimensions, in any order.
        ordered: whether to visit the reduced elements in row-major order rather than in memory order.
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
    """Returns the loops sorted by input stride, then by output stride, largest outermost."""
    found = list(loops)
    if len(found) > 1:
        found.sort(key=_STEPS, reverse=True)
    return found


_STEPS = attrgetter("source", "target")


def collapse(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """Merges each loop into the enclosing one where a single stride covers both."""
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
    """Yields coordinates in row-major order, lazily; ``numpy.ndindex`` materializes whole dimensions first."""
    if not sizes:
        yield ()
        return
    for outer in coordinates(sizes[:-1]):
        for i in range(sizes[-1]):
            yield (*outer, i)
