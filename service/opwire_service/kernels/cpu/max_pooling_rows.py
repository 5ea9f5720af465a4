"""The kernels of max pooling. Each unit is a row of outputs along the innermost dimension.

The rows of the input that a row of windows covers are first reduced to one line, element by element and so in whole
vectors; the windows are then reduced along that line, whose ends hold keys that never win in place of the padding.
Elements are compared by the keys of ``extreme``.
"""

from __future__ import annotations

import numpy as np

from . import geometry as g
from . import pooling_geometry as p
from .compiler import inner, kernel
from .element import cast_to, choose, int32, int64, key_bits, larger, load, nearest, order_key, read, smaller, store
from .extreme import NOTHING, canonical, has, key_of, parameter
from .geometry import advance, at

_ALL_ONES = 0xFFFFFFFF


@inner
def _winner(zero: int, channel: int, geometry: int, depth: int, height: int, across: int) -> int:
    """The position in its channel of the first of the greatest elements of one window."""
    best, found = NOTHING, -1
    for i in range(p.first_tap(geometry, p.DEPTH, depth), p.taps_end(geometry, p.DEPTH, depth)):
        d = p.position(geometry, p.DEPTH, depth, i)
        for j in range(p.first_tap(geometry, p.HEIGHT, height), p.taps_end(geometry, p.HEIGHT, height)):
            h = p.position(geometry, p.HEIGHT, height, j)
            row = d * at(geometry, p.DEPTH + p.SOURCE) + h * at(geometry, p.HEIGHT + p.SOURCE)
            here = advance(channel, row, zero)
            for k in range(p.first_tap(geometry, p.ACROSS, across), p.taps_end(geometry, p.ACROSS, across)):
                w = p.position(geometry, p.ACROSS, across, k)
                element = read(here, w * at(geometry, p.ACROSS + p.SOURCE), zero)
                key = canonical(int64(key_of(element, geometry, zero)), geometry)
                if key > best or found < 0:
                    best = key
                    found = (d * at(geometry, p.HEIGHT + p.SIZE) + h) * at(geometry, p.ACROSS + p.SIZE) + w
    return found


@inner
def _element_at(zero: int, channel: int, geometry: int, found: int) -> int:
    """The element at a position in its channel."""
    across, height = at(geometry, p.ACROSS + p.SIZE), at(geometry, p.HEIGHT + p.SIZE)
    row = found // across
    depth = row // height
    offset = (found - row * across) * at(geometry, p.ACROSS + p.SOURCE)
    offset += (row - depth * height) * at(geometry, p.HEIGHT + p.SOURCE) + depth * at(geometry, p.DEPTH + p.SOURCE)
    return read(channel, offset, zero)


@inner
def _put_index(indices: int, offset: int, index: int, size: int) -> None:
    if size == 4:
        store(indices, offset, int32(index))
    else:
        store(indices, offset, index)


@inner
def _split(geometry: int, unit: int) -> tuple[int, int, int]:
    """The channel, counted over all images, and the depth and height of a row of outputs."""
    heights, depths = at(geometry, p.HEIGHT + p.OUT), at(geometry, p.DEPTH + p.OUT)
    rest = unit // heights
    plane = rest // depths
    return plane, rest - plane * depths, unit - rest * heights


@inner
def _plane_size(geometry: int) -> int:
    return at(geometry, p.DEPTH + p.SIZE) * at(geometry, p.HEIGHT + p.SIZE) * at(geometry, p.ACROSS + p.SIZE)


@kernel
def windows(zero: int, source: int, values: int, indices: int, geometry: int, begin: int, end: int) -> None:
    """Window by window, for what the other kernels do not take; with or without indices."""
    size, step = at(geometry, p.INDEX_SIZE), at(geometry, p.ACROSS + p.VALUE)
    for unit in range(begin, end):
        plane, depth, height = _split(geometry, unit)
        offset = p.place_of(geometry, plane, 0, p.SOURCE, p.CHANNEL_SOURCE, p.IMAGE_SOURCE, -1)
        channel = advance(source, offset, zero)
        value = p.place_of(geometry, plane, depth, p.VALUE, p.CHANNEL_VALUE, p.IMAGE_VALUE, height)
        index = p.place_of(geometry, plane, depth, p.INDEX, p.CHANNEL_INDEX, p.IMAGE_INDEX, height)
        for i in range(at(geometry, p.ACROSS + p.OUT)):
            found = _winner(zero, channel, geometry, depth, height, i)
            store(values, value + i * step, _element_at(zero, channel, geometry, found))
            if size:
                place = index + i * at(geometry, p.ACROSS + p.INDEX)
                _put_index(indices, place, plane * _plane_size(geometry) + found, size)


