"""The kernels of resampling. A unit is a tile: adjacent outputs along the innermost dimension."""

from __future__ import annotations

import numpy as np

from ..jit.atomics import fetch_add
from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, int8, int32, load, read, size_of, store
from ..numbers.formats import put
from ..numbers.vectors import WIDTH, load_vector, put_vector
from ..pooling.lines import fill
from ..run.geometry import advance
from ..run.walk import split
from ..views.moves import move_pairs, move_run, seconds_of
from .geometry import WeightedSums, reach_of
from .sums import add_rows, limit_of, round_floats, round_integers, settle, sum_across

SLACK = 2 * WIDTH
"""Padding of each line, in float64, because vectors may reach past its end."""


@inner
def _places(geometry: WeightedSums, row: int) -> tuple[int, int, int, int]:
    """Returns the coordinates of a row of outputs."""
    rest, fourth = split(row, geometry.axes[3].out)
    rest, third = split(rest, geometry.axes[2].out)
    first, second = split(rest, geometry.axes[1].out)
    return first, second, third, fourth


@inlined
def _after(geometry: WeightedSums, places: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Returns the coordinates of the next row, without a division."""
    first, second, third, fourth = places
    fourth += 1
    if fourth == geometry.axes[3].out:
        fourth, third = 0, third + 1
        if third == geometry.axes[2].out:
            third, second = 0, second + 1
            if second == geometry.axes[1].out:
                second, first = 0, first + 1
    return first, second, third, fourth


@inner
def _target(geometry: WeightedSums, places: tuple[int, int, int, int], first: int) -> int:
    offset = first * geometry.across.target
    for i in range(4):
        offset += places[i] * geometry.axes[i].target
    return offset


@kernel
def weighted(zero: float, source: int, target: int, states: int, geometry: WeightedSums, begin: int, end: int) -> None:
    """Computes weighted sums. ``states`` holds the number of undecided outputs, then their positions."""
    room, most = geometry.line + SLACK, geometry.tile + SLACK
    memory = np.empty(room + 3 * most + SLACK, np.float64)
    line = address_of(memory)
    sums = line + 8 * room
    results = sums + 8 * most
    undecided = results + 4 * most
    limits = results + 8 * most
    rest = limits + 8 * most
    fill(-0.0, line, room)
    tiles, step = geometry.tiles, geometry.across.target
    for unit in range(begin, end):
        row, tile = split(unit, tiles)
        first = tile * geometry.tile
        count = min(geometry.tile, geometry.across.out - first)
        places = _places(geometry, row)
        here = _target(geometry, places, first)
        reads = (places[0], places[1], places[2], places[3] + places[1] * geometry.region_rows)
        columns = first + places[1] * geometry.region_columns
        start, stop = reach_of(geometry.across, columns, count)
        fill(-0.0, line, stop - start)
        greatest = add_rows(zero, source, geometry, reads, start, stop - start, line, rest)
        sum_across(geometry, columns, count, start, line, sums, limits)
        if geometry.integer:
            some_undecided = round_integers(geometry, sums, count, results, undecided)
        else:
            if not geometry.local:
                fill(limit_of(greatest, geometry, zero), limits, count)
            some_undecided = round_floats(zero, sums, limits, count, results, undecided)
        if some_undecided:
            for i in range(count):
                if load(undecided, i, int32(0)):
                    settled, bits = settle(zero, source, geometry, reads, columns + i)
                    store(results, i, int32(bits))
                    if not settled:
                        number = fetch_add(states, 0, 1)
                        if number < geometry.capacity:
                            store(states, 1 + number, unit * geometry.tile + i)
        if geometry.integer:
            for i in range(count):
                store(target + here, i * step, int8(load(results, i, int32(0))))
        else:
            address = advance(target, here, zero)
            whole = count - count % WIDTH if step == 1 else 0
            for i in range(0, whole, WIDTH):
                put_vector(address, i, load_vector(results, i, int32(0)), zero)
            for i in range(whole, count):
                put(address, i * step, load(results, i, int32(0)), zero)
    memory[0] = 0.0  # keeps the buffer alive until here


@kernel
def nearest(zero: int, source: int, target: int, states: int, geometry: WeightedSums, begin: int, end: int) -> None:
    """Moves elements. A row made of the same elements as the one before is copied from it."""
    tiles, step = geometry.tiles, geometry.across.target
    known, known_offset = 0, -1
    row, tile = split(begin, tiles)
    places = _places(geometry, row)
    for _ in range(begin, end):
        first = tile * geometry.tile
        count = min(geometry.tile, geometry.across.out - first)
        offset = 0
        for i in range(4):
            offset += load(geometry.axes[i].first, places[i], 0) * geometry.axes[i].source
        here = advance(target, _target(geometry, places, first), zero)
        if offset == known_offset and tiles == 1 and step == 1:
            move_run(here, known, count * size_of(zero))
        else:
            indices = geometry.across.first + 8 * first
            _nearest_row(zero, advance(source, offset, zero), here, geometry, indices, count)
        known, known_offset = here, offset
        tile += 1
        if tile == tiles:
            tile, places = 0, _after(geometry, places)


@inner
def _nearest_row(zero: int, source: int, target: int, geometry: WeightedSums, indices: int, count: int) -> None:
    step, apart = geometry.across.target, geometry.across.source
    if step == 1 and apart == 1:
        done = 0
        if geometry.twice:
            done = count // seconds_of(zero) * seconds_of(zero)
            begin = advance(source, load(indices, 0, 0), zero)
            for i in range(0, done // 2, seconds_of(zero) // 2):
                move_pairs(target, i, begin, begin, zero)
        for i in range(done, count):
            store(target, i, read(source, load(indices, i, 0), zero))
    elif step == 1 and geometry.twice:
        source = advance(source, load(indices, 0, 0) * apart, zero)
        for i in range(count // 2):
            value = read(source, i * apart, zero)
            store(target, 2 * i, value)
            store(target, 2 * i + 1, value)
        if count % 2:
            store(target, count - 1, read(source, count // 2 * apart, zero))
    else:
        for i in range(count):
            store(target, i * step, read(source, load(indices, i, 0) * apart, zero))
