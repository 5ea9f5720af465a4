"""The mean of rows, what it lacks, and the mean of squared deviations, for rows whose elements are neighbours."""

from __future__ import annotations

from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import FLOAT32, HALF, read, store
from ..numbers.formats import number_of, values
from ..numbers.vectors import WIDTH, elements, fused_vectors, spread, total_of
from ..run.geometry import advance, at

LENGTH, STEP, USE_MEAN = range(3)

BLOCK = 512
"""Elements whose sum is made by itself, so that no summand goes through many additions."""


def roundings(length: int) -> int:
    """On the way of a summand, at most."""
    return BLOCK // WIDTH + length // BLOCK + 8


@inner
def _sums(source: int, length: int, mean: float, zero: float) -> tuple[float, float]:
    """The sum of deviations from a mean, and of their squares."""
    total, squares = spread(0.0), spread(0.0)
    for first in range(0, length - length % WIDTH, BLOCK):
        part, square = spread(0.0), spread(0.0)
        for j in range(first, min(first + BLOCK, length - length % WIDTH), WIDTH):
            x = values(elements(advance(source, j, zero), None, zero)) - mean
            part = part + x
            square = fused_vectors(x, x, square)
        total, squares = total + part, squares + square
    found, squared = total_of(total), total_of(squares)
    for j in range(length - length % WIDTH, length):
        x = number_of(read(source, j, zero)) - mean
        found += x
        squared += x * x
    return found, squared


@kernel
def moments(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Units are rows; the states are the means of all, then what they lack, then the spreads."""
    length = at(geometry, LENGTH)
    for unit in range(begin, end):
        here, mean, rest = advance(source, unit * at(geometry, STEP), zero), 0.0, 0.0
        if at(geometry, USE_MEAN):
            total, _ = _sums(here, length, 0.0, zero)
            mean = total / length
        total, squares = _sums(here, length, mean, zero)
        if at(geometry, USE_MEAN):
            rest = total / length
            rest = rest if rest - rest == 0.0 else 0.0
        store(states, unit, mean)
        store(states, end + unit, rest)
        # About the mean that is found the deviations add up to nearly nothing.
        store(states, 2 * end + unit, squares / length - rest * rest)


MOMENTS = Kernel(moments, FLOAT32), Kernel(moments, HALF)
