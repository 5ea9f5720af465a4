"""The kernels of max pooling. A unit is a tile: adjacent outputs along the innermost dimension.

The input rows that the windows of a tile cover are first reduced to one line, element by element and so in whole
vectors; the windows are then reduced along that line.
"""

from __future__ import annotations

import numpy as np

from ..extremes.extreme_rows import first_of, put_index
from ..extremes.rank_vectors import WIDE, equal_lanes, wide, wide_lanes, wide_ranks
from ..extremes.ranks import NOTHING, element_of, is_float, is_number, least_rank, lowest_rank, raised, rank_of
from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, integer_zero, load, of_bits, read, store
from ..run.geometry import advance, at
from . import geometry as p
from .lines import ALL_ONES, along_line, covered_positions, covered_rows, fill, raise_lines

SLACK = 4 * WIDE // 8
"""Padding after a line and its results, in int64, because vectors may reach past them."""

_ONE_BY_ONE = 4
"""Windows are revisited one by one if that costs at most this many times as much as the whole tile's line."""


@inner
def _winner(zero: int, channel: int, geometry: int, depth: int, height: int, across: int) -> int:
    """Returns the channel position of the first of the greatest elements of one window."""
    best, found = lowest_rank(zero), -1
    for i in range(p.first_tap(geometry, p.DEPTH, depth), p.taps_end(geometry, p.DEPTH, depth)):
        d = p.position(geometry, p.DEPTH, depth, i)
        for j in range(p.first_tap(geometry, p.HEIGHT, height), p.taps_end(geometry, p.HEIGHT, height)):
            h = p.position(geometry, p.HEIGHT, height, j)
            row = d * at(geometry, p.DEPTH + p.SOURCE) + h * at(geometry, p.HEIGHT + p.SOURCE)
            here = advance(channel, row, zero)
            for k in range(p.first_tap(geometry, p.ACROSS, across), p.taps_end(geometry, p.ACROSS, across)):
                w = p.position(geometry, p.ACROSS, across, k)
                rank = rank_of(read(here, w * at(geometry, p.ACROSS + p.SOURCE), zero), at(geometry, p.INVERT))
                better = is_number(rank, zero) and (rank > best or not is_number(best, zero))
                if found < 0 or better:
                    best = rank
                    found = (d * at(geometry, p.HEIGHT + p.SIZE) + h) * at(geometry, p.ACROSS + p.SIZE) + w
    return found


@inner
def _element_at(zero: int, channel: int, geometry: int, found: int) -> int:
    """Returns the element at a channel position."""
    across, height = at(geometry, p.ACROSS + p.SIZE), at(geometry, p.HEIGHT + p.SIZE)
    row = found // across
    depth = row // height
    offset = (found - row * across) * at(geometry, p.ACROSS + p.SOURCE)
    offset += (row - depth * height) * at(geometry, p.HEIGHT + p.SOURCE) + depth * at(geometry, p.DEPTH + p.SOURCE)
    return read(channel, offset, zero)


@inner
def _split(geometry: int, row: int) -> tuple[int, int, int]:
    """Splits a row of outputs into its channel, counted over all images, its depth and its height."""
    heights, depths = at(geometry, p.HEIGHT + p.OUT), at(geometry, p.DEPTH + p.OUT)
    rest = row // heights
    plane = rest // depths
    return plane, rest - plane * depths, row - rest * heights


@inlined
def _tile(geometry: int, unit: int) -> tuple[int, int]:
    """Returns a tile's row of outputs, and the tile's first output in it."""
    tiles = at(geometry, p.TILES)
    if tiles == 1:
        return unit, 0
    row = unit // tiles
    return row, (unit - row * tiles) * at(geometry, p.TILE)


@inner
def _width(geometry: int, first: int) -> int:
    """Returns the number of outputs in a tile."""
    return min(at(geometry, p.TILE), at(geometry, p.ACROSS + p.OUT) - first)


@inner
def _plane_size(geometry: int) -> int:
    return at(geometry, p.DEPTH + p.SIZE) * at(geometry, p.HEIGHT + p.SIZE) * at(geometry, p.ACROSS + p.SIZE)


@inner
def _channel(zero: int, source: int, geometry: int, plane: int) -> int:
    offset = p.place_of(geometry, plane, 0, p.SOURCE, p.CHANNEL_SOURCE, p.IMAGE_SOURCE, -1)
    return advance(source, offset, zero)


