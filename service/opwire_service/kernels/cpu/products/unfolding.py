"""Unfolds the columns of a convolution's input into panels of sixteen float64 (im2col), and sums their squares."""

from __future__ import annotations

import numpy as np
from numba import types

from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import FLOAT32, HALF, INT8, store
from ..numbers.vectors import WIDTH, fused_vectors, load_vector, store_vector
from ..run.geometry import advance
from .window import Window, copy_line, is_inside, spot, taps_of

ROWS = 8
"""Rows of a panel written at once, so that cache lines are not evicted half used."""


class Unfolding(Window):
    """Columns to unfold, and the address of a buffer for ``ROWS`` rows of the matrix, or for all if there are fewer."""

    buffer: int


@inner
def _row(zero: float, geometry: Unfolding, source: int, row: int, target: int) -> None:
    """Copies a row of the matrix: all images and positions for one channel and tap."""
    channel, first, middle, last = taps_of(geometry, row)
    outer, inner, axis = geometry.axes[0], geometry.axes[1], geometry.axes[2]
    begin = spot(axis, 0, last)
    for image in range(geometry.images):
        offset = channel * geometry.channel + image * geometry.image
        for p in range(outer.places):
            high = spot(outer, p, first)
            for q in range(inner.places):
                low = spot(inner, q, middle)
                here = advance(source, offset + high * outer.step + low * inner.step, zero)
                first_element = begin if is_inside(geometry, high, low) else axis.size
                copy_line(zero, geometry, here, first_element, target, axis.places)
                target += 8 * axis.places


@kernel
def unfold(zero: float, source: int, target: int, states: int, geometry: Unfolding, begin: int, end: int) -> None:
    """A unit is a row of a matrix; the states are the running sums of squares, padded to whole panels."""
    count, rows, unit = geometry.count, geometry.buffer, begin
    places = geometry.images * geometry.axes[0].places * geometry.axes[1].places * geometry.axes[2].places
    panels = -(-places // WIDTH)
    pitch = panels * WIDTH
    while unit < end:
        group = unit // count
        number = unit - group * count
        several = min(ROWS, count - number, end - unit)
        here = advance(source, group * geometry.group, zero)
        for i in range(several):
            _row(zero, geometry, here, geometry.first + number + i, rows + 8 * i * pitch)
            for j in range(places, pitch):
                store(rows, i * pitch + j, 0.0)
        squares, there = states + 8 * group * pitch, target + 8 * WIDTH * (group * panels * count + number)
        for panel in range(panels):
            total = load_vector(squares, panel * WIDTH, 0.0)
            for i in range(several):
                found = load_vector(rows, i * pitch + panel * WIDTH, 0.0)
                store_vector(there, (panel * count + i) * WIDTH, found)
                total = fused_vectors(found, found, total)
            store_vector(squares, panel * WIDTH, total)
        unit += several


UNFOLD = {
    np.float32: Kernel(unfold, FLOAT32),
    np.float16: Kernel(unfold, HALF),
    np.int8: Kernel(unfold, INT8),
    np.uint8: Kernel(unfold, types.uint8),
}
