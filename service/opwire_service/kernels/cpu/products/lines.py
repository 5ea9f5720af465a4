"""Convolutions with few filters in each group and overlapping windows: several output lines at once.

The input lines that they need are laid out in planes, so that each tap reads contiguous vectors for as many sums. One
bound for the whole unit decides nearly all roundings; lines for which it does not are recomputed by themselves.
"""

from __future__ import annotations

import numpy as np

from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import FLOAT32, HALF, address_of, load, read, store
from ..numbers.formats import infinity_bits, narrow_vector, number_of
from ..numbers.vectors import (
    WIDTH,
    Vector,
    absolutes,
    any_of,
    fused_vectors,
    load_vector,
    number,
    pick,
    put_vector,
    spread,
    store_vector,
)
from ..run.geometry import advance, at
from . import direct
from .direct import LINE, OUT_SPACE, addend_of, are_finite, convolve_line, output_line
from .planes import CHANNELS, EXTENT, FIRST_CHANNEL, KINDS, lay_channels, lay_offsets
from .rounding import SLACK
from .tiles import DEPTH, ERROR, LEFT, LEFT_MATRIX, LEFT_ROW, RIGHT, ROWS, double_at
from .window import BASE, COUNT, FIRST, GROUP, IMAGE, IMAGES, MOVE, PLACES, SPATIAL, TAPS

HEIGHT = OUT_SPACE + SPATIAL
"""Slot: lines in a unit."""

OWN_KINDS = HEIGHT + 1
"""Slots: number of planes that the input is split into along each spatial dimension."""

OWN_EXTENT = OWN_KINDS + SPATIAL
"""Slots: elements of a plane along each spatial dimension, for a full-size unit."""

MOST_LAID = 1 << 13
"""Maximum size of a unit's planes, and of its sums, in numbers."""

MOST_DEPTH = 1 << 9
"""Maximum number of products in a sum."""

MOST_LINES = MOST_LAID // WIDTH
"""Maximum number of lines in a unit."""

_OFFSETS = CHANNELS + 1
_WEIGHTS = _OFFSETS + MOST_DEPTH
_VAGUE = _WEIGHTS + MOST_DEPTH
_STAGE = _VAGUE + MOST_LINES
_PLANES = _STAGE + MOST_LAID // 2 + WIDTH
_LINE = _PLANES + MOST_LAID + 2 * WIDTH
STAGE_ELEMENTS = _LINE + direct.STAGE_ELEMENTS
"""Scratch space of a thread, in float64: the geometry of the planes, offsets in them, weights, flags of undecided
lines, rounded elements, the planes, and the space for computing a line by itself."""


@inner
def _shape(geometry: int, own: int, lines: int) -> int:
    """Prepares the geometry of planes for ``lines`` lines, and the offsets in them; returns their size in numbers."""
    for i in range(FIRST):
        store(own, i, at(geometry, i))
    store(own, FIRST, 0)
    store(own, COUNT, at(geometry, DEPTH))
    store(own, IMAGES, 1)
    channels = at(geometry, DEPTH)
    for i in range(SPATIAL):
        store(own, KINDS + i, at(geometry, OWN_KINDS + i))
        store(own, EXTENT + i, at(geometry, OWN_EXTENT + i))
        channels //= at(geometry, TAPS + i)
    store(own, EXTENT + 1, at(geometry, OWN_EXTENT + 1) - at(geometry, HEIGHT) + lines)
    store(own, FIRST_CHANNEL, 0)
    store(own, CHANNELS, channels)
    numbers = channels
    for i in range(2 * SPATIAL):
        numbers *= at(own, KINDS + i)
    lay_offsets(own, own + 8 * _OFFSETS)
    return numbers


@inner
def _greatest(planes: int, numbers: int) -> float:
    """Returns the greatest magnitude in the planes, after padding them with zeros."""
    for i in range(2):
        store_vector(planes, numbers + i * WIDTH, spread(0.0))
    greatest = spread(0.0)
    for j in range(0, numbers, WIDTH):
        found = absolutes(load_vector(planes, j, 0.0))
        greatest = pick(found > greatest, found, greatest)
    highest = 0.0
    for i in range(WIDTH):
        highest = max(highest, number(greatest, i))
    return highest


@inner
def _weigh(zero: float, source: int, weights: int, depth: int) -> float:
    """Copies the weights; returns the sum of their magnitudes."""
    total = 0.0
    for k in range(depth):
        weight = number_of(read(source, k, zero))
        store(weights, k, weight)
        total += abs(weight)
    return total


