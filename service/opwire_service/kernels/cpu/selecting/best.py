"""The kernels that keep the few best of each row, of keys or of elements, in their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, choose, int32, int64, load, read, size_of, store
from ..numbers.vectors import WIDTH, Vector, load_vector, lowest_of, mask_of, pick, signed_ints, spread, store_vector
from ..run.geometry import advance, at

COUNT, LENGTH, IS_WIDE = range(3)
"""Slots: how many are kept, how long a row is, and whether keys have 64 bits, or 32."""

FEW = 128
"""The most that are kept: each better one is put in its place among them, one step after the other."""

SIGN = -(1 << 63)
"""The sign of a number of 64 bits, and the least of all."""


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


MODE, TURNED, IS_FLOAT, MAGNITUDE, INFINITE, INDICES, INDEX_BYTES = range(2, 9)
"""Slots: what is done, bits of keys to invert, whether elements are floats, of a float the bits of its magnitude and
those of infinity, and where indices go."""

CHOOSE, ENTER, WRITE = range(3)
"""Modes: the best of each row are found and written; or all elements are entered to be sorted, or written then."""

LAST = (1 << 63) - 1
"""After every key and every entry; of elements of 64 bits the key of NaN."""

LAST_OF_SHORT = LAST >> 32
"""The key of a shorter NaN."""

ALL = (1 << WIDTH) - 1
"""The mask of a vector."""

BLOCK = 16
"""Elements that are looked at together; most have none that is better."""


@inlined
def _of_float(element: int, turned: int, magnitude: int, infinite: int) -> int:
    """A key of the bits of an element, which orders as signed numbers do; equals have equal ones."""
    bits = int64(element)
    size = bits & magnitude
    ordered = choose(bits >= int64(0), size, -size) ^ turned
    return choose(size > infinite, int64(LAST if size_of(element) == 8 else LAST_OF_SHORT), ordered)


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


@inlined
def _entry(geometry: int, line: int, place: int, zero: int) -> int:
    """The key of an element of at most 32 bits, and its place."""
    element = read(line, place, zero)
    turned, magnitude, infinite = at(geometry, TURNED), at(geometry, MAGNITUDE), at(geometry, INFINITE)
    if at(geometry, IS_FLOAT):
        return (_of_float(element, turned, magnitude, infinite) << 32) | place
    return (_of_integer(element, turned, magnitude, infinite) << 32) | place


@inlined
def _keys(geometry: int, bits: Vector) -> Vector:
    """The keys of sixteen elements."""
    turned = spread(int32(at(geometry, TURNED)))
    if at(geometry, IS_FLOAT):
        size = bits & spread(int32(at(geometry, MAGNITUDE)))
        ordered = pick(bits < spread(int32(0)), spread(int32(0)) - size, size) ^ turned
        return pick(size > spread(int32(at(geometry, INFINITE))), spread(int32(LAST_OF_SHORT)), ordered)
    return bits ^ turned


@inner
def _insert(entries: int, count: int, entry: int) -> None:
    """Puts an entry in its place among sorted ones, after one that comes before all: the last one is lost."""
    each = spread(entry)
    for i in range((count - 1) // WIDTH * WIDTH, -1, -WIDTH):
        before, here = load_vector(entries, i, int64(0)), load_vector(entries, i + 1, int64(0))
        least = pick(here < each, here, each)
        store_vector(entries, i + 1, pick(before < least, least, before))
        if load(entries, i, int64(0)) < entry:
            return


@inner
def _keep(zero: int, line: int, entries: int, geometry: int) -> None:
    """Keeps the entries of the best elements of a row, after one that comes before all."""
    count, length = at(geometry, COUNT), at(geometry, LENGTH)
    store(entries, 0, int64(SIGN))
    for i in range((count + WIDTH - 1) // WIDTH * WIDTH):
        store(entries, i + 1, int64(LAST))
    worst, whole = int64(LAST), length - length % WIDTH
    for first in range(0, whole, WIDTH):
        better = mask_of(_keys(geometry, signed_ints(line, first, zero)) > spread(int32(worst >> 32))) ^ ALL
        while better:
            entry = _entry(geometry, line, first + lowest_of(better), zero)
            better &= better - 1
            if entry < worst:
                _insert(entries, count, entry)
                worst = load(entries, count, int64(0))
    for i in range(whole, length):
        entry = _entry(geometry, line, i, zero)
        if entry < worst:
            _insert(entries, count, entry)
            worst = load(entries, count, int64(0))


@inlined
def _write(zero: int, geometry: int, line: int, target: int, index: int, place: int) -> None:
    store(target, index, read(line, place, zero))
    if at(geometry, INDEX_BYTES) == 8:
        store(at(geometry, INDICES), index, place)
    else:
        store(at(geometry, INDICES), index, int32(place))


@kernel
def chosen(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Units are rows. The states of rows whose elements are sorted are their entries."""
    count, length, mode = at(geometry, COUNT), at(geometry, LENGTH), at(geometry, MODE)
    memory = np.empty(2 * FEW + 1, np.int64)
    kept = address_of(memory)
    for row in range(begin, end):
        line, entries = advance(source, row * length, zero), states + 8 * row * length
        if mode == ENTER:
            for i in range(length):
                store(entries, i, _entry(geometry, line, i, zero))
            continue
        first = 0
        if mode == CHOOSE:
            entries = kept
            if size_of(zero) == 8:
                if at(geometry, IS_FLOAT):
                    _scan(zero, line, kept, geometry, _of_float)
                else:
                    _scan(zero, line, kept, geometry, _of_integer)
                first = count
            else:
                _keep(zero, line, kept, geometry)
                first = 1
        for k in range(count):
            place = load(entries, first + k, int64(0)) & 0xFFFFFFFF
            _write(zero, geometry, line, target, row * count + k, place)
    memory[0] = 0  # keeps the memory alive until here
