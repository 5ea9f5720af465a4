"""Convolutions with few filters in each group: blocks of output lines, without unfolding.

The input lines that a block needs are copied to float64 once, with their padding, so that every tap reads contiguous
numbers for adjacent positions; a table holds the offset of each tap in the copies. One bound for a whole block decides
nearly all roundings, and bounds of their own most of the others; what is still undecided is summed exactly.
"""

from __future__ import annotations

from array import array
from math import gcd
from typing import NamedTuple

import numpy as np

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import FLOAT32, HALF, address_of, int64, load, read, store
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
from ..run.geometry import advance, at
from .rounding import SLACK, rounded
from .settling import scaled_sum
from .tile_geometry import (
    DEPTH,
    ERROR,
    LEFT,
    LEFT_MATRIX,
    LEFT_ROW,
    RIGHT,
    ROWS,
    TARGET,
    TARGET_MATRIX,
    TARGET_ROW,
    TILE,
    addend_at,
    double_at,
)
from .window import (
    CHANNEL,
    GROUP,
    IMAGE,
    IMAGES,
    MOVE,
    PLACES,
    SIZE,
    SPACE,
    SPATIAL,
    TAPS,
    TURN,
    copy_line,
    spot,
    taps_of,
)

OUT_IMAGE, OUT_SPACE = TILE, TILE + 1
"""Output strides of images and positions, in elements."""

LINES, LENGTH, COPIES, COPY_STEP, LINE_STEP, TAP_STEP, PARTS, PITCH, SHIFT = range(OUT_SPACE + SPATIAL, OUT_SPACE + 12)
"""Slots of a block, see ``Block``."""

MOST_COPIED = 1 << 13
"""Maximum size of a block's copies of input lines, in numbers."""

MOST_DEPTH = MOST_COPIED // WIDTH
"""Maximum number of products in a sum."""

MOST_LENGTH = 256
"""Maximum number of positions of a line in a block."""

_WEIGHTS, _LIMBS, _COPIES = MOST_DEPTH, 2 * MOST_DEPTH, 2 * MOST_DEPTH + LIMBS
MEMORY = _COPIES + MOST_COPIED + WIDTH
"""Scratch space of a thread, in float64: offsets of the taps, weights, limbs, and copies of input lines."""


