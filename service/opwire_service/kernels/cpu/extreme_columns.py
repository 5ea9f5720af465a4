"""Extremes along an axis that is not the innermost: a tile of neighbouring columns at a time, row after row."""

from __future__ import annotations

import numpy as np

from . import geometry as g
from .compiler import inner, kernel
from .element import cast_to, choose, int64, larger, load, order_key, read, size_of, store
from .extreme import NOTHING, parameter, put_value, put_winner
from .geometry import advance, at

_GROUP = 8
"""Rows that a column's best key stays in a register for."""


@inner
def _raise_group(
    zero: int, address: int, row: int, step: int, width: int, best: int, flip: int, invert: int, bias: int
) -> None:
    """Takes 8 rows into the best keys."""
    for i in range(width):
        key = load(best, i, zero)
        for j in range(_GROUP):
            key = larger(order_key(read(address + j * row, i * step, zero), flip, invert, bias), key)
        store(best, i, key)


@inner
def _raise(zero: int, address: int, row: int, step: int, width: int, best: int, geometry: int, rows: int) -> None:
    flip = parameter(geometry, g.FLIP, zero)
    invert = parameter(geometry, g.INVERT, zero)
    bias = parameter(geometry, g.BIAS, zero)
    i = 0
    while i + _GROUP <= rows:
        if step == 1:
            _raise_group(zero, address + i * row, row, 1, width, best, flip, invert, bias)
        else:
            _raise_group(zero, address + i * row, row, step, width, best, flip, invert, bias)
        i += _GROUP
    while i < rows:
        for j in range(width):
            key = order_key(read(address + i * row, j * step, zero), flip, invert, bias)
            store(best, j, larger(key, load(best, j, zero)))
        i += 1


@inner
def _name_group(
    zero: int, address: int, row: int, step: int, width: int, best: int, names: int, geometry: int, name: int
) -> None:
    """Takes 8 rows, named ``name`` and following, into the best keys and their names."""
    flip = parameter(geometry, g.FLIP, zero)
    invert = parameter(geometry, g.INVERT, zero)
    bias = parameter(geometry, g.BIAS, zero)
    lower = cast_to(at(geometry, g.BIAS) - at(geometry, g.IS_FLOAT), zero)
    for i in range(width):
        key, found = load(best, i, zero), load(names, i, zero)
        for j in range(_GROUP):
            here = order_key(read(address + j * row, i * step, zero), flip, invert, bias)
            here = choose(here == lower, bias, here)
            better = here > key
            key = choose(better, here, key)
            found = choose(better, cast_to(name + j, zero), found)
        store(best, i, key)
        store(names, i, found)


@inner
def _name_row(zero: int, address: int, step: int, width: int, best: int, names: int, geometry: int, name: int) -> None:
    flip = parameter(geometry, g.FLIP, zero)
    invert = parameter(geometry, g.INVERT, zero)
    bias = parameter(geometry, g.BIAS, zero)
    lower = cast_to(at(geometry, g.BIAS) - at(geometry, g.IS_FLOAT), zero)
    this = cast_to(name, zero)
    for i in range(width):
        key = load(best, i, zero)
        here = order_key(read(address, i * step, zero), flip, invert, bias)
        here = choose(here == lower, bias, here)
        better = here > key
        store(best, i, choose(better, here, key))
        store(names, i, choose(better, this, load(names, i, zero)))


@inner
def _name(
    zero: int, base: int, first: int, rows: int, step: int, width: int, best: int, names: int, geometry: int
) -> None:
    """Names the best of ``rows`` rows in the order asked for: rows count from the end where the last wins."""
    run_size, count = at(geometry, g.RUN), at(geometry, g.COUNT)
    last = at(geometry, g.LAST)
    sign = -1 if last else 1
    row = sign * at(geometry, g.STEP) * size_of(zero)
    i = 0
    while i < rows:
        index = count - 1 - first - i if last else first + i
        place = index % run_size
        left = min(place + 1 if last else run_size - place, rows - i)
        address = advance(base, g.reduced_source(geometry, index), zero)
        while left >= _GROUP:
            if step == 1:
                _name_group(zero, address, row, 1, width, best, names, geometry, i)
            else:
                _name_group(zero, address, row, step, width, best, names, geometry, i)
            address += row * _GROUP
            i += _GROUP
            left -= _GROUP
        while left > 0:
            _name_row(zero, address, step, width, best, names, geometry, i)
            address += row
            i += 1
            left -= 1


