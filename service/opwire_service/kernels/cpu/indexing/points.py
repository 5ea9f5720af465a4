"""The kernel that moves elements and slices by index, and the rule for indices, as that of the reference."""

from __future__ import annotations

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import INT32, int32, int64
from ..run.geometry import at
from ..views.moves import move_run, put, take
from . import geometry as g

SIGNED_64, UNSIGNED_64, SIGNED_32, UNSIGNED_32 = range(4)
"""How indices are read."""

FAR = (1 << 63) - 1


@inlined
def index_at(address: int, index_type: int) -> int:
    """An index; one that int64 does not hold is as far as any."""
    if index_type == SIGNED_64:
        return take(address, int64(0))
    if index_type == SIGNED_32:
        return int64(take(address, int32(0)))
    if index_type == UNSIGNED_32:
        return int64(take(address, int32(0))) & 0xFFFFFFFF
    index = take(address, int64(0))
    return index if index >= 0 else FAR


@inlined
def _move(target: int, source: int, run: int) -> None:
    if run == 4:
        put(target, take(source, int32(0)))
    elif run == 8:
        put(target, take(source, int64(0)))
    else:
        move_run(target, source, run)


@inlined
def _offset(geometry: int, indices: int, position: int) -> int:
    """Bytes to what a tuple of indices names; less than 0 if nothing is to be moved.

    ``position`` is that in a sequence, if sequences are turned round: their lengths are the indices then.
    """
    mode, index_type, offset = at(geometry, g.MODE), at(geometry, g.INDEX_TYPE), 0
    for i in range(at(geometry, g.COMPONENTS)):
        slot = g.COMPONENT + g.COMPONENT_SLOTS * i
        size = at(geometry, slot + 1)
        index = index_at(indices + at(geometry, slot), index_type)
        if mode == g.REVERSE:
            length = min(index, size)
            index = length - 1 - position if position < length else position
        else:
            index = index + size if index < 0 else index
            if index < 0 or index >= size:
                if mode == g.SCATTER:
                    return -1
                index = 0 if index < 0 else size - 1
        offset += index * at(geometry, slot + 2)
    return offset


@inlined
def _moved(geometry: int, level: int, count: int, indices: int, source: int, target: int) -> tuple[int, int, int]:
    """Addresses so many steps of a loop further."""
    indices += count * at(geometry, level + g.INDEX_STEP)
    source += count * at(geometry, level + g.SOURCE_STEP)
    target += count * at(geometry, level + g.TARGET_STEP)
    return indices, source, target


@inner
def _line(geometry: int, indices: int, source: int, target: int, count: int, position: int) -> None:
    """Moves what the points of the innermost loop name."""
    run, writes = at(geometry, g.RUN), at(geometry, g.MODE) == g.SCATTER
    for _ in range(count):
        offset = _offset(geometry, indices, position)
        if offset >= 0:
            if writes:
                _move(target + offset, source, run)
            else:
                _move(target, source + offset, run)
        indices, source, target = _moved(geometry, g.INNER, 1, indices, source, target)


@inlined
def _part(geometry: int, level: int, unit: int) -> tuple[int, int, int]:
    """Of a loop that is cut the number that is left, where a unit begins, and how much it takes."""
    tiles, tile, size = (
        at(geometry, level + g.LEVEL_TILES),
        at(geometry, level + g.LEVEL_TILE),
        at(geometry, level + g.SIZE),
    )
    rest = unit // tiles
    start = (unit - rest * tiles) * tile
    return rest, start, min(tile, size - start)


@kernel
def move_points(zero: int, tensors: int, _target: int, _states: int, geometry: int, begin: int, end: int) -> None:
    """Moves what the points of some units name. Of the tensors' addresses that of the indices stands last."""
    for unit in range(begin, end):
        rest, inner_start, width = _part(geometry, g.INNER, unit)
        rest, middle_start, height = _part(geometry, g.MIDDLE, rest)
        first = at(geometry, g.FIRST) + rest * at(geometry, g.TILE)
        last = min(first + at(geometry, g.TILE), at(geometry, g.LAST))
        for point in range(first, last):
            source, target, indices = at(tensors, 0), at(tensors, 1), at(tensors, 2)
            left, position = point, 0
            for i in range(at(geometry, g.OUTER) - 1, -1, -1):
                slot = g.LOOPS + g.LOOP_SLOTS * i
                size = at(geometry, slot)
                quotient = left // size
                place = left - quotient * size
                if i == at(geometry, g.OUTER) - 1:
                    position = place
                indices += place * at(geometry, slot + g.INDEX_STEP)
                source += place * at(geometry, slot + g.SOURCE_STEP)
                target += place * at(geometry, slot + g.TARGET_STEP)
                left = quotient
            indices, source, target = _moved(geometry, g.INNER, inner_start, indices, source, target)
            for i in range(middle_start, middle_start + height):
                here = _moved(geometry, g.MIDDLE, i, indices, source, target)
                _line(geometry, here[0], here[1], here[2], width, position)
