"""Computes ``(x - mean - rest) * factor + bias`` for lines, with given or computed parameters, in one pass.

Counts, for each line, the results so close to 0 that too much may have cancelled; the caller recomputes such lines.
Quotients by a length are never -0.
"""

from __future__ import annotations

import math
from typing import Any

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import FLOAT32, HALF, load, read, store
from ..jit.records import Record, rows
from ..numbers.formats import least_kept, narrow, narrow_vector, number_of, put, values
from ..numbers.vectors import WIDTH, absolutes, any_of, elements, fused_vectors, load_vector, pick, put_vector, spread
from ..run.geometry import advance
from ..run.walk import split
from .moments import magnitudes, moments, sums

GIVEN, MOMENTS, SQUARES, MAGNITUDES = range(4)
"""Kinds of normalization: by given statistics, moments, Euclidean length, or sum of magnitudes."""

MEAN, VARIANCE = 1, 2
"""Bits of ``uses``: which moments are used."""


class Parameters(Record):
    """A number for each parameter; the limit has two parts, relative to the deviation and absolute."""

    mean: int
    factor: int
    bias: int
    limit: int
    more: int


class LineLoop(Record):
    """A loop outside the lines: its size, and the steps of input, output and parameters."""

    size: int
    source: int
    target: int
    steps: Parameters


class Affine(Record):
    """The normalization of lines."""

    rank: int  # number of loops outside the lines
    length: int
    source: int  # steps along a line
    target: int
    vary: int  # how parameters vary along a line: 0: not at all, 1: with steps of 0 or 1, 2: otherwise
    kind: int
    uses: int
    epsilon: float
    addresses: Parameters
    steps: Parameters  # along a line
    loops = rows(LineLoop, 8)


@inlined
def _parameter(address: int, j: int, step: int) -> float:
    return load(address, j * step, 0.0)


@inner
def _statistics(zero: float, line: int, geometry: Affine) -> tuple[float, float, float, float]:
    """Returns the mean of a line and its remainder, the factor, and the size of errors that limits are relative to."""
    length, kind, uses = geometry.length, geometry.kind, geometry.uses
    epsilon = geometry.epsilon
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
def affine(zero: float, source: int, target: int, states: int, geometry: Affine, begin: int, end: int) -> None:
    """A unit is a line; the states count the results of each line that are too close to 0."""
    length, vary = geometry.length, geometry.vary
    step, apart = geometry.source, geometry.target
    steps = geometry.steps
    a, d, e, g, h = steps.mean, steps.factor, steps.bias, steps.limit, steps.more
    for unit in range(begin, end):
        here, there, left, given = source, target, unit, geometry.addresses
        mean, factor, bias, limit, more = given.mean, given.factor, given.bias, given.limit, given.more
        for i in range(geometry.rank - 1, -1, -1):
            loop = geometry.loops[i]
            left, place = split(left, loop.size)
            here = advance(here, place * loop.source, zero)
            there = advance(there, place * loop.target, zero)
            mean += 8 * place * loop.steps.mean
            factor += 8 * place * loop.steps.factor
            bias += 8 * place * loop.steps.bias
            limit += 8 * place * loop.steps.limit
            more += 8 * place * loop.steps.more
        m, r, scale, unit_size = load(mean, 0, 0.0), 0.0, 1.0, 1.0
        if geometry.kind != GIVEN:
            m, r, scale, unit_size = _statistics(zero, here, geometry)
        last, near = 0, 0
        if step == 1 and apart == 1 and vary < 2:
            last = length - length % WIDTH
            f, c = spread(load(factor, 0, 0.0) * scale), load(bias, 0, 0.0)
            least = spread(load(limit, 0, 0.0) * unit_size + load(more, 0, 0.0))
            close = least < -math.inf
            if geometry.kind >= SQUARES:
                for j in range(0, last, WIDTH):
                    x = values(elements(advance(here, j, zero), None, zero))
                    y = x * f
                    y = pick(absolutes(y) < least_kept(zero), spread(0.0), y)
                    put_vector(there, j, narrow_vector(y, zero), zero)
            elif vary == 0:
                # A given mean has no remainder; zero times an infinite factor would be NaN.
                b = spread(c if geometry.kind == GIVEN else c - r * load(factor, 0, 0.0) * scale)
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
            middle = _parameter(mean, j, a) if geometry.kind == GIVEN else m
            x = number_of(read(here, j * step, zero)) - middle - r
            y = x * (_parameter(factor, j, d) * scale) + _parameter(bias, j, e)
            if geometry.kind >= SQUARES and abs(y) < least_kept(zero):
                y = 0.0
            near += abs(y) < _parameter(limit, j, g) * unit_size + _parameter(more, j, h)
            put(there, j * apart, narrow(y, zero), zero)
        store(states, unit, near)


AFFINE = Kernel(affine, FLOAT32), Kernel(affine, HALF)
