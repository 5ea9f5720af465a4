"""Lays out the input of a convolution in float64, with its padding, so that adjacent positions read contiguous numbers.

Each dimension is split into planes by the element index modulo the stride. For a given tap, all positions of a line
then read a contiguous run of one plane, and the distance to the run of the next line is the same for every tap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import ADDRESS, FLOAT32, HALF, INT32, intrinsic, read, store
from ..numbers.formats import number_of, values
from ..numbers.vectors import WIDTH, VectorType, elements, store_vector
from ..run.geometry import advance, at
from .window import (
    BASE,
    CHANNEL,
    COUNT,
    FIRST,
    GROUP,
    IMAGE,
    IMAGES,
    MOVE,
    SIZE,
    SPACE,
    TAPS,
    TURN,
    WINDOW,
)

KINDS, EXTENT = range(WINDOW, WINDOW + 6, 3)
"""Geometry slots: number of planes, and elements of each, along each spatial dimension."""

FIRST_CHANNEL, CHANNELS = range(WINDOW + 6, WINDOW + 8)
"""Geometry slots: the first channel to lay out, and the number of channels."""


@inlined
def _low(geometry: int, dimension: int) -> int:
    """Returns the lowest element that position 0 meets."""
    reach = (at(geometry, TAPS + dimension) - 1) * at(geometry, TURN + dimension)
    return at(geometry, BASE + dimension) + min(0, reach)


@inlined
def _begin(geometry: int, dimension: int, kind: int) -> int:
    """Returns the first element of a plane."""
    return _low(geometry, dimension) + kind * abs(at(geometry, TURN + dimension)) % at(geometry, MOVE + dimension)


@inlined
def _shift(geometry: int, dimension: int, tap: int) -> tuple[int, int]:
    """Returns the plane where position 0 meets a tap, and the index in it."""
    turn = at(geometry, TURN + dimension)
    steps = tap if turn >= 0 else at(geometry, TAPS + dimension) - 1 - tap
    # The planes repeat after KINDS taps.
    return steps % at(geometry, KINDS + dimension), steps * abs(turn) // at(geometry, MOVE + dimension)


@inner
def lay_offsets(geometry: int, offsets: int) -> None:
    """Stores the offsets of the matrix rows."""
    last, middle, first = at(geometry, EXTENT + 2), at(geometry, EXTENT + 1), at(geometry, EXTENT)
    plane = first * middle * last
    planes = at(geometry, KINDS) * at(geometry, KINDS + 1) * at(geometry, KINDS + 2)
    row = at(geometry, FIRST_CHANNEL) * at(geometry, TAPS) * at(geometry, TAPS + 1) * at(geometry, TAPS + 2)
    row -= at(geometry, FIRST)
    for channel in range(at(geometry, CHANNELS)):
        base = channel * at(geometry, IMAGES) * planes * plane
        for p in range(at(geometry, TAPS)):
            a, high = _shift(geometry, 0, p)
            for q in range(at(geometry, TAPS + 1)):
                b, low = _shift(geometry, 1, q)
                for r in range(at(geometry, TAPS + 2)):
                    if 0 <= row < at(geometry, COUNT):
                        c, place = _shift(geometry, 2, r)
                        number = (a * at(geometry, KINDS + 1) + b) * at(geometry, KINDS + 2) + c
                        store(offsets, row, base + number * plane + (high * middle + low) * last + place)
                    row += 1


@intrinsic
def _first_elements(typing: Any, address: Any, count: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Loads the bits of fewer than sixteen contiguous elements and fills up with zeros; nothing past them is read."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits, places = ir.VectorType(ir.IntType(zero.bitwidth), WIDTH), ir.VectorType(ir.IntType(64), WIDTH)
        one = builder.insert_element(ir.Constant(places, ir.Undefined), args[1], ir.Constant(ir.IntType(32), 0))
        order = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        counts = builder.shuffle_vector(one, one, order)
        mask = builder.icmp_signed("<", ir.Constant(places, list(range(WIDTH))), counts)
        name, pointer = f"llvm.masked.load.v{WIDTH}i{zero.bitwidth}.p0v{WIDTH}i{zero.bitwidth}", bits.as_pointer()
        kind = ir.FunctionType(bits, [pointer, ir.IntType(32), mask.type, bits])
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        aligned = ir.Constant(ir.IntType(32), zero.bitwidth // 8)
        return builder.call(function, [builder.inttoptr(args[0], pointer), aligned, mask, ir.Constant(bits, None)])

    return VectorType({32: INT32, 16: HALF}[zero.bitwidth])(ADDRESS, ADDRESS, zero), code


@inner
def _neighbors(source: int, target: int, count: int, zero: float) -> None:
    """Copies contiguous elements, and zeros up to the end of a vector; the next line overwrites those."""
    last = count - count % WIDTH
    for j in range(0, last, WIDTH):
        store_vector(target, j, values(elements(advance(source, j, zero), None, zero)))
    if last < count:
        store_vector(target, last, values(_first_elements(advance(source, last, zero), count - last, zero)))


@inlined
def _copy(source: int, step: int, target: int, count: int, zero: float) -> None:
    last = count - count % WIDTH
    for j in range(0, last, WIDTH):
        store_vector(target, j, values(elements(advance(source, j * step, zero), step, zero)))
    for j in range(last, count):
        store(target, j, number_of(read(source, j * step, zero)))


@inner
def _plane(geometry: int, source: int, kinds: tuple[int, int, int], target: int, zero: float) -> None:
    """Copies a plane of a channel of an image; zero outside of the input."""
    length, move, base = at(geometry, EXTENT + 2), at(geometry, MOVE + 2), _begin(geometry, 2, kinds[2])
    begin = min(max(0, -(base // move)), length)
    end = max(begin, min(length, -((base - at(geometry, SIZE + 2)) // move)))
    step = move * at(geometry, SPACE + 2)
    first_high, first_low = _begin(geometry, 0, kinds[0]), _begin(geometry, 1, kinds[1])
    for p in range(at(geometry, EXTENT)):
        high = first_high + p * at(geometry, MOVE)
        for q in range(at(geometry, EXTENT + 1)):
            low = first_low + q * at(geometry, MOVE + 1)
            is_inside = 0 <= high < at(geometry, SIZE) and 0 <= low < at(geometry, SIZE + 1)
            first, last = (begin, end) if is_inside else (length, length)
            for j in range(first):
                store(target, j, 0.0)
            place = high * at(geometry, SPACE) + low * at(geometry, SPACE + 1)
            place += (base + first * move) * at(geometry, SPACE + 2)
            here, there = advance(source, place, zero), target + 8 * first
            if step == 1:
                _neighbors(here, there, last - first, zero)
            else:
                _copy(here, step, there, last - first, zero)
            for j in range(last, length):
                store(target, j, 0.0)
            target += 8 * length


@inner
def lay_channels(zero: float, source: int, target: int, geometry: int, begin: int, end: int) -> None:
    """Lays out the planes of some channels of all groups."""
    plane = 8 * at(geometry, EXTENT) * at(geometry, EXTENT + 1) * at(geometry, EXTENT + 2)
    channels, images = at(geometry, CHANNELS), at(geometry, IMAGES)
    first, second, third = at(geometry, KINDS), at(geometry, KINDS + 1), at(geometry, KINDS + 2)
    there = target + begin * images * first * second * third * plane
    for unit in range(begin, end):
        group = unit // channels
        channel = at(geometry, FIRST_CHANNEL) + unit - group * channels
        for image in range(images):
            place = group * at(geometry, GROUP) + channel * at(geometry, CHANNEL) + image * at(geometry, IMAGE)
            here = advance(source, place, zero)
            for p in range(first):
                for q in range(second):
                    for r in range(third):
                        _plane(geometry, here, (p, q, r), there, zero)
                        there += plane


@kernel
def lay(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """A unit is a channel of a group; the states are the offsets of the matrix rows within a group."""
    lay_offsets(geometry, states)
    lay_channels(zero, source, target, geometry, begin, end)


LAY = Kernel(lay, FLOAT32), Kernel(lay, HALF)
