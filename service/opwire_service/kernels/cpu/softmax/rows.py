"""Softmax of rows of contiguous elements: exponentials in float64, each result rounded where an error bound decides it.

A row is read three times: for its maximum, for the sum of the shifted exponentials, and for the results. Exponentials
are computed twice, which is faster than to store them.
"""

from __future__ import annotations

import math

import numpy as np

from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import FLOAT32, HALF, choose, int32, int64, read, store
from ..jit.records import Record
from ..numbers.formats import narrow_vector, number_of, put, values
from ..numbers.functions import exponentials
from ..numbers.vectors import WIDTH, Vector, any_of, elements, number, pick, places, put_vector, spread, total_of
from ..run.geometry import advance


class Rows(Record):
    """Rows to compute.

    Attributes:
        length: elements of a row.
        source_pitch, target_pitch: elements from one row to the next.
        error: relative error of a result.
    """

    length: int
    source_pitch: int
    target_pitch: int
    error: float


def error_of(length: int) -> float:
    """Returns the relative error of a result, without that of its last rounding.

    Two exponentials are within 2**-42 each, the second one being those of the sum, and the differences from the maximum
    change them by less than 2**-45.
    """
    return 2 * 2.0**-42 + 2 * 2.0**-45 + (length // WIDTH + 16) * 2.0**-53


@inlined
def _whole(zero: float, source: int, i: int) -> Vector:
    return values(elements(advance(source, i, zero), None, zero))


@inner
def _last(zero: float, source: int, begin: int, end: int) -> Vector:
    """Returns the elements that fill no vector, and -infinity, whose exponential is far too small to matter."""
    x = spread(-math.inf)
    for i in range(begin, end):
        x = pick(places() != i - begin, x, spread(number_of(read(source, i, zero))))
    return x


@inner
def _maximum(zero: float, source: int, whole: int, last: Vector) -> float:
    """Returns the greatest element of a row; NaN counts as greater than everything."""
    found = last
    for i in range(0, whole, WIDTH):
        x = _whole(zero, source, i)
        found = pick((x > found) | (x != x), x, found)
    maximum = number(found, 0)
    for i in range(1, WIDTH):
        x = number(found, i)
        maximum = choose((x > maximum) | (x != x), x, maximum)
    return maximum


@inlined
def _bounds(zero: float, value: Vector, error: float) -> tuple[Vector, Vector]:
    return narrow_vector(value * (1 - error), zero), narrow_vector(value * (1 + error), zero)


@inner
def _row(zero: float, source: int, target: int, length: int, error: float) -> bool:
    """Computes a row; returns whether a result is undecided, as all are if the maximum is not finite."""
    whole = length - length % WIDTH
    last = _last(zero, source, whole, length)
    maximum = _maximum(zero, source, whole, last)
    if maximum - maximum != 0.0:
        return True
    ends = exponentials(last - maximum)
    sums = ends
    for i in range(0, whole, WIDTH):
        sums = sums + exponentials(_whole(zero, source, i) - maximum)
    share, differing = 1 / total_of(sums), spread(int32(0))
    for i in range(0, whole, WIDTH):
        low, high = _bounds(zero, exponentials(_whole(zero, source, i) - maximum) * share, error)
        put_vector(target, i, high, zero)
        differing = differing | (low ^ high)
    low, high = _bounds(zero, ends * share, error)
    for i in range(whole, length):
        put(target, i, int64(number(high, i - whole)), zero)
    differing = differing | (low ^ high)
    return any_of((differing < 0) | (differing > 0))


@kernel
def softmax(zero: float, source: int, target: int, states: int, geometry: Rows, begin: int, end: int) -> None:
    """A unit is a row; its state becomes 1 if it has an undecided result, else 0."""
    for unit in range(begin, end):
        here = advance(source, unit * geometry.source_pitch, zero)
        there = advance(target, unit * geometry.target_pitch, zero)
        store(states, unit, int64(_row(zero, here, there, geometry.length, geometry.error)))


SOFTMAX = {np.float32: Kernel(softmax, FLOAT32), np.float16: Kernel(softmax, HALF)}
