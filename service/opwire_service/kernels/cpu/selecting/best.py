"""The kernels that keep the few best of each row, of keys or of elements, in their order."""

from __future__ import annotations

from ..jit.compiler import inlined, kernel
from ..jit.element import int32, int64, load, read, store
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
            _put(found, places, key, i, start, kept, count)
            kept += kept < count
            worst = load(found, start + kept - 1, int64(0))


@inlined
def _put(found: int, places: int, key: int, place: int, start: int, kept: int, count: int) -> None:
    """Puts a key in its place among those that are kept."""
    hole = start + (kept if kept < count else count - 1)
    while hole > start and load(found, hole - 1, int64(0)) > key:
        store(found, hole, load(found, hole - 1, int64(0)))
        store(places, hole, load(places, hole - 1, int64(0)))
        hole -= 1
    store(found, hole, key)
    store(places, hole, int64(place))


KIND, TURNED, MAGNITUDE, INFINITE, INDICES, INDEX_BYTES = range(2, 8)
"""Slots: of which kind elements are, bits that are inverted where the greatest are kept, of a float those of its
magnitude and those of infinity, and where indices go."""

UNSIGNED, SIGNED, FLOAT = range(3)

LAST = (1 << 63) - 1
"""The key of NaN."""


@inlined
def _key_of(element: int, kind: int, turned: int, magnitude: int, infinite: int) -> int:
    """A key of the bits of an element, which orders as signed numbers do; equals have equal ones."""
    bits = int64(element)
    if kind == FLOAT:
        size = bits & magnitude
        ordered = size if bits >= 0 else -size
        return LAST if size > infinite else ordered ^ turned
    if kind == UNSIGNED:
        bits = bits & (2 * magnitude + 1) if magnitude < LAST else bits ^ SIGN
    return bits ^ turned


@kernel
def chosen(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Writes the best elements of some rows, and where they stand; the states are twice as many as are kept."""
    count, length, kind = at(geometry, COUNT), at(geometry, LENGTH), at(geometry, KIND)
    turned, magnitude, infinite = at(geometry, TURNED), at(geometry, MAGNITUDE), at(geometry, INFINITE)
    indices, places = at(geometry, INDICES), states + 8 * count
    for row in range(begin, end):
        first, kept = row * length, 0
        worst = int64(0)
        for i in range(length):
            key = _key_of(read(source, first + i, zero), kind, turned, magnitude, infinite)
            if kept == count and key >= worst:
                continue
            _put(states, places, key, i, 0, kept, count)
            kept += kept < count
            worst = load(states, kept - 1, int64(0))
        for k in range(count):
            place = load(places, k, int64(0))
            store(target, row * count + k, read(source, first + place, zero))
            if at(geometry, INDEX_BYTES) == 8:
                store(indices, row * count + k, place)
            else:
                store(indices, row * count + k, int32(place))
