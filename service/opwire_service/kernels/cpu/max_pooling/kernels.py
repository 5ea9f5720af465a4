"""The kernels of max pooling. A unit is a tile: adjacent outputs along the innermost dimension.

The input rows that the windows of a tile cover are first reduced to one line, element by element and so in whole
vectors; the windows are then reduced along that line.
"""

from __future__ import annotations

import numpy as np

from ..argreduce.rank_vectors import WIDE, equal_lanes, wide, wide_lanes, wide_ranks
from ..argreduce.ranks import NOTHING, element_of, is_float, is_number, least_rank, lowest_rank, raised, rank_of
from ..argreduce.rows import position_of, put_index
from ..jit.compiler import inner, kernel
from ..jit.element import address_of, integer_zero, load, of_bits, read, store
from ..run.geometry import advance
from ..run.walk import split
from ..run.windows import first_tap, place_of, position, taps_end, tile_of, width_of
from .lines import ALL_ONES, MaxPooling, along_line, covered_positions, covered_rows, fill, raise_lines

SLACK = 4 * WIDE // 8
"""Padding after a line and its results, in int64, because vectors may reach past them."""

_ONE_BY_ONE = 4
"""Windows are revisited one by one if that costs at most this many times as much as the whole tile's line."""


@inner
def _winner(zero: int, channel: int, geometry: MaxPooling, depth: int, height: int, across: int) -> int:
    """Returns the channel position of the first of the greatest elements of one window."""
    best, found = lowest_rank(zero), -1
    for i in range(first_tap(geometry.depth, depth), taps_end(geometry.depth, depth)):
        d = position(geometry.depth, depth, i)
        for j in range(first_tap(geometry.height, height), taps_end(geometry.height, height)):
            h = position(geometry.height, height, j)
            row = d * geometry.source.depth + h * geometry.source.height
            here = advance(channel, row, zero)
            for k in range(first_tap(geometry.across, across), taps_end(geometry.across, across)):
                w = position(geometry.across, across, k)
                rank = rank_of(read(here, w * geometry.source.across, zero), geometry.invert)
                better = is_number(rank, zero) and (rank > best or not is_number(best, zero))
                if found < 0 or better:
                    best = rank
                    found = (d * geometry.height.size + h) * geometry.across.size + w
    return found


@inner
def _element_at(zero: int, channel: int, geometry: MaxPooling, found: int) -> int:
    """Returns the element at a channel position."""
    row, across = split(found, geometry.across.size)
    depth, height = split(row, geometry.height.size)
    steps = geometry.source
    return read(channel, depth * steps.depth + height * steps.height + across * steps.across, zero)


@inner
def _plane_size(geometry: MaxPooling) -> int:
    return geometry.depth.size * geometry.height.size * geometry.across.size


@inner
def _channel(zero: int, source: int, geometry: MaxPooling, plane: int) -> int:
    return advance(source, place_of(geometry, geometry.source, plane, 0, 0), zero)


@kernel
def windows(zero: int, source: int, values: int, indices: int, geometry: MaxPooling, begin: int, end: int) -> None:
    """Reduces window by window, with or without indices, where the other kernels do not apply."""
    size, step = geometry.index_size, geometry.value.across
    for unit in range(begin, end):
        plane, depth, height, first = tile_of(geometry, unit)
        channel = _channel(zero, source, geometry, plane)
        value = place_of(geometry, geometry.value, plane, depth, height)
        index = place_of(geometry, geometry.index, plane, depth, height)
        for i in range(first, first + width_of(geometry, first)):
            found = _winner(zero, channel, geometry, depth, height, i)
            store(values, value + i * step, raised(_element_at(zero, channel, geometry, found)))
            if size:
                place = index + i * geometry.index.across
                put_index(indices, place, plane * _plane_size(geometry) + found, size)


@inner
def _has_negative_zero(
    zero: int, channel: int, geometry: MaxPooling, depth: int, height: int, place: int, count: int
) -> bool:
    """Whether any row that the windows of a tile cover contains a negative zero."""
    step, down = geometry.source.across, geometry.source.height
    rows, top, dilation = covered_rows(geometry, height)
    bits = integer_zero(zero)
    negative = lowest_rank(bits)
    for i in range(first_tap(geometry.depth, depth), taps_end(geometry.depth, depth)):
        plane = position(geometry.depth, depth, i) * geometry.source.depth
        for j in range(rows):
            row = advance(channel, plane + (top + j * dilation) * down + place * step, zero)
            if position_of(bits, row, count, step, 0, negative, False) >= 0:
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
def _count_undecided(best: int, count: int, nought: int) -> int:
    """Counts the ranks of zeros."""
    found = 0
    for i in range(count):
        if load(best, i, nought) == nought:
            found += 1
    return found


@inner
def _window_taps(geometry: MaxPooling, depth: int, height: int) -> tuple[int, int]:
    """Returns the number of rows that the windows of a tile cover, and the taps in each, ignoring padding."""
    rows, _, _ = covered_rows(geometry, height)
    planes = taps_end(geometry.depth, depth) - first_tap(geometry.depth, depth)
    return planes * rows, geometry.across.window


