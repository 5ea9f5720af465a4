"""The line of a tile: the input rows covered by its windows are reduced to a single row, then along windows.

The line holds ranks if only values are needed, else codes: a rank's key in the high bits, and below it the position,
inverted so that the first of equal elements has the greatest code. Padding at both ends holds a value that never wins.
"""

from __future__ import annotations

from ..argreduce.rank_vectors import every_other, store_ranks, wide_lanes
from ..argreduce.ranks import greater, is_number, key_of, lowest_rank, rank_of
from ..jit.compiler import inlined, inner
from ..jit.element import choose, larger, load, read, store
from ..run.geometry import advance
from ..run.windows import Windows, first_tap, position, taps_end

ALL_ONES = 0xFFFFFFFF
"""The low 32 bits of a code, which hold the inverted position."""

_LEAST_ABREAST = 8
"""With fewer windows than this, long windows are reduced one by one instead of side by side."""

_NOT_A_NUMBER = -(1 << 31)
"""Key of NaN: below that of -inf, but above padding."""


class MaxPooling(Windows):
    """Max pooling."""

    index_size: int  # bytes of an index, 0 for none
    packed: bool  # whether an element's position in its channel is also its offset
    invert: int  # inversion bits, as in argreduce


@inner
def covered_positions(geometry: MaxPooling, first: int, count: int) -> tuple[int, int, int, int]:
    """Returns what the windows of a tile cover along the innermost dimension.

    Returns the first input position, the number of input positions, the padding before them, and the number of
    positions including all padding.
    """
    stride, start = geometry.across.stride, geometry.across.start
    length = geometry.line - (geometry.tile - count) * stride
    begin = first * stride - start
    before, place = min(max(-begin, 0), length), max(begin, 0)
    return place, max(min(geometry.across.size - place, length - before), 0), before, length


@inner
def fill(lowest: int, line: int, count: int) -> None:
    for i in range(count):
        store(line, i, lowest)


@inner
def _code(zero: int, rank: int, position: int) -> int:
    key = choose(is_number(rank, zero), key_of(rank), _NOT_A_NUMBER)
    return (key << 32) | (ALL_ONES - position)


@inlined
def _raise_rows(zero: int, row: int, apart: int, rows: int, count: int, step: int, line: int, invert: int) -> None:
    """Reduces input rows, ``apart`` bytes from each other, into the line."""
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
    """Like ``_raise_rows``, with codes; ``name`` is the first element's position, ``next_name`` its step per row."""
    for i in range(count):
        best = load(line, i, 0)
        for j in range(rows):
            rank = rank_of(read(row + j * apart, i * step, zero), invert)
            best = larger(_code(zero, rank, name + j * next_name + i), best)
        store(line, i, best)


@inner
def covered_rows(geometry: MaxPooling, height: int) -> tuple[int, int, int]:
    """Returns the rows that a window covers at one depth: how many, the first one, and their distance."""
    begin = first_tap(geometry.height, height)
    count = taps_end(geometry.height, height) - begin
    return count, position(geometry.height, height, begin), geometry.height.dilation


@inner
def raise_lines(
    zero: int,
    channel: int,
    geometry: MaxPooling,
    depth: int,
    height: int,
    place: int,
    count: int,
    line: int,
    named: bool,
) -> None:
    """Reduces all rows covered by a tile's windows, ``count`` elements of each from ``place`` on, into the line."""
    step, down, invert = geometry.source.across, geometry.source.height, geometry.invert
    rows, top, dilation = covered_rows(geometry, height)
    apart, across = advance(0, dilation * down, zero), geometry.across.size
    for i in range(first_tap(geometry.depth, depth), taps_end(geometry.depth, depth)):
        d = position(geometry.depth, depth, i)
        row = advance(channel, d * geometry.source.depth + top * down + place * step, zero)
        name, next_name = (d * geometry.height.size + top) * across + place, dilation * across
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
    """Reduces some taps of each of ``count`` windows into ``best``."""
    for i in range(count):
        rank = load(best, i, lowest)
        for j in range(taps):
            rank = greater(load(line, i * stride + j * dilation, lowest), rank)
        store(best, i, rank)


@inner
def _every_other(lowest: int, line: int, dilation: int, window: int, count: int, best: int) -> None:
    """Reduces windows with a stride of 2, in whole vectors."""
    for i in range(0, count, wide_lanes(lowest)):
        rank = every_other(line, 2 * i, lowest)
        for j in range(1, window):
            rank = greater(every_other(line, 2 * i + j * dilation, lowest), rank)
        store_ranks(best, i, rank)


@inner
def along_line(lowest: int, line: int, geometry: MaxPooling, count: int, best: int) -> None:
    """Reduces each window along the line to its greatest rank or code."""
    stride, window = geometry.across.stride, geometry.across.window
    dilation = geometry.across.dilation
    if count < min(window, _LEAST_ABREAST) and window > 3:
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
    fill(lowest, best, count)
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
