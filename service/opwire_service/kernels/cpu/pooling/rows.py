"""The kernels of max pooling. Each unit is a row of outputs along the innermost dimension.

The rows of the input that a row of windows covers are first reduced to one line, element by element and so in whole
vectors; the windows are then reduced along that line, whose ends hold what never wins in place of the padding. The line
holds ranks where values alone are asked for, else codes: a rank's key, and below it the position, inverted so that the
first of equals is the greatest.
"""

from __future__ import annotations

import numpy as np

from ..extremes.extreme import first_of, put_index
from ..extremes.rank_memory import store_ranks
from ..extremes.ranks import NOTHING, element_of, greater, is_float, is_number, key_of, lowest_rank, rank_of
from ..extremes.vectors import WIDE, equal_lanes, every_other, wide, wide_lanes, wide_ranks
from ..jit.compiler import inlined, inner, kernel
from ..jit.element import choose, integer_zero, larger, load, of_bits, read, store
from ..run import geometry as g
from ..run.geometry import advance, at
from . import geometry as p

_ALL_ONES = 0xFFFFFFFF

_NOT_A_NUMBER = -(1 << 31)
"""The key of NaN: below that of -inf, and still above padding."""

_SLACK = 4 * WIDE // 8
"""Places after a line and what it is reduced to that vectors may reach into."""

PACKED = 9
"""Place in the geometry: whether an element's position in its channel is also its offset."""


@inner
def _winner(zero: int, channel: int, geometry: int, depth: int, height: int, across: int) -> int:
    """The position in its channel of the first of the greatest elements of one window."""
    best, found = lowest_rank(zero), -1
    for i in range(p.first_tap(geometry, p.DEPTH, depth), p.taps_end(geometry, p.DEPTH, depth)):
        d = p.position(geometry, p.DEPTH, depth, i)
        for j in range(p.first_tap(geometry, p.HEIGHT, height), p.taps_end(geometry, p.HEIGHT, height)):
            h = p.position(geometry, p.HEIGHT, height, j)
            row = d * at(geometry, p.DEPTH + p.SOURCE) + h * at(geometry, p.HEIGHT + p.SOURCE)
            here = advance(channel, row, zero)
            for k in range(p.first_tap(geometry, p.ACROSS, across), p.taps_end(geometry, p.ACROSS, across)):
                w = p.position(geometry, p.ACROSS, across, k)
                rank = rank_of(read(here, w * at(geometry, p.ACROSS + p.SOURCE), zero), at(geometry, g.INVERT))
                better = is_number(rank, zero) and (rank > best or not is_number(best, zero))
                if found < 0 or better:
                    best = rank
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
def _split(geometry: int, unit: int) -> tuple[int, int, int]:
    """The channel, counted over all images, and the depth and height of a row of outputs."""
    heights, depths = at(geometry, p.HEIGHT + p.OUT), at(geometry, p.DEPTH + p.OUT)
    rest = unit // heights
    plane = rest // depths
    return plane, rest - plane * depths, unit - rest * heights


@inner
def _plane_size(geometry: int) -> int:
    return at(geometry, p.DEPTH + p.SIZE) * at(geometry, p.HEIGHT + p.SIZE) * at(geometry, p.ACROSS + p.SIZE)


@inner
def _channel(zero: int, source: int, geometry: int, plane: int) -> int:
    offset = p.place_of(geometry, plane, 0, p.SOURCE, p.CHANNEL_SOURCE, p.IMAGE_SOURCE, -1)
    return advance(source, offset, zero)


@kernel
def windows(zero: int, source: int, values: int, indices: int, geometry: int, begin: int, end: int) -> None:
    """Window by window, for what the other kernels do not take; with or without indices."""
    size, step = at(geometry, p.INDEX_SIZE), at(geometry, p.ACROSS + p.VALUE)
    for unit in range(begin, end):
        plane, depth, height = _split(geometry, unit)
        channel = _channel(zero, source, geometry, plane)
        value = p.place_of(geometry, plane, depth, p.VALUE, p.CHANNEL_VALUE, p.IMAGE_VALUE, height)
        index = p.place_of(geometry, plane, depth, p.INDEX, p.CHANNEL_INDEX, p.IMAGE_INDEX, height)
        for i in range(at(geometry, p.ACROSS + p.OUT)):
            found = _winner(zero, channel, geometry, depth, height, i)
            store(values, value + i * step, _element_at(zero, channel, geometry, found))
            if size:
                place = index + i * at(geometry, p.ACROSS + p.INDEX)
                put_index(indices, place, plane * _plane_size(geometry) + found, size)


