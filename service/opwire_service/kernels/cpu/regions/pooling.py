"""The kernel of ROI_POOLING: the greatest element of each bin. A unit is a channel of a region."""

from __future__ import annotations

from ..jit.compiler import inner, kernel
from ..jit.element import bits_of, load, of_bits, read, store
from ..jit.records import Record
from ..numbers.formats import masked
from ..run.geometry import advance
from ..run.walk import ImageSteps, split


class Bins(Record):
    """The bins of regions."""

    channels: int  # sizes of the output
    rows: int
    columns: int
    images: int  # addresses: image of each region, and pairs of begin and end of each bin
    tops: int
    lefts: int
    source: ImageSteps
    target: ImageSteps


@inner
def _greatest(zero: float, plane: int, geometry: Bins, top: int, bottom: int, left: int, right: int) -> int:
    """Returns the bits of the first of the greatest elements; a NaN only if there are no numbers."""
    best, found, some = 0.0, 0, False
    for row in range(top, bottom):
        for column in range(left, right):
            element = read(plane, row * geometry.source.down + column * geometry.source.across, zero)
            value = masked(element, -1)
            if not some or value > best or (best != best and value == value):
                best, found, some = value, bits_of(element), True
    return found


@kernel
def bins(zero: float, source: int, target: int, states: int, geometry: Bins, begin: int, end: int) -> None:
    """Writes the greatest element of each bin; a unit is a channel of a region."""
    channels, rows, columns = geometry.channels, geometry.rows, geometry.columns
    for unit in range(begin, end):
        region, channel = split(unit, channels)
        image = load(geometry.images, region, 0)
        plane = advance(source, image * geometry.source.image + channel * geometry.source.channel, zero)
        here = advance(target, region * geometry.target.image + channel * geometry.target.channel, zero)
        for row in range(rows):
            down = 2 * (region * rows + row)
            top, bottom = load(geometry.tops, down, 0), load(geometry.tops, down + 1, 0)
            for column in range(columns):
                across = 2 * (region * columns + column)
                left, right = load(geometry.lefts, across, 0), load(geometry.lefts, across + 1, 0)
                bits = _greatest(zero, plane, geometry, top, bottom, left, right)
                place = row * geometry.target.down + column * geometry.target.across
                store(here, place, of_bits(bits, zero))