@kernel
def windows(zero: int, source: int, values: int, indices: int, geometry: int, begin: int, end: int) -> None:
    """Reduces window by window, with or without indices, where the other kernels do not apply."""
    size, step = at(geometry, p.INDEX_SIZE), at(geometry, p.ACROSS + p.VALUE)
    for unit in range(begin, end):
        row, first = _tile(geometry, unit)
        plane, depth, height = _split(geometry, row)
        channel = _channel(zero, source, geometry, plane)
        value = p.place_of(geometry, plane, depth, p.VALUE, p.CHANNEL_VALUE, p.IMAGE_VALUE, height)
        index = p.place_of(geometry, plane, depth, p.INDEX, p.CHANNEL_INDEX, p.IMAGE_INDEX, height)
        for i in range(first, first + _width(geometry, first)):
            found = _winner(zero, channel, geometry, depth, height, i)
            store(values, value + i * step, raised(_element_at(zero, channel, geometry, found)))
            if size:
                place = index + i * at(geometry, p.ACROSS + p.INDEX)
                put_index(indices, place, plane * _plane_size(geometry) + found, size)


@inner
def _has_negative_zero(zero: int, channel: int, geometry: int, depth: int, height: int, place: int, count: int) -> bool:
    """Whether any row that the windows of a tile cover contains a negative zero."""
    step, down = at(geometry, p.ACROSS + p.SOURCE), at(geometry, p.HEIGHT + p.SOURCE)
    rows, top, dilation = covered_rows(geometry, height)
    bits = integer_zero(zero)
    negative = lowest_rank(bits)
    for i in range(p.first_tap(geometry, p.DEPTH, depth), p.taps_end(geometry, p.DEPTH, depth)):
        plane = p.position(geometry, p.DEPTH, depth, i) * at(geometry, p.DEPTH + p.SOURCE)
        for j in range(rows):
            row = advance(channel, plane + (top + j * dilation) * down + place * step, zero)
            if first_of(bits, row, count, step, 0, negative) >= 0:
                return True
    return False


@inner
def _has_zero(best: int, count: int, nought: int, lowest: int) -> bool:
    """Whether any rank of a float is that of zero."""
    lanes, zero_rank = wide_lanes(lowest), wide(nought, lowest)
    zeros = 0
    for i in range(0, count, lanes):
        ranks, within = wide_ranks(best, i, 0, lowest), (1 << min(count - i, lanes)) - 1
        zeros |= equal_lanes(ranks, zero_rank) & within
    return zeros != 0


@inner
def _put_ranks(zero: int, best: int, count: int, values: int, step: int, invert: int) -> None:
    """Converts ranks to elements. Only zeros may differ from the elements that won."""
    lowest = lowest_rank(zero)
    if step == 1:
        for i in range(count):
            store(values, i, element_of(load(best, i, lowest), invert, zero))
    else:
        for i in range(count):
            store(values, i * step, element_of(load(best, i, lowest), invert, zero))


@inner
def _count_open(best: int, count: int, nought: int) -> int:
    """Counts the ranks of zeros."""
    found = 0
    for i in range(count):
        if load(best, i, nought) == nought:
            found += 1
    return found


@inner
def _window_taps(geometry: int, depth: int, height: int) -> tuple[int, int]:
    """Returns the number of rows that the windows of a tile cover, and the taps in each, ignoring padding."""
    rows, _, _ = covered_rows(geometry, height)
    planes = p.taps_end(geometry, p.DEPTH, depth) - p.first_tap(geometry, p.DEPTH, depth)
    return planes * rows, at(geometry, p.ACROSS + p.WINDOW)


@inner
def _put_winners(
    zero: int,
    best: int,
    values: int,
    geometry: int,
    channel: int,
    depth: int,
    height: int,
    first: int,
    count: int,
    covered: int,
) -> bool:
    """Decides windows that zeros leave open, one by one; returns False if a line of codes is cheaper."""
    step, nought = at(geometry, p.ACROSS + p.VALUE), rank_of(of_bits(0, zero), 0)
    rows, taps = _window_taps(geometry, depth, height)
    line = rows * covered + count * taps
    if _count_open(best, count, nought) * rows * taps > _ONE_BY_ONE * line:
        return False
    for i in range(count):
        if load(best, i, nought) == nought:
            found = _winner(zero, channel, geometry, depth, height, first + i)
            store(values, i * step, _element_at(zero, channel, geometry, found))
    return True


@inner
def _put_elements(zero: int, best: int, count: int, values: int, geometry: int, channel: int) -> None:
    """Converts codes to elements."""
    step = at(geometry, p.ACROSS + p.VALUE)
    for i in range(count):
        found = ALL_ONES - (load(best, i, 0) & ALL_ONES)
        store(values, i * step, raised(_element_at(zero, channel, geometry, found)))


