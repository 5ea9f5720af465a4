"""The kernel that keeps the few best of each row of keys, in their order."""

from __future__ import annotations

from ..jit.compiler import inlined, kernel
from ..jit.element import int32, int64, load, store
from ..run.geometry import at

COUNT, LENGTH, IS_WIDE = range(3)
"""Slots: how many are kept, how long a row is, and whether keys have 64 bits, or 32."""

FEW = 128
"""The most that are kept: each better one is put in its place among them, one step after the other."""

SIGN = -(1 << 63)


@inlined
def _key(keys: int, index: int, is_wide: int) -> int:
    """A key, so that signed numbers compare as keys do."""
    if is_wide:
        return load(keys, index, int64(0)) ^ SIGN
    return int64(load(keys, index, int32(0))) & 0xFFFFFFFF


@kernel
def best(zero: int, keys: int, found: int, places: int, geometry: int, begin: int, end: int) -> None:
    """Writes the least keys of some rows, each with its place; of equals those that come first."""
    count, length, is_wide = at(geometry, COUNT), at(geometry, LENGTH), at(geometry, IS_WIDE)
    for row in range(begin, end):
        first, kept, start = row * length, 0, row * count
        worst = int64(0)
        for i in range(length):
            key = _key(keys, first + i, is_wide)
            if kept == count and key >= worst:
                continue
            hole = start + (kept if kept < count else count - 1)
            while hole > start and load(found, hole - 1, int64(0)) > key:
                store(found, hole, load(found, hole - 1, int64(0)))
                store(places, hole, load(places, hole - 1, int64(0)))
                hole -= 1
            store(found, hole, key)
            store(places, hole, int64(i))
            kept += kept < count
            worst = load(found, start + kept - 1, int64(0))
