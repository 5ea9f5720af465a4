"""The kernel of MAX_UNPOOLING. A unit is a plane, filled with zeros and then with the elements that belong there."""

from __future__ import annotations

from ..jit.compiler import inner, kernel
from ..jit.element import int32, load, of_bits, read, store
from ..jit.records import Record
from ..run.geometry import advance
from ..run.walk import ImageSteps, split


class Unpooling(Record):
    """An unpooling."""

    channels: int  # sizes of the input
    rows: int
    columns: int
    height: int  # sizes of the output, and the number of its elements
    width: int
    elements: int
    indices: int  # address of the indices, and bytes of one
    index_bytes: int
    foreign: int  # address of a flag that is set to 1 if an index points into another plane
    source: ImageSteps
    index: ImageSteps
    target: ImageSteps


@inner
def _index(address: int, offset: int, size: int) -> int:
    if size == 4:
        return load(address, offset, int32(0)) & 0xFFFFFFFF
    return load(address, offset, 0)


@inner
def _start(steps: ImageSteps, image: int, channel: int) -> int:
    return image * steps.image + channel * steps.channel


@kernel
def planes(zero: int, source: int, target: int, states: int, geometry: Unpooling, begin: int, end: int) -> None:
    """Unpools planes; flags an index that points into another plane."""
    height, width, size = geometry.height, geometry.width, geometry.index_bytes
    down, across = geometry.target.down, geometry.target.across
    nothing = of_bits(0, zero)
    for unit in range(begin, end):
        image, channel = split(unit, geometry.channels)
        there = advance(target, _start(geometry.target, image, channel), zero)
        for i in range(height):
            row = advance(there, i * down, zero)
            for j in range(width):
                store(row, j * across, nothing)
        base = unit * height * width
        for i in range(geometry.rows):
            values = advance(source, _start(geometry.source, image, channel) + i * geometry.source.down, zero)
            offset = _start(geometry.index, image, channel) + i * geometry.index.down
            for j in range(geometry.columns):
                index = _index(geometry.indices, offset + j * geometry.index.across, size)
                place = index - base
                if 0 <= place < height * width:
                    row_of, column = split(place, width)
                    value = read(values, j * geometry.source.across, zero)
                    store(there, row_of * down + column * across, value)
                elif 0 <= index < geometry.elements:
                    store(geometry.foreign, 0, 1)
