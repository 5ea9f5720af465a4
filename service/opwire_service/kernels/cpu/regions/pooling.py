"""The kernel of ROI_POOLING: the greatest element of each bin. A unit is a channel of a region."""

from __future__ import annotations

from ..jit.compiler import inner, kernel
from ..jit.element import bits_of, load, of_bits, read, store
from ..numbers.formats import masked
from ..run.geometry import advance, at

# Slots of the geometry.
CHANNELS, ROWS, COLUMNS = 0, 1, 2  # of the output
IMAGES, TOPS, LEFTS = 3, 4, 5  # addresses: image of each region, and pairs of begin and end of each bin
SOURCE, TARGET = 6, 10  # steps of the four dimensions
PLACES = 14


@inner
def _greatest(zero: float, plane: int, geometry: int, top: int, bottom: int, left: int, right: int) -> int:
    """Returns the bits of the first of the greatest elements; a NaN only if there are no numbers."""
    best, found, some = 0.0, 0, False
    for row in range(top, bottom):
        for column in range(left, right):
            element = read(plane, row * at(geometry, SOURCE + 2) + column * at(geometry, SOURCE + 3), zero)
            value = masked(element, -1)
            if not some or value > best or (best != best and value == value):
                best, found, some = value, bits_of(element), True
    return found


@kernel
def bins(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Writes the greatest element of each bin; a unit is a channel of a region."""
    channels, rows, columns = at(geometry, CHANNELS), at(geometry, ROWS), at(geometry, COLUMNS)
    for unit in range(begin, end):
        region = unit // channels
        channel = unit - region * channels
        image = load(at(geometry, IMAGES), region, 0)
        plane = advance(source, image * at(geometry, SOURCE) + channel * at(geometry, SOURCE + 1), zero)
        here = advance(target, region * at(geometry, TARGET) + channel * at(geometry, TARGET + 1), zero)
        for row in range(rows):
            down = 2 * (region * rows + row)
            top, bottom = load(at(geometry, TOPS), down, 0), load(at(geometry, TOPS), down + 1, 0)
            for column in range(columns):
                across = 2 * (region * columns + column)
                left, right = load(at(geometry, LEFTS), across, 0), load(at(geometry, LEFTS), across + 1, 0)
                bits = _greatest(zero, plane, geometry, top, bottom, left, right)
                place = row * at(geometry, TARGET + 2) + column * at(geometry, TARGET + 3)
                store(here, place, of_bits(bits, zero))
