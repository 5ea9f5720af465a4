"""The mean of a line, what it lacks, and the mean of squared deviations, for lines whose elements are neighbours."""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import read
from ..numbers.formats import number_of, values
from ..numbers.vectors import WIDTH, absolutes, elements, fused_vectors, spread, total_of
from ..run.geometry import advance

BLOCK = 512
"""Elements whose sum is made by itself, so that no summand goes through many additions."""


def roundings(length: int) -> int:
    """On the way of a summand, at most."""
    return BLOCK // WIDTH + length // BLOCK + 8


@inner
def sums(line: int, length: int, mean: float, zero: float) -> tuple[float, float]:
    """The sum of deviations from a mean, and of their squares."""
    total, squares = spread(0.0), spread(0.0)
    for first in range(0, length - length % WIDTH, BLOCK):
        part, square = spread(0.0), spread(0.0)
        for j in range(first, min(first + BLOCK, length - length % WIDTH), WIDTH):
            x = values(elements(advance(line, j, zero), None, zero)) - mean
            part = part + x
            square = fused_vectors(x, x, square)
        total, squares = total + part, squares + square
    found, squared = total_of(total), total_of(squares)
    for j in range(length - length % WIDTH, length):
        x = number_of(read(line, j, zero)) - mean
        found += x
        squared += x * x
    return found, squared


@inner
def magnitudes(line: int, length: int, zero: float) -> float:
    """The sum of magnitudes."""
    total = spread(0.0)
    for first in range(0, length - length % WIDTH, BLOCK):
        part = spread(0.0)
        for j in range(first, min(first + BLOCK, length - length % WIDTH), WIDTH):
            part = part + absolutes(values(elements(advance(line, j, zero), None, zero)))
        total = total + part
    found = total_of(total)
    for j in range(length - length % WIDTH, length):
        found += abs(number_of(read(line, j, zero)))
    return found


@inner
def moments(line: int, length: int, use_mean: int, zero: float) -> tuple[float, float, float]:
    """The mean, or 0 if it is not used, what it lacks, and the spread about both."""
    mean, rest = 0.0, 0.0
    if use_mean:
        total, _ = sums(line, length, 0.0, zero)
        mean = total / length
    total, squares = sums(line, length, mean, zero)
    if use_mean:
        rest = total / length
        rest = rest if rest - rest == 0.0 else 0.0
    # About the mean that is found the deviations add up to nearly nothing.
    return mean, rest, squares / length - rest * rest
