"""The right-hand operand of a product as kernels read it: columns of an input that a window moves over.

A row of such a matrix belongs to a channel and a tap of the filter, a column to an image and a position. An ordinary
matrix has a channel for each of its rows and one tap; its columns are the positions.
"""

from __future__ import annotations

from ..jit.compiler import inlined, inner
from ..jit.element import read
from ..numbers.formats import number_of
from ..run.geometry import at

SPATIAL = 3

GROUP, CHANNEL, IMAGE = range(3)
"""Steps in elements to the next one."""

SPACE, TAPS, SIZE, BASE, MOVE, TURN, PLACES = range(3, 3 + 7 * SPATIAL, SPATIAL)
"""Of each spatial dimension: its step in elements, taps, size of the input, and the element that position 0 meets by
tap 0; then how much further the next position is, and the next tap; and how many positions there are."""

FIRST, COUNT, IMAGES = range(24, 27)
"""The first row of the matrix that is wanted, how many, and how many images."""

WINDOW = 27
"""Slots in all."""


@inlined
def spot(geometry: int, dimension: int, position: int, tap: int) -> int:
    """The element of a dimension that a position meets by a tap; outside of the input there is padding."""
    turned = tap * at(geometry, TURN + dimension)
    return at(geometry, BASE + dimension) + position * at(geometry, MOVE + dimension) + turned


@inner
def taps_of(geometry: int, row: int) -> tuple[int, int, int, int]:
    """The channel and the taps of a row of the matrix."""
    row, last = divmod(row, at(geometry, TAPS + 2))
    row, middle = divmod(row, at(geometry, TAPS + 1))
    channel, first = divmod(row, at(geometry, TAPS))
    return channel, first, middle, last


@inner
def place_of(geometry: int, column: int) -> tuple[int, int, int, int]:
    """The image and the positions of a column."""
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
    """The element where a row and a column meet, in a group at an offset."""
    offset += taps[0] * at(geometry, CHANNEL) + place[0] * at(geometry, IMAGE)
    inside = True
    for i in range(SPATIAL):
        there = spot(geometry, i, place[1 + i], taps[1 + i])
        inside &= 0 <= there < at(geometry, SIZE + i)
        offset += there * at(geometry, SPACE + i)
    return number_of(read(source, offset, zero)) if inside else 0.0
