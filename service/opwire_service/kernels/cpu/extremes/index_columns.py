"""Positions of extremes along an axis that is not the innermost: row by row in one tile of columns after the other."""

from __future__ import annotations

import numpy as np

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, bits_of, cast_to, choose, int32, int64, integer_zero, load, read, size_of, store
from ..run import geometry as g
from ..run.column_rows import Rows, stride_of
from ..run.geometry import Tile, advance, at, tile_of
from . import parameters as p
from .labeled_columns import GROUP, Winners, label_neighbors, labeled_rows_at_once
from .rank_vectors import wide_lanes
from .ranks import NOTHING, element_of, greater, is_float, is_number, key_of, lowest_rank, rank_of, rank_of_key

_ASIDE = 40
"""Padding, in int64, between parts of the scratch buffer that would otherwise compete for the same cache sets."""

_MERGED = 256
"""Columns whose segments are merged together: the states of a single column would all compete for one cache set."""


@inlined
def _label_rows(zero: int, rows: Rows, winners: Winners, label: int) -> None:
    """Updates the winners with rows that share a label."""
    best, labels, invert = winners
    rank_zero = lowest_rank(zero)
    label_zero = integer_zero(rank_zero)
    for i in range(rows.width):
        so_far = rank = load(best, i, rank_zero)
        for j in range(rows.height):
            rank = greater(rank_of(read(rows.address + j * rows.pitch, i * stride_of(rows), zero), invert), rank)
        store(best, i, rank)
        store(labels, i, choose(rank > so_far, cast_to(label, label_zero), load(labels, i, label_zero)))


@inlined
def _label_group(zero: int, rows: Rows, winners: Winners, label: int) -> None:
    """Updates the winners with one group of rows, or part of one."""
    address, pitch, height, width, stride, step = rows
    if height == GROUP:
        _label_rows(zero, Rows(address, pitch, GROUP, width, stride, step), winners, label)
    else:
        for j in range(height):
            _label_rows(zero, Rows(address + j * pitch, pitch, 1, width, stride, step), winners, label)


