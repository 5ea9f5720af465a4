"""Copies matrices to float64 in panels of sixteen columns, one after the other, and sums the squares of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import ADDRESS, FLOAT32, HALF, intrinsic, load, metadata_of_written, read, store
from ..jit.records import Record
from ..numbers.formats import number_of, values
from ..numbers.vectors import DOUBLES, WIDTH, elements, fused_vectors, load_vector, spread, store_vector
from ..run.geometry import advance

ROWS = 16
"""Rows of a panel copied at once, so that cache lines are not evicted half used."""


class Matrices(Record):
    """Matrices to copy: rows and columns of each; and steps, in elements, of matrices, rows and columns."""

    rows: int
    columns: int
    matrix: int
    row: int
    column: int


@intrinsic
def _turned(
    typing: Any, source: Any, step: Any, target: Any, squares: Any, zero: Any
) -> tuple[Any, Callable[..., Any]]:
    """Transposes sixteen elements from each of sixteen columns, ``step`` bytes apart; returns sums of squares."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits, number = ir.IntType(zero.bitwidth), ir.FloatType() if zero == FLOAT32 else ir.HalfType()
        written, place, lines = metadata_of_written(builder), args[0], []
        for _ in range(WIDTH):
            loaded = builder.load(
                builder.inttoptr(place, ir.VectorType(bits, WIDTH).as_pointer()), align=zero.bitwidth // 8
            )
            loaded.set_metadata("noalias", written)
            line = builder.bitcast(loaded, ir.VectorType(number, WIDTH))
            lines.append(line if zero == FLOAT32 else builder.fpext(line, ir.VectorType(ir.FloatType(), WIDTH)))
            place = builder.add(place, args[1])
        half, order = WIDTH // 2, ir.VectorType(ir.IntType(32), WIDTH)
        shuffles = [ir.Constant(order, [first + j // 2 + WIDTH * (j % 2) for j in range(WIDTH)]) for first in (0, half)]
        # Each pass rotates the bits of (line, lane) by one; after four passes lines and lanes are exchanged.
        for _ in range(WIDTH.bit_length() - 1):
            lines = [
                builder.shuffle_vector(lines[i], lines[i + half], shuffle) for i in range(half) for shuffle in shuffles
            ]
        doubles = ir.VectorType(ir.DoubleType(), WIDTH)
        fused = builder.module.globals.get("llvm.fma.v16f64") or ir.Function(
            builder.module, ir.FunctionType(doubles, [doubles] * 3), "llvm.fma.v16f64"
        )
        there, total = builder.inttoptr(args[2], doubles.as_pointer()), args[3]
        for i, line in enumerate(lines):
            row = builder.fpext(line, doubles)
            stored = builder.store(row, builder.gep(there, [ir.Constant(ir.IntType(64), i)]), align=8)
            stored.set_metadata("alias.scope", written)
            total = builder.call(fused, [row, row, total])
        return total

    return DOUBLES(ADDRESS, ADDRESS, ADDRESS, DOUBLES, zero), code


@inner
def _rows(source: int, down: int, step: int, target: int, squares: int, rows: int, zero: float) -> None:
    """Copies sixteen columns of some rows."""
    total = load_vector(squares, 0, 0.0)
    for k in range(rows):
        here = advance(source, k * down, zero)
        found = values(elements(here, None, zero)) if step == 1 else values(elements(here, step, zero))
        store_vector(target, k * WIDTH, found)
        total = fused_vectors(found, found, total)
    store_vector(squares, 0, total)


@inner
def _last_rows(
    source: int, down: int, step: int, target: int, squares: int, rows: int, columns: int, zero: float
) -> None:
    """Copies fewer columns, and pads the panel with zeros."""
    for k in range(rows):
        store_vector(target, k * WIDTH, spread(0.0))
        for j in range(columns):
            value = number_of(read(source, k * down + j * step, zero))
            store(target, k * WIDTH + j, value)
            store(squares, j, load(squares, j, 0.0) + value * value)


@inner
def _panel(source: int, step: int, target: int, squares: int, depth: int, zero: float) -> None:
    """Copies sixteen columns, each of contiguous numbers."""
    total, last = load_vector(squares, 0, 0.0), depth - depth % WIDTH
    bytes_between = advance(source, step, zero) - source
    for k in range(0, last, WIDTH):
        total = _turned(advance(source, k, zero), bytes_between, target + 8 * WIDTH * k, total, zero)
    for k in range(last, depth):
        found = values(elements(advance(source, k, zero), step, zero))
        store_vector(target, k * WIDTH, found)
        total = fused_vectors(found, found, total)
    store_vector(squares, 0, total)


@kernel
def pack(zero: float, source: int, target: int, states: int, geometry: Matrices, begin: int, end: int) -> None:
    """A unit is a matrix; the states are the running sums of squares."""
    depth, columns = geometry.rows, geometry.columns
    down, across = geometry.row, geometry.column
    whole, panels = columns - columns % WIDTH, -(-columns // WIDTH)
    is_turned = down == 1 and across != 1
    height = depth if is_turned else ROWS
    for unit in range(begin, end):
        here, squares = advance(source, unit * geometry.matrix, zero), states + 8 * WIDTH * unit * panels
        for k in range(0, depth, height):
            rows, there = min(height, depth - k), target + 8 * WIDTH * (unit * panels * depth + k)
            for j in range(0, whole, WIDTH):
                first, to = advance(here, k * down + j * across, zero), there + 8 * j * depth
                if is_turned:
                    _panel(first, across, to, squares + 8 * j, rows, zero)
                elif across == 1:
                    _rows(first, down, 1, to, squares + 8 * j, rows, zero)
                else:
                    _rows(first, down, across, to, squares + 8 * j, rows, zero)
            if whole < columns:
                first, to = advance(here, k * down + whole * across, zero), there + 8 * whole * depth
                _last_rows(first, down, across, to, squares + 8 * whole, rows, columns - whole, zero)


PACK = {np.float32: Kernel(pack, FLOAT32), np.float16: Kernel(pack, HALF)}