@inner
def _covered(geometry: int) -> tuple[int, int, int]:
    """Positions of the input along the innermost dimension that windows cover: how many, and the padding before."""
    start = at(geometry, p.ACROSS + p.START)
    count = min(at(geometry, p.ACROSS + p.SIZE), at(geometry, p.LINE) - start)
    return max(count, 0), min(start, at(geometry, p.LINE)), at(geometry, p.LINE)


@inner
def _raise_rows(
    zero: int, row: int, row_size: int, rows: int, count: int, step: int, line: int, first: bool, geometry: int
) -> None:
    """Takes 1, 2 or 3 rows of the input, ``row_size`` bytes apart, into the line, or begins it with them."""
    flip = parameter(geometry, g.FLIP, zero)
    invert = parameter(geometry, g.INVERT, zero)
    bias = parameter(geometry, g.BIAS, zero)
    for i in range(count):
        key = order_key(read(row, i * step, zero), flip, invert, bias)
        for j in range(1, rows):
            key = larger(order_key(read(row + j * row_size, i * step, zero), flip, invert, bias), key)
        if not first:
            key = larger(key, load(line, i, zero))
        store(line, i, key)


@inner
def _raise_some(
    zero: int, row: int, row_size: int, rows: int, count: int, step: int, line: int, first: bool, geometry: int
) -> None:
    if rows == 3:
        _raise_rows(zero, row, row_size, 3, count, step, line, first, geometry)
    elif rows == 2:
        _raise_rows(zero, row, row_size, 2, count, step, line, first, geometry)
    else:
        _raise_rows(zero, row, row_size, 1, count, step, line, first, geometry)


@inner
def _covered_rows(geometry: int, height: int) -> tuple[int, int, int]:
    """Of the rows that a window covers at one depth: how many, the offset of the first, and elements between them."""
    begin = p.first_tap(geometry, p.HEIGHT, height)
    step = at(geometry, p.HEIGHT + p.SOURCE)
    offset = p.position(geometry, p.HEIGHT, height, begin) * step
    return p.taps_end(geometry, p.HEIGHT, height) - begin, offset, step * at(geometry, p.HEIGHT + p.DILATION)


@inner
def _raise_lines(zero: int, channel: int, geometry: int, depth: int, height: int, line: int, count: int) -> None:
    """Reduces all rows that a row of windows covers to the line."""
    step = at(geometry, p.ACROSS + p.SOURCE)
    rows, offset, apart = _covered_rows(geometry, height)
    first = True
    for i in range(p.first_tap(geometry, p.DEPTH, depth), p.taps_end(geometry, p.DEPTH, depth)):
        plane = p.position(geometry, p.DEPTH, depth, i) * at(geometry, p.DEPTH + p.SOURCE)
        for j in range(0, rows, 3):
            row = advance(channel, plane + offset + j * apart, zero)
            size = advance(0, apart, zero)
            if step == 1:
                _raise_some(zero, row, size, min(3, rows - j), count, 1, line, first, geometry)
            else:
                _raise_some(zero, row, size, min(3, rows - j), count, step, line, first, geometry)
            first = False


@inner
def _has_negative_zero(zero: int, channel: int, geometry: int, depth: int, height: int, count: int) -> bool:
    """Whether any row that a row of windows covers has one."""
    step = at(geometry, p.ACROSS + p.SOURCE)
    rows, offset, apart = _covered_rows(geometry, height)
    negative = p.lowest(zero)
    for i in range(p.first_tap(geometry, p.DEPTH, depth), p.taps_end(geometry, p.DEPTH, depth)):
        plane = p.position(geometry, p.DEPTH, depth, i) * at(geometry, p.DEPTH + p.SOURCE)
        for j in range(rows):
            row = advance(channel, plane + offset + j * apart, zero)
            if has(zero, row, count, step, negative, negative):
                return True
    return False


@inner
def _taps(zero: int, line: int, stride: int, dilation: int, taps: int, count: int, best: int, first: bool) -> None:
    """Takes 1, 2 or 3 elements of each of ``count`` windows, or begins with them."""
    for i in range(count):
        key = load(line, i * stride, zero)
        for j in range(1, taps):
            key = larger(load(line, i * stride + j * dilation, zero), key)
        if not first:
            key = larger(key, load(best, i, zero))
        store(best, i, key)


@inner
def _some_taps(zero: int, line: int, stride: int, dilation: int, taps: int, count: int, best: int, first: bool) -> None:
    if taps == 3:
        _taps(zero, line, stride, dilation, 3, count, best, first)
    elif taps == 2:
        _taps(zero, line, stride, dilation, 2, count, best, first)
    else:
        _taps(zero, line, stride, dilation, 1, count, best, first)


