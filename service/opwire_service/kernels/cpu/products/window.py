"""The right operand of a product as kernels read it: columns of an input that a window moves over.

A row of the matrix corresponds to a channel and a filter tap, a column to an image and a position. An ordinary matrix
has one channel per row and a single tap; its columns are the positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from llvmlite import ir

from ..jit.compiler import inlined, inner
from ..jit.element import ADDRESS, FLOAT32, HALF, float64, intrinsic, read, store
from ..jit.records import Record, rows
from ..numbers.formats import number_of
from ..numbers.vectors import DOUBLES, WIDTH, store_vector
from ..run.geometry import advance
from ..run.walk import split

SPATIAL = 3
"""Number of spatial dimensions; missing ones have size 1."""


class Axis(Record):
    """A spatial dimension.

    Attributes:
        step: elements between two adjacent ones.
        size: size of the input.
        base: the element where position 0 meets tap 0.
        move, turn: elements between those of adjacent positions, and of adjacent taps.
    """

    step: int
    taps: int
    size: int
    base: int
    move: int
    turn: int
    places: int


class Window(Record):
    """The columns.

    Attributes:
        group, channel, image: steps in elements.
        first, count: the first row of the matrix to read, and the number of rows.
        zero_point: integer that stands for 0; it is subtracted from every element, and is what padding consists of.
    """

    group: int
    channel: int
    image: int
    images: int
    first: int
    count: int
    zero_point: int
    axes = rows(Axis, SPATIAL)

    @classmethod
    def of(cls, window: Window, **values: Any) -> Self:
        """Returns a geometry with the same window and other values."""
        numbers = {name: getattr(window, name) for name in Window._fields}
        return cls(**numbers | values)


@inlined
def spot(axis: Axis, position: int, tap: int) -> int:
    """Returns the element where a position meets a tap along a dimension; it is padding if outside of the input."""
    return axis.base + position * axis.move + tap * axis.turn


@inlined
def is_inside(geometry: Window, high: int, middle: int) -> bool:
    """Whether elements along the first two dimensions are those of the input."""
    return 0 <= high < geometry.axes[0].size and 0 <= middle < geometry.axes[1].size


@inner
def taps_of(geometry: Window, row: int) -> tuple[int, int, int, int]:
    """Splits a row of the matrix into its channel and taps."""
    row, last = split(row, geometry.axes[2].taps)
    row, middle = split(row, geometry.axes[1].taps)
    channel, first = split(row, geometry.axes[0].taps)
    return channel, first, middle, last


@inner
def place_of(geometry: Window, column: int) -> tuple[int, int, int, int]:
    """Splits a column into its image and positions."""
    column, last = split(column, geometry.axes[2].places)
    column, middle = split(column, geometry.axes[1].places)
    image, first = split(column, geometry.axes[0].places)
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
def copy_line(zero: float, geometry: Window, source: int, first: int, target: int, count: int) -> None:
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
    axis, offset = geometry.axes[2], float64(geometry.zero_point)
    move, begin, end = axis.move, -first, axis.size - first
    if move > 1:
        begin, end = -(-begin // move), -(-end // move)
    begin = min(max(0, begin), count)
    end = max(begin, min(count, end))
    for j in range(begin):
        store(target, j, 0.0)
    step = move * axis.step
    here = advance(source, first * axis.step, zero)
    if step == 1:
        _copy_adjacent(here, target, begin, end, zero, offset)
    elif step == 2:
        _copy_seconds(here, target, begin, end, zero, offset)
    else:
        _copy(here, step, target, begin, end, zero, offset)
    for j in range(end, count):
        store(target, j, 0.0)
