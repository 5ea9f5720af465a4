"""Unfolds the columns of a convolution's input into panels of sixteen float64 (im2col), and sums their squares."""

from __future__ import annotations

import numpy as np
from numba import types

from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import FLOAT32, HALF, INT8, store
from ..numbers.vectors import WIDTH, fused_vectors, load_vector, store_vector
from ..run.geometry import advance, at
from .window import (
    BASE,
    CHANNEL,
    COUNT,
    FIRST,
    GROUP,
    IMAGE,
    IMAGES,
    PLACES,
    SIZE,
    SPACE,
    TURN,
    WINDOW,
    copy_line,
    spot,
    taps_of,
)

BUFFER = WINDOW
"""Geometry slot: address of a buffer for ``ROWS`` rows of the matrix, or for all if there are fewer."""

ROWS = 8
"""Rows of a panel written at once, so that cache lines are not evicted half used."""


@inner
def _row(zero: float, geometry: int, source: int, row: int, target: int) -> None:
    """Copies a row of the matrix: all images and positions for one channel and tap."""
    channel, first, middle, last = taps_of(geometry, row)
    length, beyond = at(geometry, PLACES + 2), at(geometry, SIZE + 2)
    begin = at(geometry, BASE + 2) + last * at(geometry, TURN + 2)
    for image in range(at(geometry, IMAGES)):
        offset = channel * at(geometry, CHANNEL) + image * at(geometry, IMAGE)
        for p in range(at(geometry, PLACES)):
            high = spot(geometry, 0, p, first)
            for q in range(at(geometry, PLACES + 1)):
                low = spot(geometry, 1, q, middle)
                is_inside = 0 <= high < at(geometry, SIZE) and 0 <= low < at(geometry, SIZE + 1)
                place = offset + high * at(geometry, SPACE) + low * at(geometry, SPACE + 1)
                here = advance(source, place, zero)
                copy_line(zero, geometry, here, begin if is_inside else beyond, target, length)
                target += 8 * length


@kernel
def unfold(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """A unit is a row of a matrix; the states are the running sums of squares, padded to whole panels."""
    count, rows, unit = at(geometry, COUNT), at(geometry, BUFFER), begin
    places = at(geometry, IMAGES) * at(geometry, PLACES) * at(geometry, PLACES + 1) * at(geometry, PLACES + 2)
    panels = -(-places // WIDTH)
    pitch = panels * WIDTH
    while unit < end:
        group = unit // count
        number = unit - group * count
        several = min(ROWS, count - number, end - unit)
        here = advance(source, group * at(geometry, GROUP), zero)
        for i in range(several):
            _row(zero, geometry, here, at(geometry, FIRST) + number + i, rows + 8 * i * pitch)
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
