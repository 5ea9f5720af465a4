"""Computes ``(x - mean - rest) * factor + bias`` for lines, with given or computed parameters, in one pass.

Counts, for each line, the results so close to 0 that too much may have cancelled; the caller recomputes such lines.
Quotients by a length are never -0.
"""

from __future__ import annotations

import math
from typing import Any

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import FLOAT32, HALF, bits_double, load, read, store
from ..numbers.formats import least_kept, narrow, narrow_vector, number_of, put, values
from ..numbers.vectors import WIDTH, absolutes, any_of, elements, fused_vectors, load_vector, pick, put_vector, spread
from ..run.geometry import advance, at
from .moments import magnitudes, moments, sums

PARAMETERS = 5
"""Number of parameters: mean, factor, bias, and the limit's two parts, relative to the deviation and absolute."""

RANK, LENGTH, SOURCE_STEP, TARGET_STEP, VARY, KIND, EPSILON, USES = range(8)
"""Slots of the geometry: number of loops outside the lines; length and steps of a line; how parameters vary along it
(0: not at all, 1: with steps of 0 or 1, 2: otherwise); kind; bits of Epsilon; and used moments."""

ADDRESSES = 8
"""First slot of the parameters' addresses, followed by their steps along a line and the loops outside the lines."""

STEPS = ADDRESSES + PARAMETERS
LOOPS = STEPS + PARAMETERS
LOOP = 2 + PARAMETERS + 1
"""Slots of each loop outside the lines: its size, and the steps of input, output and parameters."""

GIVEN, MOMENTS, SQUARES, MAGNITUDES = range(4)
"""Kinds of normalization: by given statistics, moments, Euclidean length, or sum of magnitudes."""

MEAN, VARIANCE = 1, 2
"""Bits of ``USES``: which moments are used."""


@inlined
def _parameter(address: int, j: int, step: int) -> float:
    return load(address, j * step, 0.0)


@inner
def _statistics(zero: float, line: int, geometry: int) -> tuple[float, float, float, float]:
    """Returns the mean of a line and its remainder, the factor, and the size of errors that limits are relative to."""
    length, kind, uses = at(geometry, LENGTH), at(geometry, KIND), at(geometry, USES)
    epsilon = bits_double(at(geometry, EPSILON))
    if kind == MOMENTS:
        mean, rest, squares, error = moments(line, length, uses & MEAN, zero)
        if uses & VARIANCE:
            scale = 1.0 / math.sqrt(squares + epsilon)
            return mean, rest, scale, math.sqrt(squares) * scale * error
        return mean, rest, 1.0, math.sqrt(squares) * error
    norm = 0.0 if kind == SQUARES else magnitudes(line, length, zero)
    total = sums(line, length, 0.0, zero)[1] if kind == SQUARES else norm * norm
    return 0.0, 0.0, 1.0 / math.sqrt(total + epsilon), 1.0


@inlined
def _vector(address: int, j: int, step: int, usual: Any) -> Any:
    return load_vector(address, j, 0.0) if step else usual


@kernel
def affine(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """A unit is a line; the states count the results of each line that are too close to 0."""
    length, vary = at(geometry, LENGTH), at(geometry, VARY)
    step, apart = at(geometry, SOURCE_STEP), at(geometry, TARGET_STEP)
    a, d, e = at(geometry, STEPS), at(geometry, STEPS + 1), at(geometry, STEPS + 2)
    g, h = at(geometry, STEPS + 3), at(geometry, STEPS + 4)
    for unit in range(begin, end):
        here, there, left = source, target, unit
        mean, factor, bias = at(geometry, ADDRESSES), at(geometry, ADDRESSES + 1), at(geometry, ADDRESSES + 2)
        limit, more = at(geometry, ADDRESSES + 3), at(geometry, ADDRESSES + 4)
        for i in range(at(geometry, RANK) - 1, -1, -1):
            loop = LOOPS + LOOP * i
            size = at(geometry, loop)
            place = left % size
            left //= size
            here = advance(here, place * at(geometry, loop + 1), zero)
            there = advance(there, place * at(geometry, loop + 2), zero)
            mean += 8 * place * at(geometry, loop + 3)
            factor += 8 * place * at(geometry, loop + 4)
            bias += 8 * place * at(geometry, loop + 5)
            limit += 8 * place * at(geometry, loop + 6)
            more += 8 * place * at(geometry, loop + 7)
        m, r, scale, unit_size = load(mean, 0, 0.0), 0.0, 1.0, 1.0
        if at(geometry, KIND) != GIVEN:
            m, r, scale, unit_size = _statistics(zero, here, geometry)
        last, near = 0, 0
        if step == 1 and apart == 1 and vary < 2:
            last = length - length % WIDTH
            f, c = spread(load(factor, 0, 0.0) * scale), load(bias, 0, 0.0)
            least = spread(load(limit, 0, 0.0) * unit_size + load(more, 0, 0.0))
            close = least < -math.inf
            if at(geometry, KIND) >= SQUARES:
                for j in range(0, last, WIDTH):
                    x = values(elements(advance(here, j, zero), None, zero))
                    y = x * f
                    y = pick(absolutes(y) < least_kept(zero), spread(0.0), y)
                    put_vector(there, j, narrow_vector(y, zero), zero)
            elif vary == 0:
                # A given mean has no remainder; zero times an infinite factor would be NaN.
                b = spread(c if at(geometry, KIND) == GIVEN else c - r * load(factor, 0, 0.0) * scale)
                for j in range(0, last, WIDTH):
                    x = values(elements(advance(here, j, zero), None, zero))
                    y = fused_vectors(x - m, f, b)
                    close = close | (absolutes(y) < least)
                    put_vector(there, j, narrow_vector(y, zero), zero)
            else:
                for j in range(0, last, WIDTH):
                    x = values(elements(advance(here, j, zero), None, zero))
                    y = (x - _vector(mean, j, a, spread(m)) - r) * (load_vector(factor, j, 0.0) * scale if d else f)
                    y = y + _vector(bias, j, e, spread(c))
                    bound = _vector(limit, j, g, spread(load(limit, 0, 0.0))) * unit_size
                    close = close | (absolutes(y) < bound + _vector(more, j, h, spread(load(more, 0, 0.0))))
                    put_vector(there, j, narrow_vector(y, zero), zero)
            near += any_of(close)
        for j in range(last, length):
            middle = _parameter(mean, j, a) if at(geometry, KIND) == GIVEN else m
            x = number_of(read(here, j * step, zero)) - middle - r
            y = x * (_parameter(factor, j, d) * scale) + _parameter(bias, j, e)
            if at(geometry, KIND) >= SQUARES and abs(y) < least_kept(zero):
                y = 0.0
            near += abs(y) < _parameter(limit, j, g) * unit_size + _parameter(more, j, h)
            put(there, j * apart, narrow(y, zero), zero)
        store(states, unit, near)


AFFINE = Kernel(affine, FLOAT32), Kernel(affine, HALF)