@inner
def _scan_columns(
    zero: int, base: int, begin: int, end: int, width: int, geometry: int, best: int, names: int, found: int
) -> None:
    """Leaves (canonical key, index) of each column of a tile in ``found``, for its rows ``begin`` to ``end``.

    Rows are named in the width of an element, so that one vector holds as many names as keys; of narrow elements a
    block of rows has as many as there are names.
    """
    bits = 8 * size_of(zero)
    block = 1 << min(bits - 1, 30)
    lowest = cast_to(at(geometry, g.FLOOR) - at(geometry, g.IS_FLOAT), zero)
    nothing = at(geometry, g.FLOOR) - at(geometry, g.IS_FLOAT)
    step, count, last = at(geometry, g.COLUMN_STEP), at(geometry, g.COUNT), at(geometry, g.LAST)
    if last:
        begin, end = count - end, count - begin
    for first in range(begin, end, block):
        for i in range(width):
            store(best, i, lowest)
            store(names, i, cast_to(0, zero))
        _name(zero, base, first, min(block, end - first), step, width, best, names, geometry)
        for i in range(width):
            key, index = int64(load(best, i, zero)), first + int64(load(names, i, zero))
            if first == begin or key > load(found, 2 * i, 0):
                store(found, 2 * i, key)
                store(found, 2 * i + 1, index)
    for i in range(width):
        if last:
            store(found, 2 * i + 1, count - 1 - load(found, 2 * i + 1, 0))
        if at(geometry, g.IS_FLOAT) and load(found, 2 * i, 0) == nothing:
            store(found, 2 * i, NOTHING)


@kernel
def columns(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One tile of columns and one segment a unit; several segments leave (key, index) of each column in ``states``."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    tiles, tile, step = at(geometry, g.TILES), at(geometry, g.TILE), at(geometry, g.COLUMN_STEP)
    run_size, all_columns = at(geometry, g.RUN), at(geometry, g.COLUMNS)
    scratch = np.empty(4 * tile, np.int64)
    best = scratch.ctypes.data
    names, found = best + 8 * tile, best + 16 * tile
    for unit in range(begin, end):
        part = unit // segments
        outer = part // tiles
        start = (part - outer * tiles) * tile
        width = min(tile, all_columns - start)
        base = advance(source, g.kept_source(geometry, outer) + start * step, zero)
        offset = g.kept_target(geometry, outer) + start * at(geometry, g.COLUMN_TARGET)
        if segments > 1 or at(geometry, g.INDEX_SIZE):
            first = (unit - part * segments) * segment
            _scan_columns(zero, base, first, min(first + segment, count), width, geometry, best, names, found)
            for i in range(width):
                if segments > 1:
                    place = ((outer * all_columns + start + i) * segments + unit - part * segments) * 2
                    store(states, place, load(found, 2 * i, 0))
                    store(states, place + 1, load(found, 2 * i + 1, 0))
                else:
                    index = load(found, 2 * i + 1, 0)
                    put_winner(zero, base, target, offset + i * at(geometry, g.COLUMN_TARGET), index, geometry)
            continue
        lowest = cast_to(NOTHING >> (64 - 8 * size_of(zero)), zero)
        for i in range(width):
            store(best, i, lowest)
        row = at(geometry, g.STEP) * size_of(zero)
        for run in range(count // run_size):
            address = advance(base, g.run_source(geometry, run), zero)
            _raise(zero, address, row, step, width, best, geometry, run_size)
        for i in range(width):
            here = advance(base, i * step, zero)
            key = int64(load(best, i, zero))
            put_value(zero, here, geometry, target, offset + i * at(geometry, g.COLUMN_TARGET), key)
    scratch[0] = 0  # keeps the memory alive until here
