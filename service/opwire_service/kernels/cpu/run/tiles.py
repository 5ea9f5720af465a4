"""Tiles of tensors for NumPy operations: views of a few ten thousand elements that fit into a core's cache.

A tile spans the dimensions that belong together, such as the reduced ones, as long as they fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

TILE = 1 << 15
"""Elements in a tile: 256 KiB of float64."""

Slices = tuple[slice, ...]


class Tiles:
    """The tiles of a shape.

    Args:
        sizes: sizes of the dimensions.
        strides: strides by which dimensions are ordered, outermost first.
        together: dimensions that a tile should span completely; together they make up a row.

    Attributes:
        count: number of tiles.
        whole: whether each tile holds whole rows; if not, it holds part of one row.
        tiles_of_row: number of tiles that a row is cut into.
        rows: number of rows.
        length: elements in a row.
    """

    def __init__(self, sizes: Sequence[int], strides: Sequence[int], together: Iterable[int] = ()) -> None:
        reduced = set(together)
        outward = sorted(range(len(sizes)), key=lambda i: -abs(strides[i]))
        kept = [i for i in outward if i not in reduced]
        self._order = [*kept, *(i for i in outward if i in reduced)]
        self._rank = len(sizes)
        ordered = [sizes[i] for i in self._order]
        split = next(i for i in range(len(ordered)) if prod(ordered[i + 1 :]) <= TILE)
        self._grain = max(1, TILE // prod(ordered[split + 1 :]))
        self._sizes = ordered
        self._counts = [*ordered[:split], -(-ordered[split] // self._grain)]
        self.count = prod(self._counts)
        self.whole = split < len(kept) or not reduced or self._counts[len(kept) :] == [1]
        self.tiles_of_row = prod(self._counts[len(kept) :])
        self.rows = prod(ordered[: len(kept)])
        self.length = prod(ordered[len(kept) :])

    def at(self, number: int) -> Slices:
        """Returns a tile's slices, one for each dimension."""
        found = [slice(None)] * self._rank
        last = len(self._counts) - 1
        for i in range(last, -1, -1):
            number, place = divmod(number, self._counts[i])
            step = self._grain if i == last else 1
            found[self._order[i]] = slice(place * step, min((place + 1) * step, self._sizes[i]))
        return tuple(found)
