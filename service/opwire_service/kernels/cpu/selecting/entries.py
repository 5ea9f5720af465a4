"""Elements with their positions in a sequence, sorted by both: of equal elements, the first comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opwire.tensor import Array

_PLACE = 32
"""Bits of a position, enough for any tensor."""


class Entries(NamedTuple):
    """Keys and positions along the last dimension, or both combined in one number if keys are short enough.

    Attributes:
        keys: keys, or keys and positions combined.
        places: None if positions are part of the keys.
    """

    keys: Array
    places: Array | None = None

    @classmethod
    def of(cls, keys: Array, start: int) -> Entries:
        """Returns the entries of consecutive elements, the first of which has position ``start``."""
        places = np.arange(start, start + keys.shape[-1], dtype=np.uint64)
        if keys.dtype.itemsize < 8:
            joined = np.left_shift(keys, np.uint64(_PLACE), dtype=np.uint64)
            joined |= places
            return cls(joined)
        return cls(keys, np.broadcast_to(places, keys.shape))

    @classmethod
    def chosen(cls, keys: Array, places: Array, *, is_wide: bool) -> Entries:
        """Returns entries that are already sorted; 64-bit keys compare as signed numbers."""
        if is_wide:
            return cls(keys ^ np.uint64(1 << 63), places)
        return cls((keys << np.uint64(_PLACE)) | places)

    def first(self, count: int) -> Entries:
        """Returns the first ``count`` of each row, sorted. Separate positions of equal keys must be in order."""
        if self.places is not None:
            order = np.argsort(self.keys, axis=-1, kind="stable")[..., :count]
            return Entries(
                np.take_along_axis(self.keys, order, -1),
                np.take_along_axis(self.places, order, -1),
            )
        keys = self.keys
        if count * 4 < keys.shape[-1]:
            keys.partition(count - 1, axis=-1)
            keys = keys[..., :count]
        keys.sort(axis=-1)
        return Entries(keys[..., :count])

    def found(self) -> Array:
        """Returns the positions."""
        return self.keys & np.uint64((1 << _PLACE) - 1) if self.places is None else self.places

    def slice(self, begin: int, end: int) -> Entries:
        places = None if self.places is None else self.places[begin:end]
        return Entries(self.keys[begin:end], places)


def joined(parts: Sequence[Entries]) -> Entries:
    """Concatenates parts."""
    keys = np.concatenate([part.keys for part in parts])
    if parts[0].places is None:
        return Entries(keys)
    return Entries(keys, np.concatenate([part.places for part in parts if part.places is not None]))


def cuts(parts: Sequence[Entries], number: int) -> list[list[int]]:
    """Cuts sorted parts into intervals, such that everything in one interval precedes everything in the next.

    The parts hold consecutive elements, in the order of the sequence. Each interval has about the same number of
    entries, at most about twice the average; the first cut is the beginning and the last one the end.

    Args:
        parts: each sorted, with at least one entry.
        number: approximate number of intervals.
    """
    total = sum(part.keys.size for part in parts)
    step = max(1, total // (4 * number))
    sampled = [(part.keys[i], which, i) for which, part in enumerate(parts) for i in range(0, part.keys.size, step)]
    sampled.sort(key=lambda sample: (int(sample[0]), sample[1], sample[2]))
    found = [[0] * len(parts)]
    for key, which, place in sampled[4::4]:
        # Equal keys in earlier parts come first.
        found.append(
            [
                place if i == which else int(np.searchsorted(part.keys, key, "right" if i < which else "left"))
                for i, part in enumerate(parts)
            ]
        )
    return [*found, [part.keys.size for part in parts]]