@inner
def _covered(geometry: int) -> tuple[int, int, int]:
    """Positions of the input along the innermost dimension that windows cover: how many, and the padding before."""
    start = at(geometry, p.ACROSS + p.START)
    count = min(at(geometry, p.ACROSS + p.SIZE), at(geometry, p.LINE) - start)
    return max(count, 0), min(start, at(geometry, p.LINE)), at(geometry, p.LINE)


@inner
def _fill(lowest: int, line: int, count: int) -> None:
    for i in range(count):
        store(line, i, lowest)


@inner
def _code(zero: int, rank: int, position: int) -> int:
    key = choose(is_number(rank, zero), key_of(rank), _NOT_A_NUMBER)
    return (key << 32) | (_ALL_ONES - position)


@inlined
def _raise_rows(zero: int, row: int, apart: int, rows: int, count: int, step: int, line: int, invert: int) -> None:
    """Takes rows of the input, ``apart`` bytes from each other, into the line."""
    lowest = lowest_rank(zero)
    for i in range(count):
        rank = load(line, i, lowest)
        for j in range(rows):
            rank = greater(rank_of(read(row + j * apart, i * step, zero), invert), rank)
        store(line, i, rank)


@inlined
def _raise_named(
    zero: int,
    row: int,
    apart: int,
    rows: int,
    count: int,
    step: int,
    line: int,
    invert: int,
    name: int,
    next_name: int,
) -> None:
    """The same with codes; ``name`` is the position of the first row, ``next_name`` what it grows by with each row."""
    for i in range(count):
        best = load(line, i, 0)
        for j in range(rows):
            rank = rank_of(read(row + j * apart, i * step, zero), invert)
            best = larger(_code(zero, rank, name + j * next_name + i), best)
        store(line, i, best)


@inner
def _covered_rows(geometry: int, height: int) -> tuple[int, int, int]:
    """Of the rows that a window covers at one depth: how many, the first one, and how far they lie apart."""
    begin = p.first_tap(geometry, p.HEIGHT, height)
    count = p.taps_end(geometry, p.HEIGHT, height) - begin
    return count, p.position(geometry, p.HEIGHT, height, begin), at(geometry, p.HEIGHT + p.DILATION)


@inner
def _raise_lines(
    zero: int, channel: int, geometry: int, depth: int, height: int, line: int, count: int, named: bool
) -> None:
    """Reduces all rows that a row of windows covers to the line."""
    step, down, invert = at(geometry, p.ACROSS + p.SOURCE), at(geometry, p.HEIGHT + p.SOURCE), at(geometry, g.INVERT)
    rows, top, dilation = _covered_rows(geometry, height)
    apart, across = advance(0, dilation * down, zero), at(geometry, p.ACROSS + p.SIZE)
    for i in range(p.first_tap(geometry, p.DEPTH, depth), p.taps_end(geometry, p.DEPTH, depth)):
        d = p.position(geometry, p.DEPTH, depth, i)
        row = advance(channel, d * at(geometry, p.DEPTH + p.SOURCE) + top * down, zero)
        name, next_name = (d * at(geometry, p.HEIGHT + p.SIZE) + top) * across, dilation * across
        left = rows
        while left > 0:
            few = min(left, 3) if step == 1 else 1
            if named:
                if few == 3:
                    _raise_named(zero, row, apart, 3, count, 1, line, invert, name, next_name)
                else:
                    few = 1
                    if step == 1:
                        _raise_named(zero, row, apart, 1, count, 1, line, invert, name, next_name)
                    else:
                        _raise_named(zero, row, apart, 1, count, step, line, invert, name, next_name)
            elif few == 3:
                _raise_rows(zero, row, apart, 3, count, 1, line, invert)
            elif few == 2:
                _raise_rows(zero, row, apart, 2, count, 1, line, invert)
            elif step == 1:
                _raise_rows(zero, row, apart, 1, count, 1, line, invert)
            else:
                _raise_rows(zero, row, apart, 1, count, step, line, invert)
            row, name, left = row + few * apart, name + few * next_name, left - few


