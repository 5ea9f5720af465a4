"""The kernel that moves elements and slices by index, with the same rules for indices as the reference."""

from __future__ import annotations

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import int32, int64, prefetch
from ..run.geometry import at
from ..views.moves import LINE, move_run, put, take
from . import geometry as g

SIGNED_64, UNSIGNED_64, SIGNED_32, UNSIGNED_32 = range(4)
"""Types of indices."""

PIECE = 64
"""Single elements prefetched while the previous ones are moved."""

RUNS_AHEAD = 16
"""Prefetch distance in a gather of runs, in points."""

MOST_AHEAD = 512
"""Maximum number of bytes of a run that are prefetched; the hardware prefetcher handles the rest."""

FAR = (1 << 63) - 1
"""Stands for indices too large for int64."""


@inlined
def index_at(address: int, index_type: int) -> int:
    """Reads an index; one too large for int64 becomes ``FAR``."""
    if index_type == SIGNED_64:
        return take(address, 0, int64(0))
    if index_type == SIGNED_32:
        return int64(take(address, 0, int32(0)))
    if index_type == UNSIGNED_32:
        return int64(take(address, 0, int32(0))) & 0xFFFFFFFF
    index = take(address, 0, int64(0))
    return index if index >= 0 else FAR


@inlined
def _move(target: int, source: int, run: int) -> None:
    if run == 4:
        put(target, 0, take(source, 0, int32(0)))
    elif run == 8:
        put(target, 0, take(source, 0, int64(0)))
    else:
        move_run(target, source, run)


@inlined
def _ask_for_run(source: int, run: int) -> None:
    for i in range(0, min(run, MOST_AHEAD), LINE):
        prefetch(source + i)


@inlined
def _resolved(index: int, size: int) -> int:
    """Resolves an index, negative ones counting from the end; clamps it to the valid range."""
    index = index + size if index < 0 else index
    return 0 if index < 0 else min(index, size - 1)


@inlined
def _counted(index: int, size: int) -> int:
    """Resolves an index, negative ones counting from the end; returns a negative number if it is out of range."""
    index = index + size if index < 0 else index
    return index if index < size else -1


@inlined
def _mirrored(length: int, size: int, position: int) -> int:
    """Returns the source position of an element in a sequence reversed up to ``length``."""
    length = min(length, size)
    return length - 1 - position if position < length else position


@inner
def _offset(geometry: int, indices: int, mode: int, index_type: int) -> int:
    """Returns the offset, in bytes, that a tuple of indices selects; negative if nothing should be moved."""
    offset = 0
    for i in range(at(geometry, g.COMPONENTS)):
        slot = g.COMPONENT + g.COMPONENT_SLOTS * i
        index, size = index_at(indices + at(geometry, slot), index_type), at(geometry, slot + 1)
        index = _counted(index, size) if mode == g.SCATTER else _resolved(index, size)
        if index < 0:
            return -1
        offset += index * at(geometry, slot + 2)
    return offset


@inlined
def _moved(geometry: int, level: int, count: int, indices: int, source: int, target: int) -> tuple[int, int, int]:
    """Returns addresses advanced by a number of steps of a loop."""
    indices += count * at(geometry, level + g.INDEX_STEP)
    source += count * at(geometry, level + g.SOURCE_STEP)
    target += count * at(geometry, level + g.TARGET_STEP)
    return indices, source, target


@inlined
def _turn(target: int, source: int, length: int, position: int, count: int, zero: int) -> None:
    """Reverses some positions of a sequence up to its length, and copies the rest."""
    turned = max(0, min(length - position, count))
    last = length - 1 - position
    for i in range(turned):
        put(target, i, take(source, last - i, zero))
    for i in range(turned, count):
        put(target, i, take(source, position + i, zero))


@inlined
def _piece(
    geometry: int, first: int, pieces: int, number: int, width: int, places: tuple[int, int, int]
) -> tuple[int, int, int, int]:
    """Returns the addresses and the number of points of a piece of a block, whose rows are cut into ``pieces``."""
    row = number // pieces
    begin = (number - row * pieces) * PIECE
    indices, source, target = _moved(geometry, g.MIDDLE, first + row, places[0], places[1], places[2])
    indices, source, target = _moved(geometry, g.INNER, begin, indices, source, target)
    return indices, source, target, min(PIECE, width - begin)


@inlined
def _elements_by(
    zero: int,
    mode: int,
    index_type: int,
    geometry: int,
    first: int,
    height: int,
    width: int,
    places: tuple[int, int, int],
) -> None:
    """Moves single elements, by indices whose type is a compile-time constant."""
    size, step = at(geometry, g.COMPONENT + 1), at(geometry, g.COMPONENT + 2)
    next_index, here, there = (
        at(geometry, g.INNER + g.INDEX_STEP),
        at(geometry, g.INNER + g.SOURCE_STEP),
        at(geometry, g.INNER + g.TARGET_STEP),
    )
    pieces, is_far = (width + PIECE - 1) // PIECE, at(geometry, g.IS_FAR)
    for number in range(height * pieces):
        indices, source, target, count = _piece(geometry, first, pieces, number, width, places)
        if is_far:
            coming = _piece(geometry, first, pieces, min(number + 1, height * pieces - 1), width, places)
            far, apart = (coming[2], there) if mode == g.SCATTER else (coming[1], here)
            for i in range(coming[3]):
                prefetch(far + i * apart + _resolved(index_at(coming[0] + i * next_index, index_type), size) * step)
        if mode == g.SCATTER:
            for i in range(count):
                place = _counted(index_at(indices + i * next_index, index_type), size)
                if place >= 0:
                    put(target + i * there + place * step, 0, take(source + i * here, 0, zero))
        else:
            for i in range(count):
                place = _resolved(index_at(indices + i * next_index, index_type), size)
                put(target + i * there, 0, take(source + i * here + place * step, 0, zero))