@inner
def _put_winners(
    zero: int,
    best: int,
    values: int,
    geometry: MaxPooling,
    channel: int,
    depth: int,
    height: int,
    first: int,
    count: int,
    covered: int,
) -> bool:
    """Settles windows that zeros leave undecided, one by one; returns False if a line of codes is cheaper."""
    step, nought = geometry.value.across, rank_of(of_bits(0, zero), 0)
    rows, taps = _window_taps(geometry, depth, height)
    line = rows * covered + count * taps
    if _count_undecided(best, count, nought) * rows * taps > _ONE_BY_ONE * line:
        return False
    for i in range(count):
        if load(best, i, nought) == nought:
            found = _winner(zero, channel, geometry, depth, height, first + i)
            store(values, i * step, _element_at(zero, channel, geometry, found))
    return True


@inner
def _put_elements(zero: int, best: int, count: int, values: int, geometry: MaxPooling, channel: int) -> None:
    """Converts codes to elements."""
    step = geometry.value.across
    for i in range(count):
        found = ALL_ONES - (load(best, i, 0) & ALL_ONES)
        store(values, i * step, raised(_element_at(zero, channel, geometry, found)))


@inner
def _put_named(
    zero: int, best: int, count: int, values: int, indices: int, geometry: MaxPooling, channel: int, base: int
) -> None:
    """Converts codes to elements and indices."""
    value_step, index_step = geometry.value.across, geometry.index.across
    size, packed = geometry.index_size, geometry.packed
    for i in range(count):
        found = ALL_ONES - (load(best, i, 0) & ALL_ONES)
        element = read(channel, found, zero) if packed else _element_at(zero, channel, geometry, found)
        store(values, i * value_step, raised(element))
        put_index(indices, i * index_step, base + found, size)


@inner
def room(geometry: MaxPooling) -> int:
    """Returns the memory of a thread for a line and its results, in int64."""
    return geometry.line + geometry.tile + SLACK


@kernel
def rows(zero: int, source: int, values: int, indices: int, geometry: MaxPooling, begin: int, end: int) -> None:
    """Computes values only."""
    lowest = least_rank(zero)
    memory = np.empty(room(geometry), np.int64)
    line = address_of(memory)
    best = line + 8 * geometry.line
    filled = -1
    place = covered = before = count = 0
    for unit in range(begin, end):
        plane, depth, height, first = tile_of(geometry, unit)
        channel = _channel(zero, source, geometry, plane)
        value = place_of(geometry, geometry.value, plane, depth, height)
        here = advance(values, value + first * geometry.value.across, zero)
        if first != filled:
            count = width_of(geometry, first)
            place, covered, before, length = covered_positions(geometry, first, count)
            fill(lowest, line, length)
            filled = first
        inside = advance(line, before, lowest)
        # Padding remains valid.
        fill(lowest, inside, covered)
        raise_lines(zero, channel, geometry, depth, height, place, covered, inside, False)
        along_line(lowest, line, geometry, count, best)
        _put_ranks(zero, best, count, here, geometry.value.across, geometry.invert)
        zeros = False
        if is_float(zero):
            zeros = _has_zero(best, count, rank_of(of_bits(0, zero), 0), lowest)
        if zeros:
            zeros = _has_negative_zero(zero, channel, geometry, depth, height, place, covered)
        if zeros and not _put_winners(zero, best, here, geometry, channel, depth, height, first, count, covered):
            fill(NOTHING, line, geometry.line)
            raise_lines(zero, channel, geometry, depth, height, place, covered, line + 8 * before, True)
            along_line(NOTHING, line, geometry, count, best)
            _put_elements(zero, best, count, here, geometry, channel)
            filled = -1
    memory[0] = 0  # keeps the buffer alive until here


@kernel
def named_rows(zero: int, source: int, values: int, indices: int, geometry: MaxPooling, begin: int, end: int) -> None:
    """Computes values and indices of elements of at most 32 bits."""
    memory = np.empty(room(geometry), np.int64)
    line = address_of(memory)
    best = line + 8 * geometry.line
    filled = -1
    place = covered = before = count = 0
    for unit in range(begin, end):
        plane, depth, height, first = tile_of(geometry, unit)
        channel = _channel(zero, source, geometry, plane)
        value = place_of(geometry, geometry.value, plane, depth, height)
        index = place_of(geometry, geometry.index, plane, depth, height)
        value += first * geometry.value.across
        index += first * geometry.index.across
        if first != filled:
            count = width_of(geometry, first)
            place, covered, before, length = covered_positions(geometry, first, count)
            fill(NOTHING, line, length)
            filled = first
        fill(NOTHING, line + 8 * before, covered)
        raise_lines(zero, channel, geometry, depth, height, place, covered, line + 8 * before, True)
        along_line(NOTHING, line, geometry, count, best)
        base = plane * _plane_size(geometry)
        here = indices + index * geometry.index_size
        _put_named(zero, best, count, advance(values, value, zero), here, geometry, channel, base)
    memory[0] = 0  # keeps the buffer alive until here
