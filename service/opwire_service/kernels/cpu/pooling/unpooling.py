"""The kernel of MAX_UNPOOLING. A unit is a plane, filled with zeros and then with the elements that belong there."""

from __future__ import annotations

from ..jit.compiler import inner, kernel
from ..jit.element import int32, load, of_bits, read, store
from ..run.geometry import advance, at

# Slots of the geometry.
CHANNELS, ROWS, COLUMNS = 0, 1, 2  # of the input
HEIGHT, WIDTH = 3, 4  # of the output
ELEMENTS = 5  # number of elements of the whole output
INDICES, INDEX_BYTES = 6, 7  # address of the indices, and bytes of one
FOREIGN = 8  # address of a flag that is set to 1 if an index points into another plane
STEPS = 9  # steps of input, indices and output, for each of four dimensions
PLACES = STEPS + 12


@inner
def _index(address: int, offset: int, size: int) -> int:
    if size == 4:
        return load(address, offset, int32(0)) & 0xFFFFFFFF
    return load(address, offset, 0)


@inner
def _start(geometry: int, which: int, image: int, channel: int) -> int:
    return image * at(geometry, STEPS + which) + channel * at(geometry, STEPS + 3 + which)


@kernel
def planes(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Unpools planes; flags an index that points into another plane."""
    channels, height, width = at(geometry, CHANNELS), at(geometry, HEIGHT), at(geometry, WIDTH)
    size, elements = at(geometry, INDEX_BYTES), at(geometry, ELEMENTS)
    down, across = at(geometry, STEPS + 8), at(geometry, STEPS + 11)
    nothing = of_bits(0, zero)
    for unit in range(begin, end):
        image = unit // channels
        channel = unit - image * channels
        there = advance(target, _start(geometry, 2, image, channel), zero)
        for i in range(height):
            row = advance(there, i * down, zero)
            for j in range(width):
                store(row, j * across, nothing)
        base = unit * height * width
        for i in range(at(geometry, ROWS)):
            values = advance(source, _start(geometry, 0, image, channel) + i * at(geometry, STEPS + 6), zero)
            offset = _start(geometry, 1, image, channel) + i * at(geometry, STEPS + 7)
            for j in range(at(geometry, COLUMNS)):
                index = _index(at(geometry, INDICES), offset + j * at(geometry, STEPS + 10), size)
                place = index - base
                if 0 <= place < height * width:
                    row_of = place // width
                    value = read(values, j * at(geometry, STEPS + 9), zero)
                    store(there, row_of * down + (place - row_of * width) * across, value)
                elif 0 <= index < elements:
                    store(at(geometry, FOREIGN), 0, 1)
