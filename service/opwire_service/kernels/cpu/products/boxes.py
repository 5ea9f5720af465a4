"""Boxes that cut the extents of a product into tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import overload

Box = tuple[slice, ...]

LEAST_WORK = 1 << 22
"""Number of products below which waking another thread takes longer than computing them."""


LEAST_SHARED_WORK = 1 << 18
"""The same for threads that share tiles in machine code."""


def least_tiles(work: int, threads: int, *, shared: bool = False) -> int:
    """Returns the minimum number of tiles for ``work`` products: one per thread, or 1 if tiles would be too small.

    Args:
        work: number of products.
        threads: number of threads.
        shared: whether threads share tiles in machine code.
    """
    return 1 if work < (LEAST_SHARED_WORK if shared else LEAST_WORK) else threads


def halved(extents: Sequence[int], most: int) -> list[int]:
    """Returns sizes of boxes of at most ``most`` elements; the first dimension that can be cut is cut first."""
    sizes = list(extents)
    while prod(sizes) > most and max(sizes) > 1:
        i = next(i for i, size in enumerate(sizes) if size > 1)
        sizes[i] = -(-sizes[i] // 2)
    return sizes


class Boxes(Sequence[Box]):
    """The boxes that make up some extents, created on access because there may be many.

    Args:
        extents: sizes of the whole.
        sizes: sizes of a box; those at the ends may be smaller.
    """

    def __init__(self, extents: Sequence[int], sizes: Sequence[int]) -> None:
        self._pairs = list(zip(extents, sizes, strict=True))
        self._counts = [-(-extent // size) for extent, size in self._pairs]

    def __len__(self) -> int:
        return prod(self._counts)

    @overload
    def __getitem__(self, i: int) -> Box: ...

    @overload
    def __getitem__(self, i: slice) -> Sequence[Box]: ...

    def __getitem__(self, i: int | slice) -> Box | Sequence[Box]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        if not 0 <= i < len(self):
            raise IndexError(i)
        box = []
        for (extent, size), count in zip(reversed(self._pairs), reversed(self._counts), strict=True):
            i, at = divmod(i, count)
            box.append(slice(at * size, min((at + 1) * size, extent)))
        return tuple(reversed(box))
