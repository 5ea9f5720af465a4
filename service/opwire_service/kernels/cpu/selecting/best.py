"""The kernels that keep the few best of each row, of keys or of elements, in their order."""

from __future__ import annotations

from typing import Any

from ..jit.compiler import inlined, kernel
from ..jit.element import choose, int32, int64, load, read, store
from ..run.geometry import advance, at

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


TURNED, IS_FLOAT, MAGNITUDE, INFINITE, INDICES, INDEX_BYTES = range(2, 8)
"""Slots: bits of keys to invert, whether elements are floats, of a float the bits of its magnitude and those of
infinity, and where indices go."""

LAST = (1 << 63) - 1
"""The key of NaN."""

BLOCK = 16
"""Elements that are looked at together; most have none that is better."""


@inlined
def _of_float(element: int, turned: int, magnitude: int, infinite: int) -> int:
    """A key of the bits of an element, which orders as signed numbers do; equals have equal ones."""
    bits = int64(element)
    size = bits & magnitude
    ordered = choose(bits >= int64(0), size, -size) ^ turned
    return choose(size > infinite, int64(LAST), ordered)


@inlined
def _of_integer(element: int, turned: int, _magnitude: int, _infinite: int) -> int:
    return int64(element) ^ turned


@inlined
def _scan(zero: int, line: int, states: int, geometry: int, key_of: Any) -> None:
    """Keeps the keys of the best elements of a row, and after them their places."""
    count, length, turned = at(geometry, COUNT), at(geometry, LENGTH), at(geometry, TURNED)
    magnitude, infinite, places = at(geometry, MAGNITUDE), at(geometry, INFINITE), states + 8 * count
    kept, worst = 0, int64(LAST)
    for first in range(0, length, BLOCK):
        last = min(first + BLOCK, length)
        if kept == count and last - first == BLOCK:
            better = int64(0)
            for i in range(BLOCK):
                better |= int64(key_of(read(line, first + i, zero), turned, magnitude, infinite) < worst)
            if not better:
                continue
        for i in range(first, last):
            key = key_of(read(line, i, zero), turned, magnitude, infinite)
            if kept == count and key >= worst:
                continue
            _put(states, places, key, i, 0, kept, count)
            kept += kept < count
            worst = load(states, kept - 1, int64(0))


@kernel
def chosen(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Writes the best elements of some rows, and where they stand; the states are twice as many as are kept."""
    count, length, indices = at(geometry, COUNT), at(geometry, LENGTH), at(geometry, INDICES)
    places = states + 8 * count
    for row in range(begin, end):
        line = advance(source, row * length, zero)
        if at(geometry, IS_FLOAT):
            _scan(zero, line, states, geometry, _of_float)
        else:
            _scan(zero, line, states, geometry, _of_integer)
        for k in range(count):
            place = load(places, k, int64(0))
            store(target, row * count + k, read(line, place, zero))
            if at(geometry, INDEX_BYTES) == 8:
                store(indices, row * count + k, place)
            else:
                store(indices, row * count + k, int32(place))
