"""The right operand of a product as kernels read it: columns of an input that a window moves over.

A row of the matrix corresponds to a channel and a filter tap, a column to an image and a position. An ordinary matrix
has one channel per row and a single tap; its columns are the positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..jit.compiler import inlined, inner
from ..jit.element import ADDRESS, FLOAT32, HALF, float64, intrinsic, read, store
from ..numbers.formats import number_of
from ..numbers.vectors import DOUBLES, WIDTH, store_vector
from ..run.geometry import advance, at

SPATIAL = 3
"""Number of spatial dimensions; missing ones have size 1."""

GROUP, CHANNEL, IMAGE = range(3)
"""Strides in elements."""

SPACE, TAPS, SIZE, BASE, MOVE, TURN, PLACES = range(3, 3 + 7 * SPATIAL, SPATIAL)
"""For each spatial dimension: stride in elements, number of taps, input size, the element where position 0 meets tap 0,
the increments per position and per tap, and the number of positions."""

FIRST, COUNT, IMAGES = range(24, 27)
"""First row of the matrix to read, number of rows, and number of images."""

ZERO_POINT = 27
"""Integer that stands for 0; it is subtracted from every element, and is what padding consists of."""

WINDOW = 28
"""Total number of slots."""


@inlined
def spot(geometry: int, dimension: int, position: int, tap: int) -> int:
    """Returns the element where a position meets a tap along a dimension; it is padding if outside of the input."""
    turned = tap * at(geometry, TURN + dimension)
    return at(geometry, BASE + dimension) + position * at(geometry, MOVE + dimension) + turned


@inner
def taps_of(geometry: int, row: int) -> tuple[int, int, int, int]:
    """Splits a row of the matrix into its channel and taps."""
    row, last = divmod(row, at(geometry, TAPS + 2))
    row, middle = divmod(row, at(geometry, TAPS + 1))
    channel, first = divmod(row, at(geometry, TAPS))
    return channel, first, middle, last


@inner
def place_of(geometry: int, column: int) -> tuple[int, int, int, int]:
    """Splits a column into its image and positions."""
    column, last = divmod(column, at(geometry, PLACES + 2))
    column, middle = divmod(column, at(geometry, PLACES + 1))
    image, first = divmod(column, at(geometry, PLACES))
    return image, first, middle, last


def _loading(step: int) -> Any:
    """Returns an intrinsic that loads up to sixteen elements as float64, a constant number of elements apart."""

    @intrinsic
    def load_numbers(typing: Any, address: Any, count: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            lanes, integer = step * WIDTH, ir.IntType(32)
            bits, places = ir.VectorType(ir.IntType(zero.bitwidth), lanes), ir.VectorType(integer, lanes)
            length = builder.mul(builder.trunc(args[1], integer), ir.Constant(integer, step))
            one = builder.insert_element(ir.Constant(places, ir.Undefined), length, ir.Constant(integer, 0))
            lengths = builder.shuffle_vector(one, one, ir.Constant(places, [0] * lanes))
            # The last element is the last one that is read.
            mask = builder.icmp_signed("<", ir.Constant(places, [i + step - 1 for i in range(lanes)]), lengths)
            name, pointer = f"llvm.masked.load.v{lanes}i{zero.bitwidth}.p0v{lanes}i{zero.bitwidth}", bits.as_pointer()
            kind = ir.FunctionType(bits, [pointer, integer, mask.type, bits])
            function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
            given = builder.inttoptr(args[0], pointer), integer(zero.bitwidth // 8), mask, ir.Constant(bits, None)
            found = builder.call(function, given)
            chosen = ir.Constant(ir.VectorType(integer, WIDTH), list(range(0, lanes, step)))
            return _doubles(builder, builder.shuffle_vector(found, found, chosen), zero)

        return DOUBLES(ADDRESS, ADDRESS, zero), code

    return load_numbers


def _doubles(builder: Any, bits: Any, zero: Any) -> Any:
    """Converts the bits of elements to float64."""
    doubles = ir.VectorType(ir.DoubleType(), WIDTH)
    if zero in (FLOAT32, HALF):
        singles = ir.VectorType(ir.FloatType(), WIDTH)
        halves = ir.VectorType(ir.HalfType(), WIDTH)
        found = builder.bitcast(bits, singles if zero == FLOAT32 else halves)
        return builder.fpext(found if zero == FLOAT32 else builder.fpext(found, singles), doubles)
    return builder.sitofp(bits, doubles) if zero.signed else builder.uitofp(bits, doubles)


_adjacent, _seconds = _loading(1), _loading(2)


@inlined
def _copy_adjacent(source: int, target: int, begin: int, end: int, zero: float, offset: float) -> None:
    for j in range(begin, end, WIDTH):
        found = _adjacent(advance(source, j, zero), min(WIDTH, end - j), zero)
        store_vector(target, j, found - offset)


@inlined
def _copy_seconds(source: int, target: int, begin: int, end: int, zero: float, offset: float) -> None:
    for j in range(begin, end, WIDTH):
        found = _seconds(advance(source, 2 * j, zero), min(WIDTH, end - j), zero)
        store_vector(target, j, found - offset)


@inlined
def _copy(source: int, step: int, target: int, begin: int, end: int, zero: float, offset: float) -> None:
    for j in range(begin, end):
        store(target, j, number_of(read(source, j * step, zero)) - offset)


@inner
def copy_line(zero: float, geometry: int, source: int, first: int, target: int, count: int) -> None:
    """Copies elements of an input line from ``first`` on, as far apart as positions; padding becomes zero.

    Up to fifteen numbers behind the copy are overwritten.

    Args:
        zero: its type is that of an element.
        geometry: the window.
        source: address of the element 0 of the line.
        first: the first element; it is padding if outside of the input, like the others.
        target: address of the copy, in float64.
        count: number of elements.
    """
    move, offset = at(geometry, MOVE + 2), float64(at(geometry, ZERO_POINT))
    begin, end = -first, at(geometry, SIZE + 2) - first
    if move > 1:
        begin, end = -(-begin // move), -(-end // move)
    begin = min(max(0, begin), count)
    end = max(begin, min(count, end))
    for j in range(begin):
        store(target, j, 0.0)
    step = move * at(geometry, SPACE + 2)
    here = advance(source, first * at(geometry, SPACE + 2), zero)
    if step == 1:
        _copy_adjacent(here, target, begin, end, zero, offset)
    elif step == 2:
        _copy_seconds(here, target, begin, end, zero, offset)
    else:
        _copy(here, step, target, begin, end, zero, offset)
    for j in range(end, count):
        store(target, j, 0.0)
