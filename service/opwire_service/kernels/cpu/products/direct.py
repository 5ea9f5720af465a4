"""Convolutions with few filters in each group: blocks of output lines, without unfolding.

The input lines that a block needs are copied to float64 once, with their padding, so that every tap reads contiguous
numbers for adjacent positions; a table holds the offset of each tap in the copies. One bound for a whole block decides
nearly all roundings, and bounds of their own most of the others; what is still undecided is summed exactly.
"""

from __future__ import annotations

from math import gcd
from typing import Self

import numpy as np

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import FLOAT32, HALF, address_of, int64, load, read, store
from ..jit.records import Record, rows
from ..numbers.accumulator import LIMBS, add_value, clear_limbs
from ..numbers.formats import narrow, number_of, put
from ..numbers.rounding import to_odd
from ..numbers.vectors import (
    WIDTH,
    Vector,
    absolutes,
    fused_vectors,
    load_vector,
    lowest_of,
    number,
    pick,
    put_vector,
    spread,
)
from ..run.geometry import advance
from ..run.walk import split
from .multiplying import IS_WIDE
from .rounding import SLACK, rounded
from .settling import scaled_sum
from .tile_geometry import TileGeometry, addend_at
from .window import SPATIAL, Axis, Window, copy_line, is_inside, spot, taps_of

MOST_COPIED = 1 << 13
"""Maximum size of a block's copies of input lines, in numbers."""

MOST_DEPTH = MOST_COPIED // WIDTH
"""Maximum number of products in a sum."""

MOST_LENGTH = 256
"""Maximum number of positions of a line in a block."""

TOGETHER = 2 if IS_WIDE else 1
"""Filters computed at once; with narrower vectors, the sums of two would not stay in registers."""

_ADDEND, _MARGIN, _WEIGHTS = 0, 1, 2
_FILTER = _WEIGHTS + MOST_DEPTH
"""Numbers about a filter: what is added to its sums, the bound of their errors in the whole block, and its weights."""

_FILTERS = MOST_DEPTH
_LIMBS = _FILTERS + TOGETHER * _FILTER
_COPIES = _LIMBS + LIMBS
MEMORY = _COPIES + MOST_COPIED + WIDTH
"""Scratch space of a thread, in float64: offsets of the taps, filters, limbs, and copies of input lines."""