@inlined
def _taps(lowest: int, line: int, stride: int, dilation: int, taps: int, count: int, best: int) -> None:
    """Takes some elements of each of ``count`` windows."""
    for i in range(count):
        rank = load(best, i, lowest)
        for j in range(taps):
            rank = greater(load(line, i * stride + j * dilation, lowest), rank)
        store(best, i, rank)


@inner
def _every_other(lowest: int, line: int, dilation: int, window: int, count: int, best: int) -> None:
    """Windows whose starts are two elements apart, whole vectors of them."""
    for i in range(0, count, wide_lanes(lowest)):
        rank = every_other(line, 2 * i, lowest)
        for j in range(1, window):
            rank = greater(every_other(line, 2 * i + j * dilation, lowest), rank)
        store_ranks(best, i, rank)


@inner
def _along_line(lowest: int, line: int, geometry: int, best: int) -> None:
    """Reduces each window along the line to its greatest rank or code."""
    stride, window = at(geometry, p.ACROSS + p.STRIDE), at(geometry, p.ACROSS + p.WINDOW)
    dilation, count = at(geometry, p.ACROSS + p.DILATION), at(geometry, p.ACROSS + p.OUT)
    if window > count and window > 3:
        for i in range(count):
            first = advance(line, i * stride, lowest)
            rank = lowest
            for j in range(window):
                rank = greater(load(first, j * dilation, lowest), rank)
            store(best, i, rank)
        return
    if stride == 2:
        _every_other(lowest, line, dilation, window, count, best)
        return
    _fill(lowest, best, count)
    j = 0
    while j < window:
        tap, left = advance(line, j * dilation, lowest), window - j
        few = 1
        if stride == 1 and left >= 3:
            few = 3
            _taps(lowest, tap, 1, dilation, 3, count, best)
        elif stride == 1:
            _taps(lowest, tap, 1, dilation, 1, count, best)
        else:
            _taps(lowest, tap, stride, dilation, 1, count, best)
        j += few


@inner
def _has_negative_zero(zero: int, channel: int, geometry: int, depth: int, height: int) -> bool:
    """Whether any row that a row of windows covers has one."""
    step, down = at(geometry, p.ACROSS + p.SOURCE), at(geometry, p.HEIGHT + p.SOURCE)
    rows, top, dilation = _covered_rows(geometry, height)
    covered, _, _ = _covered(geometry)
    bits = integer_zero(zero)
    negative = lowest_rank(bits)
    for i in range(p.first_tap(geometry, p.DEPTH, depth), p.taps_end(geometry, p.DEPTH, depth)):
        plane = p.position(geometry, p.DEPTH, depth, i) * at(geometry, p.DEPTH + p.SOURCE)
        for j in range(rows):
            row = advance(channel, plane + (top + j * dilation) * down, zero)
            if first_of(bits, row, covered, step, 0, negative) >= 0:
                return True
    return False


@inner
def _has_zero_or_lowest(best: int, count: int, nought: int, lowest: int) -> tuple[bool, bool]:
    """Whether any of some ranks of floats is that of zeros, and whether any is that of -inf."""
    lanes, zero_rank, lowest_ranks = wide_lanes(lowest), wide(nought, lowest), wide(lowest, lowest)
    zeros = lowests = 0
    for i in range(0, count, lanes):
        ranks, within = wide_ranks(best, i, 0, lowest), (1 << min(count - i, lanes)) - 1
        zeros |= equal_lanes(ranks, zero_rank) & within
        lowests |= equal_lanes(ranks, lowest_ranks) & within
    return zeros != 0, lowests != 0


