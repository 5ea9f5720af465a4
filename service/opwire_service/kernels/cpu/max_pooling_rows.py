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
from .element import cast_to, choose, int32, int64, larger, load, order_key, store
from .extreme import NOTHING, canonical, element_bits, key_of, parameter
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
                element = load(here, w * at(geometry, p.ACROSS + p.SOURCE), zero)
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
    return load(channel, offset, zero)


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
def _raise_line(zero: int, row: int, count: int, step: int, line: int, flip: int, invert: int, bias: int) -> bool:
    """Takes a row of the input into the line; returns whether it has a negative zero."""
    lower = bias - cast_to(1, zero)
    zeros = cast_to(0, zero)
    lower = cast_to(lower, zero)
    for i in range(count):
        key = order_key(load(row, i * step, zero), flip, invert, bias)
        zeros = choose(key == lower, cast_to(-1, zero), zeros)
        store(line, i, larger(key, load(line, i, zero)))
    return zeros != 0


@inner
def _raise_lines(zero: int, channel: int, geometry: int, depth: int, height: int, line: int, count: int) -> bool:
    """Takes all rows that a row of windows covers into the line; returns whether there is a negative zero."""
    flip = parameter(geometry, g.FLIP, zero)
    invert = parameter(geometry, g.INVERT, zero)
    bias = parameter(geometry, g.BIAS, zero)
    step = at(geometry, p.ACROSS + p.SOURCE)
    zeros = False
    for i in range(p.first_tap(geometry, p.DEPTH, depth), p.taps_end(geometry, p.DEPTH, depth)):
        d = p.position(geometry, p.DEPTH, depth, i)
        for j in range(p.first_tap(geometry, p.HEIGHT, height), p.taps_end(geometry, p.HEIGHT, height)):
            h = p.position(geometry, p.HEIGHT, height, j)
            offset = d * at(geometry, p.DEPTH + p.SOURCE) + h * at(geometry, p.HEIGHT + p.SOURCE)
            row = advance(channel, offset, zero)
            if step == 1:
                zeros |= _raise_line(zero, row, count, 1, line, flip, invert, bias)
            else:
                zeros |= _raise_line(zero, row, count, step, line, flip, invert, bias)
    return zeros


@inner
def _take_tap(zero: int, line: int, stride: int, count: int, best: int) -> None:
    for i in range(count):
        store(best, i, larger(load(line, i * stride, zero), load(best, i, zero)))


@inner
def _along_line(zero: int, line: int, stride: int, window: int, dilation: int, count: int, best: int) -> None:
    """Reduces each of ``count`` windows along the line to its greatest key."""
    if window > count:
        for i in range(count):
            first = advance(line, i * stride, zero)
            key = load(first, 0, zero)
            for j in range(1, window):
                key = larger(load(first, j * dilation, zero), key)
            store(best, i, key)
        return
    for i in range(count):
        store(best, i, load(line, i * stride, zero))
    for j in range(1, window):
        tap = advance(line, j * dilation, zero)
        if stride == 1:
            _take_tap(zero, tap, 1, count, best)
        elif stride == 2:
            _take_tap(zero, tap, 2, count, best)
        else:
            _take_tap(zero, tap, stride, count, best)


@inner
def _put_values(
    zero: int, best: int, count: int, values: int, geometry: int, zeros: bool, channel: int, depth: int, height: int
) -> None:
    """Turns keys into elements; for NaN, and for zeros of which some are negative, the winner is looked for."""
    step = at(geometry, p.ACROSS + p.VALUE)
    floats = at(geometry, g.IS_FLOAT) != 0
    floor, bias = at(geometry, g.FLOOR), at(geometry, g.BIAS)
    special = False
    for i in range(count):
        key = int64(load(best, i, zero))
        special |= key < floor or (zeros and key == bias)
        store(values, i * step, element_bits(key, geometry, zero))
    if special and floats:
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
    for unit in range(begin, end):
        plane, depth, height = _split(geometry, unit)
        offset = p.place_of(geometry, plane, 0, p.SOURCE, p.CHANNEL_SOURCE, p.IMAGE_SOURCE, -1)
        channel = advance(source, offset, zero)
        value = p.place_of(geometry, plane, depth, p.VALUE, p.CHANNEL_VALUE, p.IMAGE_VALUE, height)
        for i in range(length):
            store(line, i, p.lowest(zero))
        zeros = _raise_lines(zero, channel, geometry, depth, height, advance(line, start, zero), covered)
        stride, window = at(geometry, p.ACROSS + p.STRIDE), at(geometry, p.ACROSS + p.WINDOW)
        _along_line(zero, line, stride, window, at(geometry, p.ACROSS + p.DILATION), count, best)
        here = advance(values, value, zero)
        _put_values(zero, best, count, here, geometry, zeros, channel, depth, height)
    memory[0] = 0  # keeps the memory alive until here


