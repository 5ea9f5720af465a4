"""Copies parts of matrices to float64, in which products of elements are exact, and sums the squares of rows."""

from __future__ import annotations

import numpy as np

from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import FLOAT32, HALF, load, read, store
from ..jit.records import Record
from ..numbers.formats import number_of, values
from ..numbers.vectors import WIDTH, elements, fused_vectors, load_vector, spread, store_vector, total_of
from ..run.geometry import advance


class Lines(Record):
    """Matrices to copy.

    Attributes:
        lines, length: lines of a matrix, and elements of a line.
        matrix, line, step: steps, in elements, of matrices, lines and elements.
        is_across: whether squares are summed across lines instead of along them.
        pitch: numbers between the copies of two lines.
    """

    lines: int
    length: int
    matrix: int
    line: int
    step: int
    is_across: bool
    pitch: int


@inner
def _along(source: int, step: int, target: int, length: int, zero: float) -> float:
    """Copies a line; returns the sum of its squares."""
    squares, last = spread(0.0), length - length % WIDTH
    for j in range(0, last, WIDTH):
        here = advance(source, j * step, zero)
        found = values(elements(here, None, zero)) if step == 1 else values(elements(here, step, zero))
        store_vector(target, j, found)
        squares = fused_vectors(found, found, squares)
    total = total_of(squares)
    for j in range(last, length):
        value = number_of(read(source, j * step, zero))
        store(target, j, value)
        total += value * value
    return total


@inner
def _across(source: int, step: int, target: int, squares: int, length: int, zero: float) -> None:
    """Copies a line, and adds its squares to those of other lines."""
    last = length - length % WIDTH
    for j in range(0, last, WIDTH):
        here = advance(source, j * step, zero)
        found = values(elements(here, None, zero)) if step == 1 else values(elements(here, step, zero))
        store_vector(target, j, found)
        store_vector(squares, j, fused_vectors(found, found, load_vector(squares, j, 0.0)))
    for j in range(last, length):
        value = number_of(read(source, j * step, zero))
        store(target, j, value)
        store(squares, j, load(squares, j, 0.0) + value * value)


@kernel
def widen(zero: float, source: int, target: int, states: int, geometry: Lines, begin: int, end: int) -> None:
    """A unit is a line of a matrix, ``pitch`` numbers apart in the target; the states are running sums of squares."""
    lines, length, step = geometry.lines, geometry.length, geometry.step
    for unit in range(begin, end):
        matrix = unit // lines
        place = matrix * geometry.matrix + (unit - matrix * lines) * geometry.line
        here, there = advance(source, place, zero), target + 8 * unit * geometry.pitch
        if geometry.is_across:
            _across(here, step, there, states + 8 * matrix * length, length, zero)
        else:
            store(states, unit, load(states, unit, 0.0) + _along(here, step, there, length, zero))


WIDEN = {np.float32: Kernel(widen, FLOAT32), np.float16: Kernel(widen, HALF)}