@inner
def _put_values(zero: int, best: int, values: int, geometry: int, channel: int, depth: int, height: int) -> None:
    """Turns ranks into elements; for NaN, and for zeros of which some are negative, the winner is looked for."""
    step, count, invert = at(geometry, p.ACROSS + p.VALUE), at(geometry, p.ACROSS + p.OUT), at(geometry, g.INVERT)
    lowest = lowest_rank(zero)
    if step == 1:
        for i in range(count):
            store(values, i, element_of(load(best, i, lowest), invert, zero))
    else:
        for i in range(count):
            store(values, i * step, element_of(load(best, i, lowest), invert, zero))
    if is_float(zero):
        nought = rank_of(of_bits(0, zero), 0)
        zeros, lowests = _has_zero_or_lowest(best, count, nought, lowest)
        zeros = zeros and _has_negative_zero(zero, channel, geometry, depth, height)
        if zeros or lowests:
            for i in range(count):
                rank = load(best, i, lowest)
                if rank == lowest or (zeros and rank == nought):
                    found = _winner(zero, channel, geometry, depth, height, i)
                    store(values, i * step, _element_at(zero, channel, geometry, found))


@inner
def _put_named(zero: int, best: int, values: int, indices: int, geometry: int, channel: int, first: int) -> None:
    value_step, index_step = at(geometry, p.ACROSS + p.VALUE), at(geometry, p.ACROSS + p.INDEX)
    size, packed = at(geometry, p.INDEX_SIZE), at(geometry, PACKED)
    for i in range(at(geometry, p.ACROSS + p.OUT)):
        found = _ALL_ONES - (load(best, i, 0) & _ALL_ONES)
        element = read(channel, found, zero) if packed else _element_at(zero, channel, geometry, found)
        store(values, i * value_step, element)
        put_index(indices, i * index_step, first + found, size)


@kernel
def rows(zero: int, source: int, values: int, indices: int, geometry: int, begin: int, end: int) -> None:
    """Values alone."""
    covered, start, length = _covered(geometry)
    lowest = lowest_rank(zero)
    memory = np.empty(length + at(geometry, p.ACROSS + p.OUT) + _SLACK, np.int64)
    line = memory.ctypes.data
    best = line + 8 * length
    _fill(lowest, line, length)
    for unit in range(begin, end):
        plane, depth, height = _split(geometry, unit)
        channel = _channel(zero, source, geometry, plane)
        value = p.place_of(geometry, plane, depth, p.VALUE, p.CHANNEL_VALUE, p.IMAGE_VALUE, height)
        # Padding stays what it is.
        here = advance(line, start, lowest)
        _fill(lowest, here, covered)
        _raise_lines(zero, channel, geometry, depth, height, here, covered, False)
        _along_line(lowest, line, geometry, best)
        _put_values(zero, best, advance(values, value, zero), geometry, channel, depth, height)
    memory[0] = 0  # keeps the memory alive until here


@kernel
def named_rows(zero: int, source: int, values: int, indices: int, geometry: int, begin: int, end: int) -> None:
    """Values and indices, of elements of at most 32 bits."""
    covered, start, length = _covered(geometry)
    memory = np.empty(length + at(geometry, p.ACROSS + p.OUT) + _SLACK, np.int64)
    line = memory.ctypes.data
    best = line + 8 * length
    _fill(NOTHING, line, length)
    for unit in range(begin, end):
        plane, depth, height = _split(geometry, unit)
        channel = _channel(zero, source, geometry, plane)
        value = p.place_of(geometry, plane, depth, p.VALUE, p.CHANNEL_VALUE, p.IMAGE_VALUE, height)
        index = p.place_of(geometry, plane, depth, p.INDEX, p.CHANNEL_INDEX, p.IMAGE_INDEX, height)
        _fill(NOTHING, line + 8 * start, covered)
        _raise_lines(zero, channel, geometry, depth, height, line + 8 * start, covered, True)
        _along_line(NOTHING, line, geometry, best)
        first = plane * _plane_size(geometry)
        here = indices + index * at(geometry, p.INDEX_SIZE)
        _put_named(zero, best, advance(values, value, zero), here, geometry, channel, first)
    memory[0] = 0  # keeps the memory alive until here