@inner
def _raise_named(
    zero: int, row: int, count: int, step: int, name: int, line: int, geometry: int, flip: int, invert: int, bias: int
) -> None:
    """Takes a row into the line; keys are followed by 32 bits that decrease with the position, from ``name`` on."""
    raised = int64(at(geometry, g.BIAS)) - at(geometry, g.IS_FLOAT)
    above = int64(at(geometry, g.BIAS))
    nothing = int64(at(geometry, g.FLOOR)) - at(geometry, g.IS_FLOAT)
    for i in range(count):
        key = int64(order_key(load(row, i * step, zero), flip, invert, bias))
        key = choose(key == raised, above, larger(key, nothing))
        named = (key << 32) | (_ALL_ONES - (name + i))
        store(line, i, larger(named, load(line, i, 0)))


@inner
def _raise_named_lines(zero: int, channel: int, geometry: int, depth: int, height: int, line: int, count: int) -> None:
    flip = parameter(geometry, g.FLIP, zero)
    invert = parameter(geometry, g.INVERT, zero)
    bias = parameter(geometry, g.BIAS, zero)
    step = at(geometry, p.ACROSS + p.SOURCE)
    for i in range(p.first_tap(geometry, p.DEPTH, depth), p.taps_end(geometry, p.DEPTH, depth)):
        d = p.position(geometry, p.DEPTH, depth, i)
        for j in range(p.first_tap(geometry, p.HEIGHT, height), p.taps_end(geometry, p.HEIGHT, height)):
            h = p.position(geometry, p.HEIGHT, height, j)
            offset = d * at(geometry, p.DEPTH + p.SOURCE) + h * at(geometry, p.HEIGHT + p.SOURCE)
            row = advance(channel, offset, zero)
            name = (d * at(geometry, p.HEIGHT + p.SIZE) + h) * at(geometry, p.ACROSS + p.SIZE)
            if step == 1:
                _raise_named(zero, row, count, 1, name, line, geometry, flip, invert, bias)
            else:
                _raise_named(zero, row, count, step, name, line, geometry, flip, invert, bias)


@inner
def _put_named(
    zero: int, best: int, channel: int, geometry: int, first: int, values: int, indices: int, index: int
) -> None:
    value_step, index_step = at(geometry, p.ACROSS + p.VALUE), at(geometry, p.ACROSS + p.INDEX)
    size, packed = at(geometry, p.INDEX_SIZE), at(geometry, PACKED)
    for i in range(at(geometry, p.ACROSS + p.OUT)):
        found = _ALL_ONES - (load(best, i, 0) & _ALL_ONES)
        element = load(channel, found, zero) if packed else _element_at(zero, channel, geometry, found)
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
    for unit in range(begin, end):
        plane, depth, height = _split(geometry, unit)
        offset = p.place_of(geometry, plane, 0, p.SOURCE, p.CHANNEL_SOURCE, p.IMAGE_SOURCE, -1)
        channel = advance(source, offset, zero)
        value = p.place_of(geometry, plane, depth, p.VALUE, p.CHANNEL_VALUE, p.IMAGE_VALUE, height)
        index = p.place_of(geometry, plane, depth, p.INDEX, p.CHANNEL_INDEX, p.IMAGE_INDEX, height)
        for i in range(length):
            store(line, i, NOTHING)
        _raise_named_lines(zero, channel, geometry, depth, height, line + 8 * start, covered)
        stride, window = at(geometry, p.ACROSS + p.STRIDE), at(geometry, p.ACROSS + p.WINDOW)
        _along_line(0, line, stride, window, at(geometry, p.ACROSS + p.DILATION), count, best)
        first = plane * _plane_size(geometry)
        _put_named(zero, best, channel, geometry, first, advance(values, value, zero), indices, index)
    memory[0] = 0  # keeps the memory alive until here