class Block(NamedTuple):
    """Output lines computed together, and the copies of input lines that they need.

    Attributes:
        lines, length: number of lines, and of positions in each.
        copies: input lines copied for each channel and tap of the first dimension.
        copy_step: elements between two of those.
        line_step, tap_step: copied lines between the ones that adjacent output lines, or adjacent taps, read.
        parts: copies of an input line: one for all taps of the last dimension, or one for each.
        pitch: numbers in a copy.
        shift: numbers between those that adjacent taps read in the same copy.
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
    def of(cls, window: array[int], channels: int) -> Block:
        """Returns the largest block whose copies fit; there is one for sums of ``MOST_DEPTH`` products."""
        taps, moves, turns, places = (window[slot : slot + SPATIAL] for slot in (TAPS, MOVE, TURN, PLACES))
        length = min(places[2], MOST_LENGTH)
        while True:
            whole = -(-length // WIDTH) * WIDTH
            shift, rest = divmod(abs(turns[2]), moves[2])
            is_shared = rest == 0 and shift <= whole
            parts, pitch = (1, whole + (taps[2] - 1) * shift) if is_shared else (taps[2], whole)
            most = MOST_COPIED // (channels * taps[0] * parts * pitch)
            if taps[1] <= most:
                break
            length = -(-length // 2)
        common = gcd(moves[1], turns[1])
        line_step, tap_step = moves[1] // common, abs(turns[1]) // common
        lines = min(places[1], 1 + (most - 1 - (taps[1] - 1) * tap_step) // line_step)
        lines = -(-places[1] // -(-places[1] // lines)) if lines > 1 else 1
        copies = (lines - 1) * line_step + (taps[1] - 1) * tap_step + 1
        if lines == 1 or copies > lines * taps[1]:
            return cls(1, length, taps[1], abs(turns[1]), 1, 1, parts, pitch, shift)
        return cls(lines, length, copies, common, line_step, tap_step, parts, pitch, shift)

    def units(self, window: array[int], groups: int) -> int:
        """Returns the number of blocks of all groups and images."""
        outer = groups * window[IMAGES] * window[PLACES]
        return outer * -(-window[PLACES + 1] // self.lines) * -(-window[PLACES + 2] // self.length)


@inner
def _order(geometry: int, dimension: int, tap: int) -> int:
    """Returns the place of a tap in the order of the input elements."""
    return tap if at(geometry, TURN + dimension) >= 0 else at(geometry, TAPS + dimension) - 1 - tap


@inner
def _lowest(geometry: int, dimension: int, position: int) -> int:
    """Returns the lowest element that a position meets."""
    return spot(geometry, dimension, position, _order(geometry, dimension, 0))


@inner
def _store_offsets(geometry: int, offsets: int) -> None:
    """Stores where each tap of each channel begins in the copies."""
    for k in range(at(geometry, DEPTH)):
        channel, first, middle, last = taps_of(geometry, k)
        line = (channel * at(geometry, TAPS) + first) * at(geometry, COPIES)
        line = (line + _order(geometry, 1, middle) * at(geometry, TAP_STEP)) * at(geometry, PARTS)
        if at(geometry, PARTS) > 1:
            store(offsets, k, (line + last) * at(geometry, PITCH))
        else:
            store(offsets, k, line * at(geometry, PITCH) + _order(geometry, 2, last) * at(geometry, SHIFT))


@inner
def _copy_lines(zero: float, geometry: int, source: int, place: tuple[int, int, int], copies: int) -> float:
    """Copies the input lines that a block needs; returns the greatest magnitude in them."""
    first, middle, start = place
    parts, pitch, there = at(geometry, PARTS), at(geometry, PITCH), copies
    channels = at(geometry, DEPTH) // (at(geometry, TAPS) * at(geometry, TAPS + 1) * at(geometry, TAPS + 2))
    for line in range(channels * at(geometry, TAPS)):
        channel = line // at(geometry, TAPS)
        high = spot(geometry, 0, first, line - channel * at(geometry, TAPS))
        for copy in range(at(geometry, COPIES)):
            low = _lowest(geometry, 1, middle) + copy * at(geometry, COPY_STEP)
            is_inside = 0 <= high < at(geometry, SIZE) and 0 <= low < at(geometry, SIZE + 1)
            offset = channel * at(geometry, CHANNEL) + high * at(geometry, SPACE) + low * at(geometry, SPACE + 1)
            here = advance(source, offset, zero)
            for part in range(parts):
                begin = spot(geometry, 2, start, part) if parts > 1 else _lowest(geometry, 2, start)
                copy_line(zero, geometry, here, begin if is_inside else at(geometry, SIZE + 2), there, pitch)
                there += 8 * pitch
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
def _load_weights(zero: float, source: int, weights: int, depth: int) -> float:
    """Copies the weights of a filter; returns the sum of their magnitudes."""
    total = 0.0
    for k in range(depth):
        weight = number_of(read(source, k, zero))
        store(weights, k, weight)
        total += abs(weight)
    return total


@inner
def _settle(
    zero: float, geometry: int, memory: int, begin: int, total: Vector, addend: float, target: int, lanes: int
) -> None:
    """Rounds those sums of a vector that the bound of the block leaves undecided."""
    depth, weights, copies = at(geometry, DEPTH), memory + 8 * _WEIGHTS, memory + 8 * (_COPIES + begin)
    magnitude, step = spread(0.0), at(geometry, OUT_SPACE + 2)
    for k in range(depth):
        found = absolutes(load_vector(copies, load(memory, k, 0), 0.0))
        magnitude = fused_vectors(found, abs(load(weights, k, 0.0)), magnitude)
    slack = abs(addend) * SLACK
    high, undecided = rounded(zero, total, magnitude * double_at(geometry, ERROR) + slack)
    while lanes:
        i = lowest_of(lanes)
        lanes &= lanes - 1
        value, bits = number(total, i), int64(number(high, i))
        if undecided >> i & 1:
            if value - value == 0.0:
                value = _exact(memory, copies + 8 * i, depth, addend)
            bits = narrow(value, zero)
        put(target, i * step, bits, zero)


@inner
def _exact(memory: int, copies: int, depth: int, addend: float) -> float:
    """Returns the exact sum of an element, rounded to odd."""
    limbs = memory + 8 * _LIMBS
    clear_limbs(limbs)
    for k in range(depth):
        product = load(copies, load(memory, k, 0), 0.0) * load(memory + 8 * _WEIGHTS, k, 0.0)
        if product - product == 0.0:
            add_value(limbs, product)
    high, low = scaled_sum(limbs, 1, 0, addend)
    return to_odd(high, low)


@inlined
def _finish(
    zero: float,
    geometry: int,
    memory: int,
    begin: int,
    total: Vector,
    addend: float,
    margin: float,
    target: int,
    count: int,
    room: int,
) -> None:
    """Rounds up to sixteen sums; may write to as many more outputs as there is room for, which follow."""
    step = at(geometry, OUT_SPACE + 2)
    total = total + addend
    high, undecided = rounded(zero, total, spread(margin))
    if step == 1 and room >= WIDTH:
        put_vector(target, 0, high, zero)
    else:
        for i in range(count):
            put(target, i * step, int64(number(high, i)), zero)
    undecided &= (1 << count) - 1
    if undecided:
        _settle(zero, geometry, memory, begin, total, addend, target, undecided)


@inner
def _filter(
    zero: float, geometry: int, group: int, row: int, place: tuple[int, int, int, int], memory: int, greatest: float
) -> None:
    """Computes a block of a filter."""
    image, first, middle, start = place
    depth, step, addend = at(geometry, DEPTH), at(geometry, OUT_SPACE + 2), addend_at(zero, geometry, group, row, 0)
    source = advance(at(geometry, LEFT), group * at(geometry, LEFT_MATRIX) + row * at(geometry, LEFT_ROW), zero)
    weights, copies = memory + 8 * _WEIGHTS, memory + 8 * _COPIES
    margin = _load_weights(zero, source, weights, depth) * greatest * double_at(geometry, ERROR) + abs(addend) * SLACK
    lines = min(at(geometry, LINES), at(geometry, PLACES + 1) - middle)
    length = min(at(geometry, LENGTH), at(geometry, PLACES + 2) - start)
    down, between = at(geometry, OUT_SPACE + 1), at(geometry, LINE_STEP) * at(geometry, PARTS) * at(geometry, PITCH)
    offset = group * at(geometry, TARGET_MATRIX) + row * at(geometry, TARGET_ROW) + image * at(geometry, OUT_IMAGE)
    offset += first * at(geometry, OUT_SPACE) + middle * down + start * step
    target, line, j = advance(at(geometry, TARGET), offset, zero), 0, 0
    while line < lines:
        other, k = (line, j + WIDTH) if j + WIDTH < length else (line + 1, 0)
        begin, next_begin = line * between + j, min(other, lines - 1) * between + k
        a, b = spread(0.0), spread(0.0)
        for tap in range(depth):
            here, weight = copies + 8 * load(memory, tap, 0), load(weights, tap, 0.0)
            a = fused_vectors(load_vector(here, begin, 0.0), weight, a)
            b = fused_vectors(load_vector(here, next_begin, 0.0), weight, b)
        room = (lines - line) * length - j if down == length else length - j
        there = advance(target, line * down + j * step, zero)
        _finish(zero, geometry, memory, begin, a, addend, margin, there, min(WIDTH, length - j), room)
        if other < lines:
            room = (lines - other) * length - k if down == length else length - k
            there = advance(target, other * down + k * step, zero)
            _finish(zero, geometry, memory, next_begin, b, addend, margin, there, min(WIDTH, length - k), room)
        line, j = (other, k + WIDTH) if k + WIDTH < length else (other + 1, 0)


@kernel
def convolve(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """A unit is a block of all filters of a group; units run over groups, images and positions."""
    numbers = np.empty(MEMORY)
    memory, lines, length = address_of(numbers), at(geometry, LINES), at(geometry, LENGTH)
    _store_offsets(geometry, memory)
    for unit in range(begin, end):
        rest, part = divmod(unit, -(-at(geometry, PLACES + 2) // length))
        rest, middle = divmod(rest, -(-at(geometry, PLACES + 1) // lines))
        rest, first = divmod(rest, at(geometry, PLACES))
        group, image = divmod(rest, at(geometry, IMAGES))
        here = advance(at(geometry, RIGHT), group * at(geometry, GROUP) + image * at(geometry, IMAGE), zero)
        greatest = _copy_lines(zero, geometry, here, (first, middle * lines, part * length), memory + 8 * _COPIES)
        for row in range(at(geometry, ROWS)):
            place = image, first, middle * lines, part * length
            _filter(zero, geometry, group, row, place, memory, greatest)
    numbers[0] = 0.0  # keeps the buffer alive until here


DIRECT = {np.float32: Kernel(convolve, FLOAT32), np.float16: Kernel(convolve, HALF)}