@inner
def _label(zero: int, geometry: int, tile: Tile, first: int, rows: int, winners: Winners) -> None:
    """Labels the best of ``rows`` rows in search order: rows count from the end where the last one wins."""
    run_size, count, width = at(geometry, g.RUN), at(geometry, g.COUNT), tile.width
    last, stride, group = at(geometry, p.LAST), at(geometry, g.COLUMN_STEP), at(geometry, p.GROUP_ROWS)
    pitch = (-1 if last else 1) * at(geometry, g.STEP) * size_of(zero)
    together = stride == 1 and width >= wide_lanes(zero)
    most = labeled_rows_at_once(pitch) if together else group
    i = 0
    while i < rows:
        index = count - 1 - first - i if last else first + i
        place = index % run_size
        here = min(place + 1 if last else run_size - place, rows - i, most)
        # The last group of a run may be partial.
        here = here // group * group if here > group else here
        address = advance(tile.base, g.reduced_source(geometry, index), zero)
        if together:
            label_neighbors(zero, Rows(address, pitch, here, width, 1, None), winners, i // group, group)
        elif stride == 1:
            _label_group(zero, Rows(address, pitch, here, width, 1, None), winners, i // group)
        else:
            _label_group(zero, Rows(address, pitch, here, width, stride, stride), winners, i // group)
        i += here


@inner
def _begin(zero: int, width: int, best: int, labels: int) -> None:
    rank = lowest_rank(zero)
    for i in range(width):
        store(best, i, rank)
        store(labels, i, integer_zero(rank))


@inner
def _find(zero: int, geometry: int, tile: Tile, best: int, labels: int, found: int) -> None:
    """Stores each column's greatest rank in ``best``, and its row, or the first row of its group, in ``found``.

    Labels are as wide as ranks, so that a vector holds as many labels as ranks; for narrow elements, blocks have no
    more rows (or groups) than there are labels.
    """
    rank_zero = lowest_rank(zero)
    label_zero = integer_zero(rank_zero)
    label_count = 1 << min(8 * size_of(label_zero), 30)
    count, last, group = at(geometry, g.COUNT), at(geometry, p.LAST), at(geometry, p.GROUP_ROWS)
    block = label_count * group
    begin, end, width = tile.first, tile.last, tile.width
    if last:
        begin, end = count - end, count - begin
    winners = Winners(best, labels, at(geometry, p.INVERT))
    overall = found + 8 * (width + _ASIDE)
    for first in range(begin, end, block):
        _begin(zero, width, best, labels)
        _label(zero, geometry, tile, first, min(block, end - first), winners)
        if end - begin <= block:
            for i in range(width):
                store(found, i, begin + (int64(load(labels, i, label_zero)) & (label_count - 1)) * group)
            break
        for i in range(width):
            here, so_far = load(best, i, rank_zero), load(overall, i, rank_zero)
            index = first + (int64(load(labels, i, label_zero)) & (label_count - 1)) * group
            better = (first == begin) | (here > so_far)
            store(overall, i, choose(better, here, so_far))
            store(found, i, choose(better, index, load(found, i, 0)))
    for i in range(width if end - begin > block else 0):
        store(best, i, load(overall, i, rank_zero))
    for i in range(width if last else 0):
        store(found, i, count - 1 - load(found, i, 0))


@inner
def _first_number(zero: int, column: int, geometry: int, begin: int, end: int) -> int:
    """Returns the first (or last) row that is not NaN, or -1."""
    run_size, step, last = at(geometry, g.RUN), at(geometry, g.STEP), at(geometry, p.LAST)
    found, i = -1, begin
    while i < end and (last or found < 0):
        left = min(run_size - i % run_size, end - i)
        address = advance(column, g.reduced_source(geometry, i), zero)
        for j in range(left):
            rank = rank_of(read(address, j * step, zero), 0)
            if is_number(rank, zero) and (last or found < 0):
                found = i + j
        i += left
    return found


@inlined
def _place(zero: int, column: int, index: int, geometry: int, rank: int) -> int:
    """Returns the row with a given rank in the group starting, in search order, at ``index``; rows must be one run."""
    invert, last, step = at(geometry, p.INVERT), at(geometry, p.LAST), at(geometry, g.STEP)
    row = (-1 if last else 1) * step * size_of(zero)
    address = advance(column, index * step, zero)
    rows = min(GROUP, index + 1 if last else at(geometry, g.COUNT) - index)
    # Except for zeros, equal ranks mean equal bits, and comparing bits takes fewer steps.
    wanted = bits_of(element_of(rank, invert, zero))
    mask = -1
    if is_float(zero):
        sign = 1 << (8 * size_of(zero) - 1)
        mask = choose(wanted & ~sign == 0, ~sign, -1)
    place = 0
    if rows == GROUP:
        for j in range(GROUP - 1, -1, -1):
            place = choose((bits_of(read(address + j * row, 0, zero)) ^ wanted) & mask == 0, j, place)
    else:
        for j in range(rows - 1, -1, -1):
            place = choose((bits_of(read(address + j * row, 0, zero)) ^ wanted) & mask == 0, j, place)
    return index - place if last else index + place


@inner
def _settle(zero: int, geometry: int, tile: Tile, best: int, found: int) -> None:
    """Distinguishes best ranks of -inf from columns of NaN alone, whose rank becomes NaN, and finds their rows."""
    step, lowest, width = at(geometry, g.COLUMN_STEP), lowest_rank(zero), tile.width
    unsure = False
    for i in range(width):
        unsure |= load(best, i, lowest) == lowest
    for i in range(width if unsure else 0):
        if load(best, i, lowest) == lowest:
            column = advance(tile.base, i * step, zero)
            element = rank_of(read(column, g.reduced_source(geometry, load(found, i, 0)), zero), 0)
            if not is_number(element, zero):
                number = _first_number(zero, column, geometry, tile.first, tile.last)
                if number < 0:
                    store(best, i, element)
                else:
                    store(found, i, number)


@inlined
def _put_indices(target: int, offset: int, apart: int, found: int, width: int, size: int) -> None:
    if size == 8:
        for i in range(width):
            store(target, offset + i * apart, load(found, i, 0))
    else:
        for i in range(width):
            store(target, offset + i * apart, int32(load(found, i, 0)))


@kernel
def columns(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Column kernel: a unit is a segment of a tile. Several segments store rows of keys and winners in ``states``."""
    segments, step = at(geometry, g.SEGMENTS), at(geometry, g.COLUMN_STEP)
    all_columns, apart = at(geometry, g.COLUMNS), at(geometry, g.COLUMN_TARGET)
    size = at(geometry, p.INDEX_SIZE)
    rank_zero = lowest_rank(zero)
    memory = np.empty(4 * at(geometry, g.TILE) + 3 * _ASIDE, np.int64)
    best = address_of(memory)
    apart_by = 8 * (at(geometry, g.TILE) + _ASIDE)
    labels, found = best + apart_by, best + 2 * apart_by
    for unit in range(begin, end):
        tile = tile_of(source, geometry, unit, zero)
        width = tile.width
        _find(zero, geometry, tile, best, labels, found)
        if is_float(zero):
            _settle(zero, geometry, tile, best, found)
        if at(geometry, p.GROUP_ROWS) > 1 and segments == 1:
            for i in range(width):
                rank = load(best, i, rank_zero)
                if rank > rank_zero:
                    column = advance(tile.base, i * step, zero)
                    store(found, i, _place(zero, column, load(found, i, 0), geometry, rank))
        for i in range(width if segments > 1 else 0):
            rank = load(best, i, rank_zero)
            place = 2 * (tile.outer * segments + tile.segment) * all_columns + tile.start + i
            store(states, place, choose(is_number(rank, zero), key_of(rank), NOTHING))
            store(states, place + all_columns, load(found, i, 0))
        if segments == 1 and apart == 1:
            _put_indices(target, tile.offset, 1, found, width, size)
        elif segments == 1:
            _put_indices(target, tile.offset, apart, found, width, size)
    memory[0] = 0  # keeps the buffer alive until here


@inlined
def _merge(rows: int, columns: int, segments: int, start: int, width: int, last: bool, best: int, found: int) -> None:
    """Merges the keys and indices that segments have left for some columns, row by row."""
    for i in range(width):
        store(best, i, load(rows, start + i, 0))
        store(found, i, load(rows, columns + start + i, 0))
    for segment in range(1, segments):
        keys = 2 * segment * columns + start
        for i in range(width):
            key, so_far = load(rows, keys + i, 0), load(best, i, 0)
            # The winning segment is unpredictable, so this is branch-free.
            better = (key > so_far) | (last & (key == so_far))
            store(best, i, choose(better, key, so_far))
            store(found, i, choose(better, load(rows, keys + columns + i, 0), load(found, i, 0)))


@kernel
def finish(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Merges the segments of columns: a unit is one output element."""
    segments, columns, group = at(geometry, g.SEGMENTS), at(geometry, g.COLUMNS), at(geometry, p.GROUP_ROWS)
    step, apart, last = at(geometry, g.COLUMN_STEP), at(geometry, g.COLUMN_TARGET), at(geometry, p.LAST) != 0
    size, lowest = at(geometry, p.INDEX_SIZE), lowest_rank(zero)
    memory = np.empty(2 * _MERGED, np.int64)
    best = address_of(memory)
    found = best + 8 * _MERGED
    output = begin
    while output < end:
        outer = output // columns
        start = output - outer * columns
        width = min(columns - start, end - output, _MERGED)
        rows = states + 16 * outer * segments * columns
        _merge(rows, columns, segments, start, width, last, best, found)
        if group > 1:
            base = advance(source, g.kept_source(geometry, outer) + start * step, zero)
            for i in range(width):
                key = load(best, i, 0)
                if key > key_of(lowest):
                    rank, column = rank_of_key(key, lowest), advance(base, i * step, zero)
                    store(found, i, _place(zero, column, load(found, i, 0), geometry, rank))
        _put_indices(target, g.kept_target(geometry, outer) + start * apart, apart, found, width, size)
        output += width
    memory[0] = 0  # keeps the buffer alive until here
