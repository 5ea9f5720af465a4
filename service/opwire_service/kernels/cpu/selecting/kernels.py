"""Kernels that select the few best of each row, of keys or of elements, in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, choose, int32, int64, load, read, size_of, store
from ..jit.records import Record
from ..numbers.vectors import WIDTH, Vector, load_vector, lowest_of, mask_of, pick, signed_ints, spread, store_vector
from ..run.geometry import advance

MOST_KEPT = 128
"""Maximum number of elements kept, since each better one is inserted by moving others one step at a time."""

SIGN = -(1 << 63)
"""Sign bit of an int64, which is also its minimum."""


class Rows(Record):
    """Rows, of each of which some elements are kept."""

    count: int  # elements kept
    length: int


class KeyRows(Rows):
    """Rows of keys, with 64 bits or 32."""

    is_wide: bool


class ElementRows(Rows):
    """Rows of elements."""

    mode: int
    turned: int  # bits of keys to invert
    is_float: bool
    magnitude: int  # for floats, the mask of their magnitude and the bits of infinity
    infinite: int
    indices: int  # address and size of the indices
    index_bytes: int


@inlined
def _key(keys: int, index: int, is_wide: bool) -> int:
    """Returns a key as a signed number that orders like the key."""
    if is_wide:
        return load(keys, index, int64(0)) ^ SIGN
    return int64(load(keys, index, int32(0))) & 0xFFFFFFFF


@kernel
def best(zero: int, keys: int, found: int, places: int, geometry: KeyRows, begin: int, end: int) -> None:
    """Stores the least keys of some rows with their positions; of equal keys, the first ones."""
    count, length, is_wide = geometry.count, geometry.length, geometry.is_wide
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
    """Inserts a key among those kept."""
    hole = start + (kept if kept < count else count - 1)
    while hole > start and load(found, hole - 1, int64(0)) > key:
        store(found, hole, load(found, hole - 1, int64(0)))
        store(places, hole, load(places, hole - 1, int64(0)))
        hole -= 1
    store(found, hole, key)
    store(places, hole, int64(place))


CHOOSE, ENTER, WRITE = range(3)
"""Modes: find and write the best of each row; store sortable entries of all elements; or write sorted entries."""

LAST = (1 << 63) - 1
"""Greater than every key and every entry; the key of a 64-bit NaN."""

LAST_OF_SHORT = LAST >> 32
"""The key of a shorter NaN."""

ALL = (1 << WIDTH) - 1
"""The mask of all lanes of a vector."""

BLOCK = 16
"""Elements tested together; most blocks contain no better one."""


@inlined
def _of_float(element: int, turned: int, magnitude: int, infinite: int) -> int:
    """Returns a signed key that orders like the float with the given bits; equal floats have equal keys."""
    bits = int64(element)
    size = bits & magnitude
    ordered = choose(bits >= int64(0), size, -size) ^ turned
    return choose(size > infinite, int64(LAST if size_of(element) == 8 else LAST_OF_SHORT), ordered)


@inlined
def _of_integer(element: int, turned: int, _magnitude: int, _infinite: int) -> int:
    return int64(element) ^ turned


@inlined
def _scan(zero: int, line: int, states: int, geometry: ElementRows, key_of: Any) -> None:
    """Stores the keys of the best elements of a row, followed by their positions."""
    count, length, turned = geometry.count, geometry.length, geometry.turned
    magnitude, infinite, places = geometry.magnitude, geometry.infinite, states + 8 * count
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
def _entry(geometry: ElementRows, line: int, place: int, zero: int) -> int:
    """Returns the key of an element of at most 32 bits, combined with its position."""
    element = read(line, place, zero)
    turned, magnitude, infinite = geometry.turned, geometry.magnitude, geometry.infinite
    if geometry.is_float:
        return (_of_float(element, turned, magnitude, infinite) << 32) | place
    return (_of_integer(element, turned, magnitude, infinite) << 32) | place


@inlined
def _keys(geometry: ElementRows, bits: Vector) -> Vector:
    """Returns the keys of sixteen elements."""
    turned = spread(int32(geometry.turned))
    if geometry.is_float:
        size = bits & spread(int32(geometry.magnitude))
        ordered = pick(bits < spread(int32(0)), spread(int32(0)) - size, size) ^ turned
        return pick(size > spread(int32(geometry.infinite)), spread(int32(LAST_OF_SHORT)), ordered)
    return bits ^ turned


@inner
def _insert(entries: int, count: int, entry: int) -> None:
    """Inserts an entry into a sorted list that starts with a sentinel; the last entry is dropped."""
    each = spread(entry)
    for i in range((count - 1) // WIDTH * WIDTH, -1, -WIDTH):
        before, here = load_vector(entries, i, int64(0)), load_vector(entries, i + 1, int64(0))
        least = pick(here < each, here, each)
        store_vector(entries, i + 1, pick(before < least, least, before))
        if load(entries, i, int64(0)) < entry:
            return


@inner
def _keep(zero: int, line: int, entries: int, geometry: ElementRows) -> None:
    """Stores the entries of the best elements of a row, after a sentinel that precedes all."""
    count, length = geometry.count, geometry.length
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
def _write(zero: int, geometry: ElementRows, line: int, target: int, index: int, place: int) -> None:
    store(target, index, read(line, place, zero))
    if geometry.index_bytes == 8:
        store(geometry.indices, index, place)
    else:
        store(geometry.indices, index, int32(place))


@kernel
def chosen(zero: int, source: int, target: int, states: int, geometry: ElementRows, begin: int, end: int) -> None:
    """A unit is a row. For rows that are sorted, the states hold the entries."""
    count, length, mode = geometry.count, geometry.length, geometry.mode
    memory = np.empty(2 * MOST_KEPT + 1, np.int64)
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
                if geometry.is_float:
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
    memory[0] = 0  # keeps the buffer alive until here
