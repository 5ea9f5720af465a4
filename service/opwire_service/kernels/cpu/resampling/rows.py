"""The kernels of resampling. A unit is a tile: adjacent outputs along the innermost dimension."""

from __future__ import annotations

import numpy as np

from ..averages.lines import fill
from ..jit.atomics import fetch_add
from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, int8, int32, load, read, size_of, store
from ..numbers.formats import put
from ..numbers.vectors import WIDTH, load_vector, put_vector
from ..run.geometry import advance, at
from ..views.moves import move_pairs, move_run, seconds_of
from . import geometry as g
from .sums import add_rows, limit_of, round_floats, round_integers, settle, sum_across

SLACK = 2 * WIDTH
"""Padding of each line, in float64, because vectors may reach past its end."""


@inner
def _places(geometry: int, row: int) -> tuple[int, int, int, int]:
    """Returns the coordinates of a row of outputs."""
    sizes = (
        at(geometry, g.AXES + g.WIDTH + g.OUT),
        at(geometry, g.AXES + 2 * g.WIDTH + g.OUT),
        at(geometry, g.AXES + 3 * g.WIDTH + g.OUT),
    )
    rest = row // sizes[2]
    third = rest // sizes[1]
    first = third // sizes[0]
    return first, third - first * sizes[0], rest - third * sizes[1], row - rest * sizes[2]


@inlined
def _after(geometry: int, places: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Returns the coordinates of the next row, without a division."""
    first, second, third, fourth = places
    fourth += 1
    if fourth == at(geometry, g.AXES + 3 * g.WIDTH + g.OUT):
        fourth, third = 0, third + 1
        if third == at(geometry, g.AXES + 2 * g.WIDTH + g.OUT):
            third, second = 0, second + 1
            if second == at(geometry, g.AXES + g.WIDTH + g.OUT):
                second, first = 0, first + 1
    return first, second, third, fourth


@inner
def _target(geometry: int, places: tuple[int, int, int, int], first: int) -> int:
    offset = first * at(geometry, g.ACROSS + g.TARGET)
    for i in range(4):
        offset += places[i] * at(geometry, g.AXES + i * g.WIDTH + g.TARGET)
    return offset


@kernel
def weighted(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Computes weighted sums. ``states`` holds the number of outputs left open, then their positions."""
    room, most = at(geometry, g.LINE) + SLACK, at(geometry, g.TILE) + SLACK
    memory = np.empty(room + 3 * most + SLACK, np.float64)
    line = address_of(memory)
    sums = line + 8 * room
    results = sums + 8 * most
    opens = results + 4 * most
    doubts = results + 8 * most
    rest = doubts + 8 * most
    fill(-0.0, line, room)
    tiles, step = at(geometry, g.TILES), at(geometry, g.ACROSS + g.TARGET)
    for unit in range(begin, end):
        row = unit // tiles
        first = (unit - row * tiles) * at(geometry, g.TILE)
        count = min(at(geometry, g.TILE), at(geometry, g.ACROSS + g.OUT) - first)
        places = _places(geometry, row)
        here = _target(geometry, places, first)
        reads = (places[0], places[1], places[2], places[3] + places[1] * at(geometry, g.REGION_ROWS))
        columns = first + places[1] * at(geometry, g.REGION_COLUMNS)
        start, stop = g.reach_of(geometry, columns, count)
        fill(-0.0, line, stop - start)
        greatest = add_rows(zero, source, geometry, reads, start, stop - start, line, rest)
        sum_across(geometry, columns, count, start, line, sums, doubts)
        if at(geometry, g.INTEGER):
            some_open = round_integers(geometry, sums, count, results, opens)
        else:
            if not at(geometry, g.LOCAL):
                fill(limit_of(greatest, geometry, zero), doubts, count)
            some_open = round_floats(zero, sums, doubts, count, results, opens)
        if some_open:
            for i in range(count):
                if load(opens, i, int32(0)):
                    decided, bits = settle(zero, source, geometry, reads, columns + i)
                    store(results, i, int32(bits))
                    if not decided:
                        number = fetch_add(states, 0, 1)
                        if number < at(geometry, g.CAPACITY):
                            store(states, 1 + number, unit * at(geometry, g.TILE) + i)
        if at(geometry, g.INTEGER):
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
def nearest(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Moves elements. A row made of the same elements as the one before is copied from it."""
    tiles, step = at(geometry, g.TILES), at(geometry, g.ACROSS + g.TARGET)
    known, known_offset = 0, -1
    row = begin // tiles
    tile, places = begin - row * tiles, _places(geometry, row)
    for _ in range(begin, end):
        first = tile * at(geometry, g.TILE)
        count = min(at(geometry, g.TILE), at(geometry, g.ACROSS + g.OUT) - first)
        offset = 0
        for i in range(4):
            axis = g.AXES + i * g.WIDTH
            offset += load(at(geometry, axis + g.FIRST), places[i], 0) * at(geometry, axis + g.SOURCE)
        here = advance(target, _target(geometry, places, first), zero)
        if offset == known_offset and tiles == 1 and step == 1:
            move_run(here, known, count * size_of(zero))
        else:
            indices = at(geometry, g.ACROSS + g.FIRST) + 8 * first
            _nearest_row(zero, advance(source, offset, zero), here, geometry, indices, count)
        known, known_offset = here, offset
        tile += 1
        if tile == tiles:
            tile, places = 0, _after(geometry, places)


@inner
def _nearest_row(zero: int, source: int, target: int, geometry: int, indices: int, count: int) -> None:
    step, apart = at(geometry, g.ACROSS + g.TARGET), at(geometry, g.ACROSS + g.SOURCE)
    if step == 1 and apart == 1:
        done = 0
        if at(geometry, g.TWICE):
            done = count // seconds_of(zero) * seconds_of(zero)
            begin = advance(source, load(indices, 0, 0), zero)
            for i in range(0, done // 2, seconds_of(zero) // 2):
                move_pairs(target, i, begin, begin, zero)
        for i in range(done, count):
            store(target, i, read(source, load(indices, i, 0), zero))
    elif step == 1 and at(geometry, g.TWICE):
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