@inner
def _round(zero: float, total: Vector, margin: float, stage: int, j: int) -> bool:
    """Rounds sums into the stage; returns whether the margin decides all of them."""
    infinity = infinity_bits(zero)
    high, low = narrow_vector(total + margin, zero), narrow_vector(total - margin, zero)
    put_vector(stage, j, high, zero)
    differing, special = high ^ low, (high & infinity) > infinity - 1
    return not any_of((differing < 0) | (differing > 0) | special)


@inner
def _sum(zero: float, memory: int, depth: int, sums: int, pitch: int, addend: float, margin: float) -> None:
    """Sums and rounds the elements of some lines, including those between lines; marks the lines left undecided."""
    offsets, weights, vague = memory + 8 * _OFFSETS, memory + 8 * _WEIGHTS, memory + 8 * _VAGUE
    for j in range(0, sums, 2 * WIDTH):
        a, b = spread(0.0), spread(0.0)
        for k in range(depth):
            here, weight = memory + 8 * (_PLANES + load(offsets, k, 0) + j), load(weights, k, 0.0)
            a = fused_vectors(load_vector(here, 0, 0.0), weight, a)
            b = fused_vectors(load_vector(here, WIDTH, 0.0), weight, b)
        is_clear = _round(zero, a + addend, margin, memory + 8 * _STAGE, j)
        if not (_round(zero, b + addend, margin, memory + 8 * _STAGE, j + WIDTH) and is_clear):
            for line in range(j // pitch, min(j + 2 * WIDTH, sums - 1) // pitch + 1):
                store(vague, line, 1)


@inner
def _copy(zero: float, stage: int, target: int, step: int, length: int) -> None:
    """Copies a line of rounded elements."""
    if step == 1:
        for j in range(length):
            store(target, j, read(stage, j, zero))
    else:
        for j in range(length):
            store(target, j * step, read(stage, j, zero))


@inner
def _filter(
    zero: float, geometry: int, memory: int, group: int, row: int, place: tuple[int, int, int], lines: int, bound: float
) -> None:
    """Computes some lines of a filter from planes that are laid out."""
    depth, length, pitch = at(geometry, DEPTH), at(geometry, PLACES + 2), at(geometry, OWN_EXTENT + 2)
    vague, addend = memory + 8 * _VAGUE, addend_of(zero, geometry, group, row)
    source = advance(at(geometry, LEFT), group * at(geometry, LEFT_MATRIX) + row * at(geometry, LEFT_ROW), zero)
    is_finite = are_finite(source, depth, zero)
    for line in range(lines):
        store(vague, line, 0 if is_finite else 1)
    if is_finite:
        margin = _weigh(zero, source, memory + 8 * _WEIGHTS, depth) * bound + abs(addend) * SLACK
        _sum(zero, memory, depth, (lines - 1) * pitch + length, pitch, addend, margin)
    image, first, middle = place
    for line in range(lines):
        if load(vague, line, 0):
            for start in range(0, length, LINE):
                here = image, first, middle + line, start
                convolve_line(zero, geometry, group, row, here, min(LINE, length - start), memory + 8 * _LINE)
        else:
            there = output_line(zero, geometry, group, row, image, first, middle + line)
            stage = advance(memory + 8 * _STAGE, line * pitch, zero)
            _copy(zero, stage, there, at(geometry, OUT_SPACE + 2), length)


@kernel
def convolve_lines(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """A unit is some lines of all filters of a group; units run over groups, images and positions."""
    memory = np.empty(STAGE_ELEMENTS)
    own, height, shaped, numbers = address_of(memory), at(geometry, HEIGHT), 0, 0
    for unit in range(begin, end):
        rest, part = divmod(unit, -(-at(geometry, PLACES + 1) // height))
        rest, first = divmod(rest, at(geometry, PLACES))
        group, image = divmod(rest, at(geometry, IMAGES))
        middle = part * height
        lines = min(height, at(geometry, PLACES + 1) - middle)
        if lines != shaped:
            shaped, numbers = lines, _shape(geometry, own, lines)
        store(own, BASE, at(geometry, BASE) + first * at(geometry, MOVE))
        store(own, BASE + 1, at(geometry, BASE + 1) + middle * at(geometry, MOVE + 1))
        here = advance(at(geometry, RIGHT), group * at(geometry, GROUP) + image * at(geometry, IMAGE), zero)
        lay_channels(zero, here, own + 8 * _PLANES, own, 0, at(own, CHANNELS))
        bound = _greatest(own + 8 * _PLANES, numbers) * double_at(geometry, ERROR)
        for row in range(at(geometry, ROWS)):
            _filter(zero, geometry, own, group, row, (image, first, middle), lines, bound)
    memory[0] = 0.0  # keeps the buffer alive until here


LINES = Kernel(convolve_lines, FLOAT32), Kernel(convolve_lines, HALF)
