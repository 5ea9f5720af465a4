"""The line of a tile: the rows that its outputs gather are added up to a single row, then summed along windows.

The line holds float64, with neutral padding at its ends. With strides greater than 1, each phase gets a line of its
own, so that everything is done in whole vectors.
"""

from __future__ import annotations

from ..jit.compiler import inlined, inner
from ..jit.element import int32, load, of_bits, read, size_of, store
from ..numbers.formats import infinity_bits, values
from ..numbers.vectors import (
    WIDTH,
    Vector,
    absolutes,
    elements,
    fused_vectors,
    greatest_of,
    least_of,
    load_vector,
    magnitudes,
    pick,
    spread,
    store_vector,
)
from ..run.geometry import advance
from .geometry import MAGNITUDE, SIGNED, SQUARES, Sums

MOST_BITS = 0x7FFFFFFF
"""Greatest integer; greater than the bits of any magnitude."""

MOST_PHASES = 8
"""Maximum stride for summation by phases; with larger strides windows are summed one by one."""


@inner
def fill(value: float, line: int, count: int) -> None:
    for i in range(count):
        store(line, i, value)


@inlined
def _add_vector(bits: Vector, line: int, i: int, weight: float, kind: int) -> None:
    x = values(bits)
    total = load_vector(line, i, 0.0)
    if kind == SQUARES:
        total = fused_vectors(x, x, total)
    elif kind == MAGNITUDE:
        total = total + absolutes(x)
    else:
        total = fused_vectors(x, weight, total)
    store_vector(line, i, total)


@inlined
def no_extent() -> tuple[Vector, Vector]:
    """Returns the extent of no elements."""
    return spread(int32(0)), spread(int32(MOST_BITS))


@inlined
def extent(bits: Vector, greatest: Vector, least: Vector, infinity: int) -> tuple[Vector, Vector]:
    """Updates the extent of magnitudes of finite nonzero elements: the greatest, and the least, less 1."""
    size = magnitudes(bits)
    # Infinities and NaN overflow to negative integers, and zeros become the greatest integer.
    finite, nonzero = size + (MOST_BITS - infinity + 1), (size - int32(1)) & int32(MOST_BITS)
    return pick(finite > greatest, finite, greatest), pick(nonzero < least, nonzero, least)


@inlined
def extremes_of(greatest: Vector, least: Vector, infinity: int) -> tuple[int, int]:
    """Returns the greatest and the least magnitude; the greatest is 0 if no element is finite and nonzero."""
    return max(greatest_of(greatest) - (MOST_BITS - infinity + 1), 0), least_of(least) + 1


@inlined
def _add_row(
    zero: float, row: int, step: int | None, stride: int, count: int, line: int, weight: float, kind: int, rest: int
) -> tuple[int, int]:
    infinity = infinity_bits(zero)
    greatest, least = no_extent()
    whole = count - count % WIDTH
    for i in range(0, whole, WIDTH):
        bits = elements(advance(row, i * stride, zero), step, zero)
        greatest, least = extent(bits, greatest, least, infinity)
        _add_vector(bits, line, i, weight, kind)
    if whole < count:
        nothing = of_bits(1 << (8 * size_of(zero) - 1), zero)
        for i in range(WIDTH):
            store(rest, i, nothing)
        for i in range(whole, count):
            store(rest, i - whole, read(row, i * stride, zero))
        bits = elements(rest, None, zero)
        greatest, least = extent(bits, greatest, least, infinity)
        _add_vector(bits, line, whole, weight, kind)
    return extremes_of(greatest, least, infinity)


@inner
def add_row(
    zero: float, row: int, step: int, count: int, line: int, weight: float, kind: int, rest: int
) -> tuple[int, int]:
    """Adds an input row, times a weight, to a line; returns the greatest and the least magnitude in it.

    ``rest`` is a scratch buffer for one vector of elements: the last vector of the row is padded with negative zeros,
    which change no sum.
    """
    if step == 1:
        if kind == SIGNED:
            return _add_row(zero, row, None, 1, count, line, weight, SIGNED, rest)
        return _add_row(zero, row, None, 1, count, line, weight, kind, rest)
    return _add_row(zero, row, step, step, count, line, weight, kind, rest)


@inner
def split_phases(line: int, count: int, phases: int, apart: int, result: int) -> None:
    """Splits a line into its phases (every ``phases``-th number), stored ``apart`` numbers from each other."""
    for phase in range(phases):
        here = result + 8 * phase * apart
        for i in range((count - phase + phases - 1) // phases):
            store(here, i, load(line, i * phases + phase, 0.0))


@inlined
def _sum_vectors(line: int, offset: int, step: int, taps: int, count: int, result: int) -> None:
    for i in range(0, count, WIDTH):
        total = spread(-0.0)
        for tap in range(taps):
            total = total + load_vector(line, i + offset + tap * step, 0.0)
        store_vector(result, i, total)


@inner
def sum_windows(line: int, length: int, geometry: Sums, count: int, phases: int, result: int) -> None:
    """Computes the sums of the windows along a padded line, the first of which begins at its start."""
    taps, dilation = geometry.across.window, geometry.across.dilation
    stride = geometry.across.stride
    if stride == 1:
        _sum_vectors(line, 0, dilation, taps, count, result)
        return
    if stride > MOST_PHASES:
        for i in range(count):
            total = -0.0
            for tap in range(taps):
                total += load(line, i * stride + tap * dilation, 0.0)
            store(result, i, total)
        return
    apart = (length + stride - 1) // stride + WIDTH
    split_phases(line, length, stride, apart, phases)
    for i in range(0, count, WIDTH):
        total = spread(-0.0)
        for tap in range(taps):
            place = tap * dilation
            whole = place // stride
            total = total + load_vector(phases, (place - whole * stride) * apart + whole + i, 0.0)
        store_vector(result, i, total)


@inner
def sum_having(line: int, before: int, geometry: Sums, first: int, count: int, phases: int, result: int) -> None:
    """Computes, for each of ``count`` positions from ``first`` on, the sum over the windows that contain it.

    ``before`` is the position in the line of the last window that contains the first position, or would if it existed.
    """
    window, stride = geometry.across.window, geometry.across.stride
    begin = (first + geometry.across.start) % stride
    if stride == 1:
        _sum_vectors(line, before, -1, window, count, result)
        return
    # Positions of the same phase have adjacent windows.
    for phase in range(min(stride, count)):
        reach = begin + phase
        here = before
        if reach >= stride:
            reach -= stride
            here += 1
        taps = (window - reach + stride - 1) // stride if window > reach else 0
        size = (count - phase + stride - 1) // stride
        _sum_vectors(line, here, -1, taps, size, phases)
        for i in range(size):
            store(result, i * stride + phase, load(phases, i, 0.0))