class Block(Record):
    """Output lines computed together, and the copies of input lines that they need.

    Attributes:
        lines, length: number of lines, and of positions in each.
        copies: input lines copied for each channel and tap of the first dimension.
        copy_step: elements between two of those.
        line_step, tap_step: copied lines between the ones that adjacent output lines, or adjacent taps, read.
        parts: copies of an input line; taps of the last dimension that are this far apart share one.
        pitch: numbers in a copy.
        shift: numbers between those that adjacent ones of these taps read.
    """

    lines: int
    length: int
    copies: int
    copy_step: int
    line_step: int
    tap_step: int
    parts: int
    pitch: int
    shift: int

    @classmethod
    def of(cls, window: Window, channels: int) -> Self:
        """Returns the largest block whose copies fit; there is one for sums of ``MOST_DEPTH`` products."""
        outer, inner, axis = window.axes
        length = min(axis.places, MOST_LENGTH)
        while True:
            whole = -(-length // WIDTH) * WIDTH
            common = gcd(axis.move, axis.turn)
            parts, shift = min(axis.move // common, axis.taps), abs(axis.turn) // common
            pitch = whole + (-(-axis.taps // parts) - 1) * shift
            if parts * pitch > axis.taps * whole:
                parts, pitch = axis.taps, whole
            most = MOST_COPIED // (channels * outer.taps * parts * pitch)
            if inner.taps <= most:
                break
            length = -(-length // 2)
        common = gcd(inner.move, inner.turn)
        line_step, tap_step = inner.move // common, abs(inner.turn) // common
        lines = min(inner.places, 1 + (most - 1 - (inner.taps - 1) * tap_step) // line_step)
        lines = -(-inner.places // -(-inner.places // lines)) if lines > 1 else 1
        copies, copy_step = (lines - 1) * line_step + (inner.taps - 1) * tap_step + 1, common
        if lines == 1 or copies > lines * inner.taps:
            lines, copies, copy_step, line_step, tap_step = 1, inner.taps, abs(inner.turn), 1, 1
        return cls(
            lines=lines, length=length, copies=copies, copy_step=copy_step, line_step=line_step, tap_step=tap_step,
            parts=parts, pitch=pitch, shift=shift,
        )  # fmt: skip

    def units(self, window: Window, groups: int) -> int:
        """Returns the number of blocks of all groups and images."""
        outer, inner, axis = window.axes
        return groups * window.images * outer.places * -(-inner.places // self.lines) * -(-axis.places // self.length)


class DirectGeometry(TileGeometry):
    """A convolution by blocks; the output's steps of images and positions, in elements."""

    image_step: int
    block: Block
    steps = rows(int, SPATIAL)


@inlined
def _order(axis: Axis, tap: int) -> int:
    """Returns the place of a tap in the order of the input elements."""
    return tap if axis.turn >= 0 else axis.taps - 1 - tap


@inlined
def _lowest(axis: Axis, position: int) -> int:
    """Returns the lowest element that a position meets."""
    return spot(axis, position, _order(axis, 0))


@inner
def _store_offsets(geometry: DirectGeometry, offsets: int) -> None:
    """Stores where each tap of each channel begins in the copies."""
    block = geometry.block
    for k in range(geometry.depth):
        channel, first, middle, last = taps_of(geometry, k)
        line = (channel * geometry.axes[0].taps + first) * block.copies
        line = (line + _order(geometry.axes[1], middle) * block.tap_step) * block.parts
        turn, part = split(_order(geometry.axes[2], last), block.parts)
        store(offsets, k, (line + part) * block.pitch + turn * block.shift)


@inner
def _copy_lines(zero: float, geometry: DirectGeometry, source: int, place: tuple[int, int, int], copies: int) -> float:
    """Copies the input lines that a block needs; returns the greatest magnitude in them."""
    first, middle, start = place
    outer, inner, axis, block, there = geometry.axes[0], geometry.axes[1], geometry.axes[2], geometry.block, copies
    for line in range(geometry.depth // (inner.taps * axis.taps)):
        channel, tap = split(line, outer.taps)
        high = spot(outer, first, tap)
        for copy in range(block.copies):
            low = _lowest(inner, middle) + copy * block.copy_step
            here = advance(source, channel * geometry.channel + high * outer.step + low * inner.step, zero)
            for part in range(block.parts):
                begin = spot(axis, start, _order(axis, part))
                begin = begin if is_inside(geometry, high, low) else axis.size
                copy_line(zero, geometry, here, begin, there, block.pitch)
                there += 8 * block.pitch
    return _greatest(copies, (there - copies) // 8)


@inner
def _greatest(numbers: int, count: int) -> float:
    """Returns the greatest magnitude of some numbers, after storing zeros behind them."""
    for i in range(WIDTH):
        store(numbers, count + i, 0.0)
    greatest = spread(0.0)
    for j in range(0, count, WIDTH):
        found = absolutes(load_vector(numbers, j, 0.0))
        greatest = pick(found > greatest, found, greatest)
    highest = 0.0
    for i in range(WIDTH):
        highest = max(highest, number(greatest, i))
    return highest


@inner
def _load_filter(zero: float, geometry: DirectGeometry, group: int, row: int, greatest: float, target: int) -> None:
    """Stores the numbers about a filter."""
    left, addend, total = geometry.left, addend_at(zero, geometry, group, row, 0), 0.0
    source = advance(left.address, group * left.matrix + row * left.row, zero)
    for k in range(geometry.depth):
        weight = number_of(read(source, k, zero))
        store(target, _WEIGHTS + k, weight)
        total += abs(weight)
    store(target, _ADDEND, addend)
    store(target, _MARGIN, total * greatest * geometry.error + abs(addend) * SLACK)


@inner
def _settle(
    zero: float,
    geometry: DirectGeometry,
    memory: int,
    about: int,
    begin: int,
    total: Vector,
    target: int,
    lanes: int,
) -> None:
    """Rounds those sums of a vector that the bound of the block leaves undecided."""
    depth, copies, addend = geometry.depth, memory + 8 * (_COPIES + begin), load(about, _ADDEND, 0.0)
    magnitude, step = spread(0.0), geometry.steps[2]
    for k in range(depth):
        found = absolutes(load_vector(copies, load(memory, k, 0), 0.0))
        magnitude = fused_vectors(found, abs(load(about, _WEIGHTS + k, 0.0)), magnitude)
    slack = abs(addend) * SLACK
    high, undecided = rounded(zero, total, magnitude * geometry.error + slack)
    while lanes:
        i = lowest_of(lanes)
        lanes &= lanes - 1
        value, bits = number(total, i), int64(number(high, i))
        if undecided >> i & 1:
            if value - value == 0.0:
                value = _exact(memory, about, copies + 8 * i, depth)
            bits = narrow(value, zero)
        put(target, i * step, bits, zero)


@inner
def _exact(memory: int, about: int, copies: int, depth: int) -> float:
    """Returns the exact sum of an element, rounded to odd."""
    limbs = memory + 8 * _LIMBS
    clear_limbs(limbs)
    for k in range(depth):
        product = load(copies, load(memory, k, 0), 0.0) * load(about, _WEIGHTS + k, 0.0)
        if product - product == 0.0:
            add_value(limbs, product)
    high, low = scaled_sum(limbs, 1, 0, load(about, _ADDEND, 0.0))
    return to_odd(high, low)


@inlined
def _finish(
    zero: float,
    geometry: DirectGeometry,
    memory: int,
    about: int,
    total: Vector,
    target: int,
    place: tuple[int, int, int],
    sizes: tuple[int, int],
) -> None:
    """Rounds up to sixteen sums; may write to as many more outputs as there is room for, which follow.

    Args:
        zero: its type is that of an element.
        geometry: the convolution.
        memory: the scratch space.
        about: address of the numbers about the filter.
        total: the sums.
        target: address of the filter's outputs in the block.
        place: line and position of the first sum, and where its first tap begins in the copies.
        sizes: lines in the block, and positions in a line.
    """
    line, j, begin = place
    lines, length = sizes
    down, step, count = geometry.steps[1], geometry.steps[2], min(WIDTH, length - j)
    room = (lines - line) * length - j if down == length else length - j
    there = advance(target, line * down + j * step, zero)
    total = total + load(about, _ADDEND, 0.0)
    high, undecided = rounded(zero, total, spread(load(about, _MARGIN, 0.0)))
    if step == 1 and room >= WIDTH:
        put_vector(there, 0, high, zero)
    else:
        for i in range(count):
            put(there, i * step, int64(number(high, i)), zero)
    undecided &= (1 << count) - 1
    if undecided:
        _settle(zero, geometry, memory, about, begin, total, there, undecided)


@inlined
def _sums_of_one(memory: int, about: int, depth: int, begin: int, next_begin: int) -> tuple[Vector, Vector]:
    """Returns two vectors of sums of a filter."""
    a, b, copies = spread(0.0), spread(0.0), memory + 8 * _COPIES
    for tap in range(depth):
        here, weight = copies + 8 * load(memory, tap, 0), load(about, _WEIGHTS + tap, 0.0)
        a = fused_vectors(load_vector(here, begin, 0.0), weight, a)
        b = fused_vectors(load_vector(here, next_begin, 0.0), weight, b)
    return a, b


@inlined
def _sums_of_two(
    memory: int, about: int, depth: int, begin: int, next_begin: int
) -> tuple[Vector, Vector, Vector, Vector]:
    """Returns two vectors of sums of each of two filters, for which what is read from the copies is read only once."""
    a, b, c, d, copies = spread(0.0), spread(0.0), spread(0.0), spread(0.0), memory + 8 * _COPIES
    for tap in range(depth):
        here, weight = copies + 8 * load(memory, tap, 0), load(about, _WEIGHTS + tap, 0.0)
        other, one, two = (
            load(about, _FILTER + _WEIGHTS + tap, 0.0),
            load_vector(here, begin, 0.0),
            load_vector(here, next_begin, 0.0),
        )
        a, b = fused_vectors(one, weight, a), fused_vectors(two, weight, b)
        c, d = fused_vectors(one, other, c), fused_vectors(two, other, d)
    return a, b, c, d


@inner
def _filters(
    zero: float, geometry: DirectGeometry, group: int, row: int, place: tuple[int, int, int, int], memory: int
) -> None:
    """Computes a block of a filter, and of the next one if there is one and two are computed at once."""
    image, first, middle, start = place
    depth, output, block, about = geometry.depth, geometry.target, geometry.block, memory + 8 * _FILTERS
    about_next, has_next = about + 8 * _FILTER, TOGETHER > 1 and row + 1 < geometry.rows
    lines = min(block.lines, geometry.axes[1].places - middle)
    length = min(block.length, geometry.axes[2].places - start)
    between, sizes = block.line_step * block.parts * block.pitch, (lines, length)
    offset = group * output.matrix + row * output.row + image * geometry.image_step
    offset += first * geometry.steps[0] + middle * geometry.steps[1] + start * geometry.steps[2]
    target, line, j = advance(output.address, offset, zero), 0, 0
    next_target = advance(target, output.row, zero)
    while line < lines:
        other, k = (line, j + WIDTH) if j + WIDTH < length else (line + 1, 0)
        begin, next_begin = line * between + j, min(other, lines - 1) * between + k
        here, there = (line, j, begin), (other, k, next_begin)
        if has_next:
            a, b, c, d = _sums_of_two(memory, about, depth, begin, next_begin)
            _finish(zero, geometry, memory, about_next, c, next_target, here, sizes)
            if other < lines:
                _finish(zero, geometry, memory, about_next, d, next_target, there, sizes)
        else:
            a, b = _sums_of_one(memory, about, depth, begin, next_begin)
        _finish(zero, geometry, memory, about, a, target, here, sizes)
        if other < lines:
            _finish(zero, geometry, memory, about, b, target, there, sizes)
        line, j = (other, k + WIDTH) if k + WIDTH < length else (other + 1, 0)


@kernel
def convolve(
    zero: float, source: int, target: int, states: int, geometry: DirectGeometry, begin: int, end: int
) -> None:
    """A unit is a block of all filters of a group; units run over groups, images and positions."""
    numbers = np.empty(MEMORY)
    memory, lines, length = address_of(numbers), geometry.block.lines, geometry.block.length
    _store_offsets(geometry, memory)
    for unit in range(begin, end):
        rest, part = split(unit, -(-geometry.axes[2].places // length))
        rest, middle = split(rest, -(-geometry.axes[1].places // lines))
        rest, first = split(rest, geometry.axes[0].places)
        group, image = split(rest, geometry.images)
        here = advance(geometry.right, group * geometry.group + image * geometry.image, zero)
        greatest = _copy_lines(zero, geometry, here, (first, middle * lines, part * length), memory + 8 * _COPIES)
        for row in range(0, geometry.rows, TOGETHER):
            for i in range(min(TOGETHER, geometry.rows - row)):
                _load_filter(zero, geometry, group, row + i, greatest, memory + 8 * (_FILTERS + i * _FILTER))
            _filters(zero, geometry, group, row, (image, first, middle * lines, part * length), memory)
    numbers[0] = 0.0  # keeps the buffer alive until here


DIRECT = {np.float32: Kernel(convolve, FLOAT32), np.float16: Kernel(convolve, HALF)}