@inner
def _along_line(zero: int, line: int, stride: int, window: int, dilation: int, count: int, best: int) -> None:
    """Reduces each of ``count`` windows along the line to its greatest key."""
    if window > count and window > 3:
        for i in range(count):
            first = advance(line, i * stride, zero)
            key = load(first, 0, zero)
            for j in range(1, window):
                key = larger(load(first, j * dilation, zero), key)
            store(best, i, key)
        return
    for j in range(0, window, 3):
        tap, taps = advance(line, j * dilation, zero), min(3, window - j)
        if stride == 1:
            _some_taps(zero, tap, 1, dilation, taps, count, best, j == 0)
        elif stride == 2:
            _some_taps(zero, tap, 2, dilation, taps, count, best, j == 0)
        else:
            _some_taps(zero, tap, stride, dilation, taps, count, best, j == 0)


@inner
def _put_values(
    zero: int, best: int, count: int, values: int, geometry: int, channel: int, depth: int, height: int
) -> None:
    """Turns keys into elements; for NaN, and for zeros of which some are negative, the winner is looked for."""
    step = at(geometry, p.ACROSS + p.VALUE)
    flip = parameter(geometry, g.FLIP, zero)
    invert = parameter(geometry, g.INVERT, zero)
    bias = parameter(geometry, g.BIAS, zero)
    least, to_zero = load(best, 0, zero), cast_to(-1, zero)
    if step == 1:
        for i in range(count):
            key = load(best, i, zero)
            store(values, i, key_bits(key, flip, invert, bias))
            least, to_zero = smaller(least, key), nearest(to_zero, key, bias, bias)
    else:
        for i in range(count):
            key = load(best, i, zero)
            store(values, i * step, key_bits(key, flip, invert, bias))
            least, to_zero = smaller(least, key), nearest(to_zero, key, bias, bias)
    if not at(geometry, g.IS_FLOAT):
        return
    floor = at(geometry, g.FLOOR)
    covered, _, _ = _covered(geometry)
    zeros = to_zero == 0 and _has_negative_zero(zero, channel, geometry, depth, height, covered)
    if zeros or least < floor:
        for i in range(count):
            key = int64(load(best, i, zero))
            if key < floor or (zeros and key == bias):
                found = _winner(zero, channel, geometry, depth, height, i)
                store(values, i * step, _element_at(zero, channel, geometry, found))


@kernel
def rows(zero: int, source: int, values: int, indices: int, geometry: int, begin: int, end: int) -> None:
    """Values alone."""
    count = at(geometry, p.ACROSS + p.OUT)
    covered, start, length = _covered(geometry)
    memory = np.empty(length + count, np.int64)
    line = memory.ctypes.data
    best = line + 8 * length
    # Padding stays what it is; the positions between are begun anew by each row of outputs.
    for i in range(length):
        store(line, i, p.lowest(zero))
    for unit in range(begin, end):
        plane, depth, height = _split(geometry, unit)
        offset = p.place_of(geometry, plane, 0, p.SOURCE, p.CHANNEL_SOURCE, p.IMAGE_SOURCE, -1)
        channel = advance(source, offset, zero)
        value = p.place_of(geometry, plane, depth, p.VALUE, p.CHANNEL_VALUE, p.IMAGE_VALUE, height)
        _raise_lines(zero, channel, geometry, depth, height, advance(line, start, zero), covered)
        stride, window = at(geometry, p.ACROSS + p.STRIDE), at(geometry, p.ACROSS + p.WINDOW)
        _along_line(zero, line, stride, window, at(geometry, p.ACROSS + p.DILATION), count, best)
        _put_values(zero, best, count, advance(values, value, zero), geometry, channel, depth, height)
    memory[0] = 0  # keeps the memory alive until here


@inner
def _raise_named(
    zero: int,
    row: int,
    row_size: int,
    rows: int,
    count: int,
    step: int,
    name: int,
    name_step: int,
    line: int,
    first: bool,
    geometry: int,
) -> None:
    """Takes 1, 2 or 3 rows into the line, or begins it with them.

    Keys are followed by 32 bits that decrease with the position, which is ``name`` at the start of the first row.
    """
    flip = parameter(geometry, g.FLIP, zero)
    invert = parameter(geometry, g.INVERT, zero)
    bias = parameter(geometry, g.BIAS, zero)
    raised = at(geometry, g.BIAS) - at(geometry, g.IS_FLOAT)
    above = at(geometry, g.BIAS)
    nothing = at(geometry, g.FLOOR) - at(geometry, g.IS_FLOAT)
    for i in range(count):
        best = NOTHING if first else load(line, i, 0)
        for j in range(rows):
            key = int64(order_key(read(row + j * row_size, i * step, zero), flip, invert, bias))
            key = choose(key == raised, above, larger(key, nothing))
            best = larger(best, (key << 32) | (_ALL_ONES - (name + j * name_step + i)))
        store(line, i, best)


