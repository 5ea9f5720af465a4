"""Winners of rows: least and greatest elements and their positions, for MIN, MAX, ARGMIN and ARGMAX of every data type.

Elements are compared by rank, so the search is always for the greatest rank. A contiguous run is reduced in vectors,
one block at a time; the winner's position is searched for in only one block, at the end.
"""

from __future__ import annotations

import numpy as np

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, bits_of, choose, int32, load, of_bits, read, size_of, store
from ..run import geometry as g
from ..run.geometry import advance, run_from, segment_of
from .geometry import Search
from .rank_vectors import equal_lanes, first_bit, greatest_lane, last_bit, wide, wide_lanes, wide_ranks
from .ranks import NOTHING, element_of, greater, is_float, key_of, lowest_rank, rank_of

_BLOCK = 1 << 12
"""Size of the block, in bytes, that a winner is attributed to; it is still in the L1 cache when it is searched."""

_MERGED = 256
"""Output elements whose segments are merged together."""


@inlined
def _greatest_neighbor(zero: int, address: int, count: int, invert: int) -> int:
    """Returns the greatest rank of a contiguous run."""
    best = lowest_rank(zero)
    lanes = wide_lanes(zero)
    if count >= lanes:
        a = b = c = d = wide(best, zero)
        i = 0
        while i + 4 * lanes <= count:
            a = greater(wide_ranks(address, i, invert, zero), a)
            b = greater(wide_ranks(address, i + lanes, invert, zero), b)
            c = greater(wide_ranks(address, i + 2 * lanes, invert, zero), c)
            d = greater(wide_ranks(address, i + 3 * lanes, invert, zero), d)
            i += 4 * lanes
        while i + lanes <= count:
            a = greater(wide_ranks(address, i, invert, zero), a)
            i += lanes
        # Ranks visited twice change nothing.
        b = greater(wide_ranks(address, count - lanes, invert, zero), b)
        return greatest_lane(greater(greater(a, b), greater(c, d)))
    for i in range(count):
        best = greater(rank_of(read(address, i, zero), invert), best)
    return best


@inlined
def _greatest(zero: int, address: int, count: int, step: int, invert: int) -> int:
    """Returns the greatest rank of a run."""
    if step == 1:
        return _greatest_neighbor(zero, address, count, invert)
    a = b = lowest_rank(zero)
    for i in range(0, count - 1, 2):
        a = greater(rank_of(read(address, i * step, zero), invert), a)
        b = greater(rank_of(read(address, (i + 1) * step, zero), invert), b)
    return greater(rank_of(read(address, (count - 1) * step, zero), invert), greater(a, b))


@inner
def position_of(zero: int, address: int, count: int, step: int, invert: int, rank: int, last: bool) -> int:
    """Returns the position of the first or the last element in a run with a given rank, or -1."""
    lanes, found = wide_lanes(zero), -1
    if step != 1 or count < lanes:
        for i in range(count):
            if (last or found < 0) and rank_of(read(address, i * step, zero), invert) == rank:
                found = i
        return found
    for i in range(0, count, lanes):
        # The final vector overlaps the one before, whose lanes are known not to be equal.
        start = max(count - lanes - i, 0) if last else min(i, count - lanes)
        equal = equal_lanes(wide_ranks(address, start, invert, zero), wide(rank, zero))
        if equal != 0:
            return start + (last_bit(equal) if last else first_bit(equal))
    return -1


@inner
def _scan(zero: int, base: int, geometry: Search, begin: int, end: int) -> tuple[int, int, int]:
    """Returns the greatest rank of reduced elements ``begin`` to ``end``, its key, and the index of the winner.

    The index is -1 if only elements matter and the rank determines it, as it does for all but zeros and NaN.
    """
    step, last, invert, block = geometry.step, geometry.last, geometry.invert, _BLOCK // size_of(zero)
    best, lowest = lowest_rank(zero), lowest_rank(zero)
    found_address, found_size, found_index = base, 0, 0
    i = begin
    while i < end:
        address, left = run_from(geometry, base, i, end, zero)
        while left > 0:
            size = min(left, block)
            rank = _greatest(zero, address, size, step, invert)
            better = rank > best or (rank == best and (last or found_size == 0))
            if better and is_float(zero) and rank == lowest:
                # NaN has the lowest rank too.
                better = position_of(zero, address, size, step, invert, rank, last) >= 0
            if better:
                best = rank
                found_address, found_size, found_index = address, size, i
            i += size
            left -= size
            address = advance(address, size * step, zero)
    if found_size == 0:
        return best, NOTHING, end - 1 if last else begin
    if geometry.index_size == 0 and not (is_float(zero) and best == rank_of(of_bits(0, zero), 0)):
        return best, key_of(best), -1
    place = position_of(zero, found_address, found_size, step, invert, best, last)
    return best, key_of(best), found_index + place


@inner
def put_index(address: int, offset: int, index: int, size: int) -> None:
    if size == 8:
        store(address, offset, index)
    else:
        store(address, offset, int32(index))


@inner
def put_winner(
    zero: int, target: int, states: int, geometry: Search, output: int, segment: int, offset: int, key: int, won: int
) -> None:
    """Writes the index or the bits of a winner, or leaves its key and these in the states of its segment."""
    size, outputs = geometry.index_size, geometry.outputs
    if geometry.segments > 1:
        store(states, 2 * segment * outputs + output, key)
        store(states, (2 * segment + 1) * outputs + output, won)
    elif size:
        put_index(target, offset, won, size)
    else:
        store(target, offset, of_bits(won, zero))


@kernel
def rows(zero: int, source: int, target: int, states: int, geometry: Search, begin: int, end: int) -> None:
    """Row kernel: a unit is an output or a segment of one.

    Segments leave keys and winners in ``states``: segment by segment, and in each the keys of all outputs and then what
    has won.
    """
    for unit in range(begin, end):
        output, segment, first, last = segment_of(geometry, unit)
        base = advance(source, g.kept_source(geometry, output), zero)
        best, key, won = _scan(zero, base, geometry, first, last)
        if not geometry.index_size:
            element = element_of(best, geometry.invert, zero)
            if won >= 0:
                element = read(run_from(geometry, base, won, won + 1, zero)[0], 0, zero)
            won = bits_of(element)
        put_winner(zero, target, states, geometry, output, segment, g.kept_target(geometry, output), key, won)


@kernel
def finish(zero: int, source: int, target: int, states: int, geometry: Search, begin: int, end: int) -> None:
    """Merges the segments of output elements, ``_MERGED`` of them at a time because their states are adjacent."""
    segments, outputs, size = geometry.segments, geometry.outputs, geometry.index_size
    last = geometry.last
    memory = np.empty(2 * _MERGED, np.int64)
    best = address_of(memory)
    won = best + 8 * _MERGED
    for start in range(begin, end, _MERGED):
        width = min(_MERGED, end - start)
        for segment in range(segments):
            keys = 2 * segment * outputs + start
            for i in range(width):
                key, so_far = load(states, keys + i, 0), load(best, i, 0)
                # The winning segment is unpredictable, so this is branch-free.
                better = (segment == 0) | (key > so_far) | (last & (key == so_far))
                store(best, i, choose(better, key, so_far))
                store(won, i, choose(better, load(states, keys + outputs + i, 0), load(won, i, 0)))
        for i in range(width):
            offset = g.kept_target(geometry, start + i)
            if size:
                put_index(target, offset, load(won, i, 0), size)
            else:
                store(target, offset, of_bits(load(won, i, 0), zero))
    memory[0] = 0  # keeps the buffer alive until here
