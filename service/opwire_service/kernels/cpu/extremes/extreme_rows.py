"""Least and greatest elements and their positions, for MIN, MAX, ARGMIN and ARGMAX of every data type.

Elements are compared by rank, so the search is always for the greatest rank. A contiguous run is reduced in vectors,
one block at a time; the winner's position is searched for in only one block, at the end.
"""

from __future__ import annotations

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import bits_of, int32, integer_zero, load, of_bits, read, size_of, store
from ..run import geometry as g
from ..run.geometry import advance, at
from . import parameters as p
from .half_ranks import greatest_of_run
from .rank_vectors import (
    equal_lanes,
    first_bit,
    greatest_lane,
    last_bit,
    narrow,
    narrow_lanes,
    narrow_ranks,
    wide,
    wide_lanes,
    wide_ranks,
)
from .ranks import NOTHING, element_of, greater, is_float, is_half, key_of, lowest_rank, rank_of
from .short_runs import first_winner, is_short

_BLOCK = 1 << 12
"""Size of the block, in bytes, that a winner is attributed to; it is still in the L1 cache when it is searched."""


@inlined
def _greatest_neighbor(zero: int, address: int, count: int, invert: int) -> int:
    """Returns the greatest rank of a contiguous run."""
    best = lowest_rank(zero)
    if count >= wide_lanes(zero):
        if is_half(zero):
            best, sure = greatest_of_run(zero, address, count, invert)
            if sure:
                return best
            best = lowest_rank(zero)
        lanes = wide_lanes(zero)
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
    if count >= narrow_lanes(zero):
        lanes = narrow_lanes(zero)
        e = narrow_ranks(address, count - lanes, invert, zero)
        e = greater(e, narrow(best, zero))
        for i in range(0, count - lanes, lanes):
            e = greater(narrow_ranks(address, i, invert, zero), e)
        return greatest_lane(e)
    for i in range(count):
        best = greater(rank_of(read(address, i, zero), invert), best)
    return best


@inlined
def _greatest(zero: int, address: int, count: int, step: int, invert: int) -> int:
    """Returns the greatest rank of a run."""
    if step == 1:
        return _greatest_neighbor(zero, address, count, invert)
    a = b = c = d = lowest_rank(zero)
    i = 0
    while i + 4 <= count:
        a = greater(rank_of(read(address, i * step, zero), invert), a)
        b = greater(rank_of(read(address, (i + 1) * step, zero), invert), b)
        c = greater(rank_of(read(address, (i + 2) * step, zero), invert), c)
        d = greater(rank_of(read(address, (i + 3) * step, zero), invert), d)
        i += 4
    while i < count:
        a = greater(rank_of(read(address, i * step, zero), invert), a)
        i += 1
    return greater(greater(a, b), greater(c, d))


@inner
def first_of(zero: int, address: int, count: int, step: int, invert: int, rank: int) -> int:
    """Returns the position of the first element in a run with a given rank, or -1."""
    lanes = wide_lanes(zero)
    if step != 1 or count < lanes:
        for i in range(count):
            if rank_of(read(address, i * step, zero), invert) == rank:
                return i
        return -1
    this = wide(rank, zero)
    i = 0
    while i < count:
        # The last vector overlaps the one before, whose lanes are known not to be equal.
        start = min(i, count - lanes)
        equal = equal_lanes(wide_ranks(address, start, invert, zero), this)
        if equal != 0:
            return start + first_bit(equal)
        i += lanes
    return -1


@inner
def _last_of(zero: int, address: int, count: int, step: int, invert: int, rank: int) -> int:
    """Returns the position of the last element in a run with a given rank, or -1."""
    lanes = wide_lanes(zero)
    if step != 1 or count < lanes:
        for i in range(count - 1, -1, -1):
            if rank_of(read(address, i * step, zero), invert) == rank:
                return i
        return -1
    this = wide(rank, zero)
    i = count
    while i > 0:
        start = max(i - lanes, 0)
        equal = equal_lanes(wide_ranks(address, start, invert, zero), this)
        if equal != 0:
            return start + last_bit(equal)
        i -= lanes
    return -1


@inner
def _locate(zero: int, address: int, count: int, step: int, geometry: int, rank: int) -> int:
    """Returns the position of the first (or last) element in a run with a given rank, or -1."""
    invert = at(geometry, p.INVERT)
    if is_half(zero) and rank != rank_of(of_bits(0, zero), 0):
        # Except for zeros, equal ranks mean equal bits, and comparing bits takes fewer steps.
        bits = integer_zero(zero)
        same = of_bits(bits_of(element_of(rank, 0, zero)), bits)
        if at(geometry, p.LAST):
            return _last_of(bits, address, count, step, invert, same)
        return first_of(bits, address, count, step, invert, same)
    if at(geometry, p.LAST):
        return _last_of(zero, address, count, step, invert, rank)
    return first_of(zero, address, count, step, invert, rank)