@inner
def _raise_some_named(
    zero: int,
    row: int,
    row_size: int,
    rows: int,
    count: int,
    step: int,
    name: int,
    name_step: int,
    line: int,
    first: bool,
    geometry: int,
) -> None:
    if rows == 3:
        _raise_named(zero, row, row_size, 3, count, step, name, name_step, line, first, geometry)
    elif rows == 2:
        _raise_named(zero, row, row_size, 2, count, step, name, name_step, line, first, geometry)
    else:
        _raise_named(zero, row, row_size, 1, count, step, name, name_step, line, first, geometry)


@inner
def _raise_named_lines(zero: int, channel: int, geometry: int, depth: int, height: int, line: int, count: int) -> None:
    step, across = at(geometry, p.ACROSS + p.SOURCE), at(geometry, p.ACROSS + p.SIZE)
    rows, offset, apart = _covered_rows(geometry, height)
    top = p.position(geometry, p.HEIGHT, height, p.first_tap(geometry, p.HEIGHT, height))
    dilation = at(geometry, p.HEIGHT + p.DILATION)
    first = True
    for i in range(p.first_tap(geometry, p.DEPTH, depth), p.taps_end(geometry, p.DEPTH, depth)):
        d = p.position(geometry, p.DEPTH, depth, i)
        for j in range(0, rows, 3):
            row = advance(channel, d * at(geometry, p.DEPTH + p.SOURCE) + offset + j * apart, zero)
            size = advance(0, apart, zero)
            name = (d * at(geometry, p.HEIGHT + p.SIZE) + top + j * dilation) * across
            few, down = min(3, rows - j), dilation * across
            if step == 1:
                _raise_some_named(zero, row, size, few, count, 1, name, down, line, first, geometry)
            else:
                _raise_some_named(zero, row, size, few, count, step, name, down, line, first, geometry)
            first = False


@inner
def _put_named(
    zero: int, best: int, channel: int, geometry: int, first: int, values: int, indices: int, index: int
) -> None:
    value_step, index_step = at(geometry, p.ACROSS + p.VALUE), at(geometry, p.ACROSS + p.INDEX)
    size, packed = at(geometry, p.INDEX_SIZE), at(geometry, PACKED)
    for i in range(at(geometry, p.ACROSS + p.OUT)):
        found = _ALL_ONES - (load(best, i, 0) & _ALL_ONES)
        element = read(channel, found, zero) if packed else _element_at(zero, channel, geometry, found)
        store(values, i * value_step, element)
        _put_index(indices, index + i * index_step, first + found, size)


PACKED = 9
"""Place in the geometry: whether an element's position in its channel is also its offset."""


@kernel
def named_rows(zero: int, source: int, values: int, indices: int, geometry: int, begin: int, end: int) -> None:
    """Values and indices, of elements of at most 32 bits."""
    count = at(geometry, p.ACROSS + p.OUT)
    covered, start, length = _covered(geometry)
    memory = np.empty(length + count, np.int64)
    line = memory.ctypes.data
    best = line + 8 * length
    for i in range(length):
        store(line, i, NOTHING)
    for unit in range(begin, end):
        plane, depth, height = _split(geometry, unit)
        offset = p.place_of(geometry, plane, 0, p.SOURCE, p.CHANNEL_SOURCE, p.IMAGE_SOURCE, -1)
        channel = advance(source, offset, zero)
        value = p.place_of(geometry, plane, depth, p.VALUE, p.CHANNEL_VALUE, p.IMAGE_VALUE, height)
        index = p.place_of(geometry, plane, depth, p.INDEX, p.CHANNEL_INDEX, p.IMAGE_INDEX, height)
        _raise_named_lines(zero, channel, geometry, depth, height, line + 8 * start, covered)
        stride, window = at(geometry, p.ACROSS + p.STRIDE), at(geometry, p.ACROSS + p.WINDOW)
        _along_line(0, line, stride, window, at(geometry, p.ACROSS + p.DILATION), count, best)
        first = plane * _plane_size(geometry)
        _put_named(zero, best, channel, geometry, first, advance(values, value, zero), indices, index)
    memory[0] = 0  # keeps the memory alive until here