@inner
def _put_named(
    zero: int, best: int, count: int, values: int, indices: int, geometry: int, channel: int, base: int
) -> None:
    """Converts codes to elements and indices."""
    value_step, index_step = at(geometry, p.ACROSS + p.VALUE), at(geometry, p.ACROSS + p.INDEX)
    size, packed = at(geometry, p.INDEX_SIZE), at(geometry, p.PACKED)
    for i in range(count):
        found = ALL_ONES - (load(best, i, 0) & ALL_ONES)
        element = read(channel, found, zero) if packed else _element_at(zero, channel, geometry, found)
        store(values, i * value_step, raised(element))
        put_index(indices, i * index_step, base + found, size)


@kernel
def rows(zero: int, source: int, values: int, indices: int, geometry: int, begin: int, end: int) -> None:
    """Computes values only."""
    lowest = least_rank(zero)
    memory = np.empty(at(geometry, p.LINE) + at(geometry, p.TILE) + SLACK, np.int64)
    line = address_of(memory)
    best = line + 8 * at(geometry, p.LINE)
    filled = -1
    place = covered = before = count = 0
    for unit in range(begin, end):
        row, first = _tile(geometry, unit)
        plane, depth, height = _split(geometry, row)
        channel = _channel(zero, source, geometry, plane)
        value = p.place_of(geometry, plane, depth, p.VALUE, p.CHANNEL_VALUE, p.IMAGE_VALUE, height)
        here = advance(values, value + first * at(geometry, p.ACROSS + p.VALUE), zero)
        if first != filled:
            count = _width(geometry, first)
            place, covered, before, length = covered_positions(geometry, first, count)
            fill(lowest, line, length)
            filled = first
        inside = advance(line, before, lowest)
        # Padding remains valid.
        fill(lowest, inside, covered)
        raise_lines(zero, channel, geometry, depth, height, place, covered, inside, False)
        along_line(lowest, line, geometry, count, best)
        _put_ranks(zero, best, count, here, at(geometry, p.ACROSS + p.VALUE), at(geometry, p.INVERT))
        zeros = False
        if is_float(zero):
            zeros = _has_zero(best, count, rank_of(of_bits(0, zero), 0), lowest)
        if zeros:
            zeros = _has_negative_zero(zero, channel, geometry, depth, height, place, covered)
        if zeros and not _put_winners(zero, best, here, geometry, channel, depth, height, first, count, covered):
            fill(NOTHING, line, at(geometry, p.LINE))
            raise_lines(zero, channel, geometry, depth, height, place, covered, line + 8 * before, True)
            along_line(NOTHING, line, geometry, count, best)
            _put_elements(zero, best, count, here, geometry, channel)
            filled = -1
    memory[0] = 0  # keeps the buffer alive until here


@kernel
def named_rows(zero: int, source: int, values: int, indices: int, geometry: int, begin: int, end: int) -> None:
    """Computes values and indices of elements of at most 32 bits."""
    memory = np.empty(at(geometry, p.LINE) + at(geometry, p.TILE) + SLACK, np.int64)
    line = address_of(memory)
    best = line + 8 * at(geometry, p.LINE)
    filled = -1
    place = covered = before = count = 0
    for unit in range(begin, end):
        row, first = _tile(geometry, unit)
        plane, depth, height = _split(geometry, row)
        channel = _channel(zero, source, geometry, plane)
        value = p.place_of(geometry, plane, depth, p.VALUE, p.CHANNEL_VALUE, p.IMAGE_VALUE, height)
        index = p.place_of(geometry, plane, depth, p.INDEX, p.CHANNEL_INDEX, p.IMAGE_INDEX, height)
        value += first * at(geometry, p.ACROSS + p.VALUE)
        index += first * at(geometry, p.ACROSS + p.INDEX)
        if first != filled:
            count = _width(geometry, first)
            place, covered, before, length = covered_positions(geometry, first, count)
            fill(NOTHING, line, length)
            filled = first
        fill(NOTHING, line + 8 * before, covered)
        raise_lines(zero, channel, geometry, depth, height, place, covered, line + 8 * before, True)
        along_line(NOTHING, line, geometry, count, best)
        base = plane * _plane_size(geometry)
        here = indices + index * at(geometry, p.INDEX_SIZE)
        _put_named(zero, best, count, advance(values, value, zero), here, geometry, channel, base)
    memory[0] = 0  # keeps the buffer alive until here