@inlined
def _elements_of(
    zero: int, mode: int, geometry: int, first: int, height: int, width: int, places: tuple[int, int, int]
) -> None:
    """Moves single elements, specialized by index type: checking it in the loop would take three times as long."""
    index_type = at(geometry, g.INDEX_TYPE)
    if index_type == SIGNED_64:
        _elements_by(zero, mode, SIGNED_64, geometry, first, height, width, places)
    elif index_type == SIGNED_32:
        _elements_by(zero, mode, SIGNED_32, geometry, first, height, width, places)
    elif index_type == UNSIGNED_32:
        _elements_by(zero, mode, UNSIGNED_32, geometry, first, height, width, places)
    else:
        _elements_by(zero, mode, UNSIGNED_64, geometry, first, height, width, places)


@inner
def _elements(zero: int, geometry: int, first: int, height: int, width: int, places: tuple[int, int, int]) -> None:
    """Gathers or scatters single elements."""
    if at(geometry, g.MODE) == g.SCATTER:
        _elements_of(zero, g.SCATTER, geometry, first, height, width, places)
    else:
        _elements_of(zero, g.GATHER, geometry, first, height, width, places)


@inner
def _line(geometry: int, indices: int, source: int, target: int, count: int, position: int) -> None:
    """Processes the points of the innermost loop: tuples of several indices, or one index each."""
    mode, index_type, run = at(geometry, g.MODE), at(geometry, g.INDEX_TYPE), at(geometry, g.RUN)
    next_index, here, there = (
        at(geometry, g.INNER + g.INDEX_STEP),
        at(geometry, g.INNER + g.SOURCE_STEP),
        at(geometry, g.INNER + g.TARGET_STEP),
    )
    size, step = at(geometry, g.COMPONENT + 1), at(geometry, g.COMPONENT + 2)
    if at(geometry, g.COMPONENTS) > 1:
        for _ in range(count):
            offset = _offset(geometry, indices, mode, index_type)
            if offset >= 0:
                _move(target + offset * (mode == g.SCATTER), source + offset * (mode == g.GATHER), run)
            indices, source, target = indices + next_index, source + here, target + there
    elif mode == g.GATHER:
        ahead = RUNS_AHEAD if at(geometry, g.IS_FAR) else count
        for i in range(count):
            if i + ahead < count:
                coming = _resolved(index_at(indices + ahead * next_index, index_type), size)
                _ask_for_run(source + ahead * here + coming * step, run)
            _move(target, source + _resolved(index_at(indices, index_type), size) * step, run)
            indices, source, target = indices + next_index, source + here, target + there
    elif mode == g.SCATTER:
        for _ in range(count):
            place = _counted(index_at(indices, index_type), size)
            if place >= 0:
                _move(target + place * step, source, run)
            indices, source, target = indices + next_index, source + here, target + there
    elif mode == g.REVERSE:
        for _ in range(count):
            _move(target, source + _mirrored(index_at(indices, index_type), size, position) * step, run)
            indices, source, target = indices + next_index, source + here, target + there
    elif step == there == run == 4:
        _turn(target, source, min(index_at(indices, index_type), size), position, count, int32(0))
    elif step == there == run == 8:
        _turn(target, source, min(index_at(indices, index_type), size), position, count, int64(0))
    else:
        length = index_at(indices, index_type)
        for i in range(count):
            _move(target + i * there, source + _mirrored(length, size, position + i) * step, run)


@inlined
def _block(geometry: int, first: int, height: int, width: int, places: tuple[int, int, int], position: int) -> None:
    """Processes points of the two innermost loops, starting at point ``first`` of the middle one."""
    run = at(geometry, g.RUN)
    is_plain = at(geometry, g.MODE) in (g.GATHER, g.SCATTER) and at(geometry, g.COMPONENTS) == 1
    if is_plain and run == 4:
        _elements(int32(0), geometry, first, height, width, places)
    elif is_plain and run == 8:
        _elements(int64(0), geometry, first, height, width, places)
    else:
        for i in range(first, first + height):
            here = _moved(geometry, g.MIDDLE, i, places[0], places[1], places[2])
            _line(geometry, here[0], here[1], here[2], width, position)


@inlined
def _part(geometry: int, level: int, unit: int) -> tuple[int, int, int]:
    """Splits off the index along a tiled loop; returns the rest of the unit, its start and its size along the loop."""
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
    """Processes the points of some units; ``tensors`` is the address of those of the tensors, the indices last."""
    for unit in range(begin, end):
        rest, middle_start, height = _part(geometry, g.MIDDLE, unit)
        rest, inner_start, width = _part(geometry, g.INNER, rest)
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
            if at(geometry, g.MODE) == g.REVERSE_LINES:
                position = inner_start
            indices, source, target = _moved(geometry, g.INNER, inner_start, indices, source, target)
            _block(geometry, middle_start, height, width, (indices, source, target), position)
