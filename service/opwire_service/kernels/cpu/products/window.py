"""The right operand of a product as kernels read it: columns of an input that a window moves over.

A row of the matrix corresponds to a channel and a filter tap, a column to an image and a position. An ordinary matrix
has one channel per row and a single tap; its columns are the positions.
"""

from __future__ import annotations

from ..jit.compiler import inlined, inner
from ..jit.element import read
from ..numbers.formats import number_of
from ..run.geometry import at

SPATIAL = 3
"""Number of spatial dimensions; missing ones have size 1."""

GROUP, CHANNEL, IMAGE = range(3)
"""Strides in elements."""

SPACE, TAPS, SIZE, BASE, MOVE, TURN, PLACES = range(3, 3 + 7 * SPATIAL, SPATIAL)
"""For each spatial dimension: stride in elements, number of taps, input size, the element where position 0 meets tap 0,
the increments per position and per tap, and the number of positions."""

FIRST, COUNT, IMAGES = range(24, 27)
"""First row of the matrix to read, number of rows, and number of images."""

WINDOW = 27
"""Total number of slots."""


@inlined
def spot(geometry: int, dimension: int, position: int, tap: int) -> int:
    """Returns the element where a position meets a tap along a dimension; it is padding if outside of the input."""
    turned = tap * at(geometry, TURN + dimension)
    return at(geometry, BASE + dimension) + position * at(geometry, MOVE + dimension) + turned


@inner
def taps_of(geometry: int, row: int) -> tuple[int, int, int, int]:
    """Splits a row of the matrix into its channel and taps."""
    row, last = divmod(row, at(geometry, TAPS + 2))
    row, middle = divmod(row, at(geometry, TAPS + 1))
    channel, first = divmod(row, at(geometry, TAPS))
    return channel, first, middle, last


@inner
def place_of(geometry: int, column: int) -> tuple[int, int, int, int]:
    """Splits a column into its image and positions."""
    column, last = divmod(column, at(geometry, PLACES + 2))
    column, middle = divmod(column, at(geometry, PLACES + 1))
    image, first = divmod(column, at(geometry, PLACES))
    return image, first, middle, last


@inner
def element_at(
    source: int,
    geometry: int,
    offset: int,
    taps: tuple[int, int, int, int],
    place: tuple[int, int, int, int],
    zero: float,
) -> float:
    """Returns the element where a row and a column meet, in a group at an offset."""
    offset += taps[0] * at(geometry, CHANNEL) + place[0] * at(geometry, IMAGE)
    inside = True
    for i in range(SPATIAL):
        there = spot(geometry, i, place[1 + i], taps[1 + i])
        inside &= 0 <= there < at(geometry, SIZE + i)
        offset += there * at(geometry, SPACE + i)
    return number_of(read(source, offset, zero)) if inside else 0.0