@inner
def _scan(zero: int, base: int, geometry: int, begin: int, end: int) -> tuple[int, int]:
    """Returns the key of the greatest of reduced elements ``begin`` to ``end``, and the index of the winner."""
    run_size, step, last = at(geometry, g.RUN), at(geometry, g.STEP), at(geometry, p.LAST)
    invert, block = at(geometry, p.INVERT), _BLOCK // size_of(zero)
    best, lowest = lowest_rank(zero), lowest_rank(zero)
    found_address, found_size, found_index = base, 0, 0
    i = begin
    while i < end:
        run = i // run_size if i >= run_size else 0
        address = advance(base, g.run_source(geometry, run) + (i - run * run_size) * step, zero)
        left = min(run_size - (i - run * run_size), end - i)
        while left > 0:
            size = min(left, block)
            rank = _greatest(zero, address, size, step, invert)
            better = rank > best or (rank == best and (last != 0 or found_size == 0))
            if better and is_float(zero) and rank == lowest:
                # NaN has the lowest rank too.
                better = _locate(zero, address, size, step, geometry, rank) >= 0
            if better:
                best = rank
                found_address, found_size, found_index = address, size, i
            i += size
            left -= size
            address = advance(address, size * step, zero)
    if found_size == 0:
        return NOTHING, end - 1 if last else begin
    return key_of(best), found_index + _locate(zero, found_address, found_size, step, geometry, best)


@inner
def put_index(address: int, offset: int, index: int, size: int) -> None:
    if size == 8:
        store(address, offset, index)
    else:
        store(address, offset, int32(index))


@inlined
def _greatest_between(zero: int, base: int, geometry: int, begin: int, end: int) -> int:
    """Returns the greatest rank of reduced elements ``begin`` to ``end``."""
    run_size, step, invert = at(geometry, g.RUN), at(geometry, g.STEP), at(geometry, p.INVERT)
    best = lowest_rank(zero)
    i = begin
    while i < end:
        # A division takes as long as some hundred bytes.
        run = i // run_size if i >= run_size else 0
        address = advance(base, g.run_source(geometry, run) + (i - run * run_size) * step, zero)
        size = min((run + 1) * run_size, end) - i
        best = greater(_greatest(zero, address, size, step, invert), best)
        i += size
    return best


@kernel
def rows(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Row kernel: a unit is an output or a segment of one. Segments store (key, index or element) in ``states``."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    size, invert = at(geometry, p.INDEX_SIZE), at(geometry, p.INVERT)
    short = is_short(zero, count) and count == at(geometry, g.RUN) and at(geometry, g.STEP) == 1
    short = short and not at(geometry, p.LAST)
    for unit in range(begin, end):
        output = unit // segments if segments > 1 else unit
        base = advance(source, g.kept_source(geometry, output), zero)
        first = (unit - output * segments) * segment
        last = min(first + segment, count)
        best, won = lowest_rank(zero), -1
        if not size:
            best = _greatest_between(zero, base, geometry, first, last)
        elif short:
            best, won = first_winner(zero, base, count, invert)
        key = key_of(best)
        # The rank does not tell which of equal zeros wins, nor whether there is any element besides NaN.
        unsure = best == rank_of(of_bits(0, zero), 0) or best == lowest_rank(zero)
        if (size and won < 0) or (is_float(zero) and not size and unsure):
            key, won = _scan(zero, base, geometry, first, last)
        if not size:
            element = element_of(best, invert, zero)
            if won >= 0:
                element = read(base, g.reduced_source(geometry, won), zero)
            won = bits_of(element)
        if segments > 1:
            store(states, 2 * unit, key)
            store(states, 2 * unit + 1, won)
        elif size:
            put_index(target, g.kept_target(geometry, output), won, size)
        else:
            store(target, g.kept_target(geometry, output), of_bits(won, zero))


@kernel
def finish(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Merges the segments of output elements."""
    segments, last = at(geometry, g.SEGMENTS), at(geometry, p.LAST)
    for output in range(begin, end):
        first = 2 * output * segments
        best, won = load(states, first, 0), load(states, first + 1, 0)
        for i in range(1, segments):
            key = load(states, first + 2 * i, 0)
            if key > best or (last and key == best):
                best, won = key, load(states, first + 2 * i + 1, 0)
        offset = g.kept_target(geometry, output)
        if at(geometry, p.INDEX_SIZE):
            put_index(target, offset, won, at(geometry, p.INDEX_SIZE))
        else:
            store(target, offset, of_bits(won, zero))
