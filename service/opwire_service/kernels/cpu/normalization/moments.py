"""Moments of contiguous lines: the mean, its remainder, and the mean of squared deviations."""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import read
from ..numbers.formats import number_of, values
from ..numbers.vectors import WIDTH, absolutes, elements, fused_vectors, spread, total_of
from ..run.geometry import advance

BLOCK = 512
"""Elements summed separately, so that each term takes part in few additions."""


def roundings(length: int) -> int:
    """Returns the maximum number of rounding errors that affect a term."""
    return BLOCK // WIDTH + length // BLOCK + 8


@inner
def sums(line: int, length: int, mean: float, zero: float) -> tuple[float, float]:
    """Returns the sum of deviations from a mean, and that of their squares."""
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
    """Returns the sum of magnitudes."""
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
def moments(line: int, length: int, use_mean: int, zero: float) -> tuple[float, float, float, float]:
    """Returns the mean (0 if it is not used), its remainder, and the mean squared deviation from both.

    One pass is enough if the mean square is less than four times the variance; the last value is the resulting factor
    of the error of the mean relative to the standard deviation, 0 if the mean is not used.
    """
    mean, rest = 0.0, 0.0
    if use_mean:
        total, squares = sums(line, length, 0.0, zero)
        mean, square = total / length, squares / length
        variance = square - mean * mean
        if square < 4.0 * variance:
            return mean, 0.0, variance, 2.0
    total, squares = sums(line, length, mean, zero)
    if use_mean:
        rest = total / length
        rest = rest if rest - rest == 0.0 else 0.0
    # Deviations from the computed mean add up to almost nothing.
    return mean, rest, squares / length - rest * rest, 1.0 if use_mean else 0.0
