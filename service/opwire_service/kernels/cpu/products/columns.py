"""Unfolds columns of a convolution's input into float64 (im2col), and sums their squares."""

from __future__ import annotations

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import FLOAT32, HALF, load, read, store
from ..numbers.formats import number_of
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
    PLACES,
    SIZE,
    SPACE,
    TURN,
    spot,
    taps_of,
)


@inlined
def _copy(source: int, step: int, target: int, squares: int, begin: int, end: int, zero: float) -> None:
    for j in range(begin, end):
        value = number_of(read(source, j * step, zero))
        store(target, j, value)
        store(squares, j, load(squares, j, 0.0) + value * value)


@inner
def _line(geometry: int, source: int, tap: int, target: int, squares: int, is_inside: bool, zero: float) -> None:
    """Copies the last dimension of positions; padding becomes zero."""
    length, move = at(geometry, PLACES + 2), at(geometry, MOVE + 2)
    base = at(geometry, BASE + 2) + tap * at(geometry, TURN + 2)
    begin = min(max(0, -(base // move)), length)
    end = max(begin, min(length, -((base - at(geometry, SIZE + 2)) // move))) if is_inside else begin
    for j in range(begin):
        store(target, j, 0.0)
    step = move * at(geometry, SPACE + 2)
    here = advance(source, base * at(geometry, SPACE + 2), zero)
    if step == 1:
        _copy(here, 1, target, squares, begin, end, zero)
    else:
        _copy(here, step, target, squares, begin, end, zero)
    for j in range(end, length):
        store(target, j, 0.0)


@inner
def _row(geometry: int, source: int, row: int, target: int, squares: int, zero: float) -> None:
    """Copies a row of the matrix: all images and positions for one channel and tap."""
    channel, first, middle, last = taps_of(geometry, row)
    offset, length = channel * at(geometry, CHANNEL), at(geometry, PLACES + 2)
    for image in range(at(geometry, IMAGES)):
        for p in range(at(geometry, PLACES)):
            high = spot(geometry, 0, p, first)
            for q in range(at(geometry, PLACES + 1)):
                low = spot(geometry, 1, q, middle)
                is_inside = 0 <= high < at(geometry, SIZE) and 0 <= low < at(geometry, SIZE + 1)
                place = (
                    offset + image * at(geometry, IMAGE) + high * at(geometry, SPACE) + low * at(geometry, SPACE + 1)
                )
                _line(geometry, advance(source, place, zero), last, target, squares, is_inside, zero)
                target += 8 * length
                squares += 8 * length


@kernel
def unfold(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """A unit is a matrix row. Rows are contiguous in the target; the states are the running sums of squares."""
    count = at(geometry, COUNT)
    places = at(geometry, IMAGES) * at(geometry, PLACES) * at(geometry, PLACES + 1) * at(geometry, PLACES + 2)
    for unit in range(begin, end):
        group = unit // count
        here = advance(source, group * at(geometry, GROUP), zero)
        row = at(geometry, FIRST) + unit - group * count
        _row(geometry, here, row, target + 8 * unit * places, states + 8 * group * places, zero)


UNFOLD = Kernel(unfold, FLOAT32), Kernel(unfold, HALF)
