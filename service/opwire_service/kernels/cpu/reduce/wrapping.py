"""Sums and products of 32- and 64-bit integers, modulo two to the power of their width; signs do not matter to that."""

from __future__ import annotations

import numpy as np

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import cast_to, int64, load, read, size_of, store, wrap_absolute, wrap_add, wrap_multiply
from ..run import geometry as g
from ..run.geometry import advance, at, run_from, segment_of, tile_of

SUM, L1, SUM_SQUARE, MULTIPLY = 0, 1, 2, 3
"""Values of ``FUNCTION``."""


@inner
def _term(element: int, function: int) -> int:
    if function == L1:
        return wrap_absolute(element)
    if function == SUM_SQUARE:
        return wrap_multiply(element, element)
    return element


@inner
def _combine(a: int, b: int, function: int) -> int:
    if function == MULTIPLY:
        return wrap_multiply(a, b)
    return wrap_add(a, b)


@inlined
def _run(zero: int, address: int, count: int, step: int, function: int, total: int) -> int:
    if step == 1:
        for i in range(count):
            total = _combine(total, _term(read(address, i, zero), function), function)
    else:
        for i in range(count):
            total = _combine(total, _term(read(address, i * step, zero), function), function)
    return total


@inlined
def _total(zero: int, base: int, geometry: int, begin: int, end: int, function: int) -> int:
    """The result of reduced elements ``begin`` to ``end``."""
    step = at(geometry, g.STEP)
    total = cast_to(1 if function == MULTIPLY else 0, zero)
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        if function == SUM:
            total = _run(zero, address, size, step, SUM, total)
        elif function == L1:
            total = _run(zero, address, size, step, L1, total)
        elif function == SUM_SQUARE:
            total = _run(zero, address, size, step, SUM_SQUARE, total)
        else:
            total = _run(zero, address, size, step, MULTIPLY, total)
        i += size
    return total


@kernel
def rows(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One output element and one segment a unit; several segments leave an element each in ``states``."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    function = at(geometry, g.FUNCTION)
    for unit in range(begin, end):
        output = unit // segments
        base = advance(source, g.kept_source(geometry, output), zero)
        first = (unit - output * segments) * segment
        total = _total(zero, base, geometry, first, min(first + segment, count), function)
        if segments > 1:
            store(states, unit, int64(total))
        else:
            store(target, g.kept_target(geometry, output), total)


@inner
def _pass(zero: int, address: int, row: int, step: int, width: int, totals: int, rows: int, function: int) -> None:
    """Takes rows into the totals of their columns, four at a time."""
    i = 0
    while i + 4 <= rows:
        for j in range(width):
            a = _combine(
                _term(read(address, j * step, zero), function),
                _term(read(address + row, j * step, zero), function),
                function,
            )
            b = _combine(
                _term(read(address + 2 * row, j * step, zero), function),
                _term(read(address + 3 * row, j * step, zero), function),
                function,
            )
            store(totals, j, _combine(load(totals, j, zero), _combine(a, b, function), function))
        address += 4 * row
        i += 4
    while i < rows:
        for j in range(width):
            store(totals, j, _combine(load(totals, j, zero), _term(read(address, j * step, zero), function), function))
        address += row
        i += 1


@inner
def _columns(
    zero: int, base: int, geometry: int, begin: int, end: int, step: int, width: int, totals: int, function: int
) -> None:
    row = at(geometry, g.STEP) * size_of(zero)
    i = begin
    while i < end:
        address, rows = run_from(geometry, base, i, end, zero)
        if step == 1:
            _pass(zero, address, row, 1, width, totals, rows, function)
        else:
            _pass(zero, address, row, step, width, totals, rows, function)
        i += rows


@kernel
def columns(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One tile of columns and one segment a unit; several segments leave an element for each column in ``states``."""
    segments, tile, step = at(geometry, g.SEGMENTS), at(geometry, g.TILE), at(geometry, g.COLUMN_STEP)
    function, all_columns = at(geometry, g.FUNCTION), at(geometry, g.COLUMNS)
    scratch = np.empty(tile, np.int64)
    totals = scratch.ctypes.data
    for unit in range(begin, end):
        number, segment, first, last = segment_of(geometry, unit)
        outer, start, width = tile_of(geometry, number)
        base = advance(source, g.kept_source(geometry, outer) + start * step, zero)
        for i in range(width):
            store(totals, i, cast_to(1 if function == MULTIPLY else 0, zero))
        if function == SUM:
            _columns(zero, base, geometry, first, last, step, width, totals, SUM)
        elif function == L1:
            _columns(zero, base, geometry, first, last, step, width, totals, L1)
        elif function == SUM_SQUARE:
            _columns(zero, base, geometry, first, last, step, width, totals, SUM_SQUARE)
        else:
            _columns(zero, base, geometry, first, last, step, width, totals, MULTIPLY)
        offset = g.kept_target(geometry, outer) + start * at(geometry, g.COLUMN_TARGET)
        for i in range(width):
            if segments > 1:
                place = (outer * all_columns + start + i) * segments + segment
                store(states, place, int64(load(totals, i, zero)))
            else:
                store(target, offset + i * at(geometry, g.COLUMN_TARGET), load(totals, i, zero))
    scratch[0] = 0  # keeps the memory alive until here


@kernel
def finish(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Merges the segments of output elements."""
    segments, function = at(geometry, g.SEGMENTS), at(geometry, g.FUNCTION)
    for output in range(begin, end):
        total = cast_to(load(states, output * segments, 0), zero)
        for i in range(1, segments):
            total = _combine(total, cast_to(load(states, output * segments + i, 0), zero), function)
        store(target, g.kept_target(geometry, output), total)
