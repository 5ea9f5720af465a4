"""Sums and products of 32- and 64-bit integers modulo 2**width, which are the same for signed and unsigned integers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, cast_to, int64, load, read, store, wrap_absolute, wrap_add, wrap_multiply
from ..run import geometry as g
from ..run.column_rows import WHOLE_RUN, Rows, stride_of, walk
from ..run.geometry import advance, run_from, segment_of, tile_of
from .geometry import IntegerReduction

SUM, L1, SUM_SQUARE, MULTIPLY = 0, 1, 2, 3
"""Operations: sum of elements, of magnitudes or of squares, and product."""


@inner
def _term(element: int, operation: int) -> int:
    if operation == L1:
        return wrap_absolute(element)
    if operation == SUM_SQUARE:
        return wrap_multiply(element, element)
    return element


@inner
def _combine(a: int, b: int, operation: int) -> int:
    if operation == MULTIPLY:
        return wrap_multiply(a, b)
    return wrap_add(a, b)


@inlined
def _run(zero: int, address: int, count: int, step: int, operation: int, total: int) -> int:
    if step == 1:
        for i in range(count):
            total = _combine(total, _term(read(address, i, zero), operation), operation)
    else:
        for i in range(count):
            total = _combine(total, _term(read(address, i * step, zero), operation), operation)
    return total


@inlined
def _total(zero: int, base: int, geometry: IntegerReduction, begin: int, end: int, operation: int) -> int:
    """Returns the result of reduced elements ``begin`` to ``end``."""
    step = geometry.step
    total = cast_to(1 if operation == MULTIPLY else 0, zero)
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        if operation == SUM:
            total = _run(zero, address, size, step, SUM, total)
        elif operation == L1:
            total = _run(zero, address, size, step, L1, total)
        elif operation == SUM_SQUARE:
            total = _run(zero, address, size, step, SUM_SQUARE, total)
        else:
            total = _run(zero, address, size, step, MULTIPLY, total)
        i += size
    return total


@kernel
def rows(zero: int, source: int, target: int, states: int, geometry: IntegerReduction, begin: int, end: int) -> None:
    """Row kernel: a unit is an output or a segment of one. Several segments store an element each in ``states``."""
    for unit in range(begin, end):
        output, _, first, last = segment_of(geometry, unit)
        base = advance(source, g.kept_source(geometry, output), zero)
        total = _total(zero, base, geometry, first, last, geometry.operation)
        if geometry.segments > 1:
            store(states, unit, int64(total))
        else:
            store(target, g.kept_target(geometry, output), total)


@inlined
def _two(zero: int, address: int, pitch: int, index: int, operation: int) -> int:
    """Combines the terms of a column in two rows."""
    one, other = read(address, index, zero), read(address + pitch, index, zero)
    return _combine(_term(one, operation), _term(other, operation), operation)


@inner
def _take_rows(zero: int, rows: Rows, step: int, totals: int, operation: int) -> None:
    """Combines rows into the columns' totals, four rows at a time."""
    address, pitch = rows.address, rows.pitch
    for _ in range(rows.height // 4):
        for j in range(rows.width):
            a = _two(zero, address, pitch, j * step, operation)
            b = _two(zero, address + 2 * pitch, pitch, j * step, operation)
            store(totals, j, _combine(load(totals, j, zero), _combine(a, b, operation), operation))
        address += 4 * pitch
    for _ in range(rows.height % 4):
        for j in range(rows.width):
            element = _term(read(address, j * step, zero), operation)
            store(totals, j, _combine(load(totals, j, zero), element, operation))
        address += pitch


class _WrappingTotals(NamedTuple):
    """The address of the columns' totals, and the operation."""

    totals: int
    operation: int


@inner
def _take(zero: int, rows: Rows, memory: _WrappingTotals, state: int) -> int:
    """Combines a run of rows into the columns' totals."""
    totals, operation = memory
    if operation == SUM:
        _take_rows(zero, rows, stride_of(rows), totals, SUM)
    elif operation == L1:
        _take_rows(zero, rows, stride_of(rows), totals, L1)
    elif operation == SUM_SQUARE:
        _take_rows(zero, rows, stride_of(rows), totals, SUM_SQUARE)
    else:
        _take_rows(zero, rows, stride_of(rows), totals, MULTIPLY)
    return state


@kernel
def columns(zero: int, source: int, target: int, states: int, geometry: IntegerReduction, begin: int, end: int) -> None:
    """Column kernel: a unit is a segment of a tile. Several segments store an element per column in ``states``."""
    segments, operation = geometry.segments, geometry.operation
    memory = np.empty(geometry.tile, np.int64)
    totals = address_of(memory)
    for unit in range(begin, end):
        tile = tile_of(source, geometry, unit, zero)
        for i in range(tile.width):
            store(totals, i, cast_to(1 if operation == MULTIPLY else 0, zero))
        walk(zero, geometry, tile, WHOLE_RUN, _take, _WrappingTotals(totals, operation), 0)
        for i in range(tile.width):
            if segments > 1:
                place = (tile.outer * geometry.columns + tile.start + i) * segments + tile.segment
                store(states, place, int64(load(totals, i, zero)))
            else:
                store(target, tile.offset + i * geometry.column_target, load(totals, i, zero))
    memory[0] = 0  # keeps the buffer alive until here


@kernel
def finish(zero: int, source: int, target: int, states: int, geometry: IntegerReduction, begin: int, end: int) -> None:
    """Merges the segments of output elements."""
    segments, operation = geometry.segments, geometry.operation
    for output in range(begin, end):
        total = cast_to(load(states, output * segments, 0), zero)
        for i in range(1, segments):
            total = _combine(total, cast_to(load(states, output * segments + i, 0), zero), operation)
        store(target, g.kept_target(geometry, output), total)
