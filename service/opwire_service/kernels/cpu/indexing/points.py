"""The kernel that moves elements and slices by index, with the same rules for indices as the reference."""

from __future__ import annotations

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import int32, int64, load, prefetch
from ..run.walk import split
from ..views.geometry import tile_part
from ..views.moves import LINE, move_run, put, take
from .geometry import GATHER, REVERSE, REVERSE_LINES, SCATTER, Moves, PointLoop

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
def _offset(geometry: Moves, indices: int, mode: int, index_type: int) -> int:
    """Returns the offset, in bytes, that a tuple of indices selects; negative if nothing should be moved."""
    offset = 0
    for i in range(geometry.parts):
        part = geometry.components[i]
        index = index_at(indices + part.place, index_type)
        index = _counted(index, part.size) if mode == SCATTER else _resolved(index, part.size)
        if index < 0:
            return -1
        offset += index * part.step
    return offset


@inlined
def _moved(loop: PointLoop, count: int, indices: int, source: int, target: int) -> tuple[int, int, int]:
    """Returns addresses advanced by a number of steps of a loop."""
    return indices + count * loop.index, source + count * loop.source, target + count * loop.target


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
    geometry: Moves, first: int, pieces: int, number: int, width: int, places: tuple[int, int, int]
) -> tuple[int, int, int, int]:
    """Returns the addresses and the number of points of a piece of a block, whose rows are cut into ``pieces``."""
    row, column = split(number, pieces)
    begin = column * PIECE
    indices, source, target = _moved(geometry.middle, first + row, places[0], places[1], places[2])
    indices, source, target = _moved(geometry.inner, begin, indices, source, target)
    return indices, source, target, min(PIECE, width - begin)


@inlined
def _elements_by(
    zero: int,
    mode: int,
    index_type: int,
    geometry: Moves,
    first: int,
    height: int,
    width: int,
    places: tuple[int, int, int],
) -> None:
    """Moves single elements, by indices whose type is a compile-time constant."""
    size, step = geometry.components[0].size, geometry.components[0].step
    next_index, here, there = (
        geometry.inner.index,
        geometry.inner.source,
        geometry.inner.target,
    )
    pieces, is_far = (width + PIECE - 1) // PIECE, geometry.is_far
    for number in range(height * pieces):
        indices, source, target, count = _piece(geometry, first, pieces, number, width, places)
        if is_far:
            coming = _piece(geometry, first, pieces, min(number + 1, height * pieces - 1), width, places)
            far, apart = (coming[2], there) if mode == SCATTER else (coming[1], here)
            for i in range(coming[3]):
                prefetch(far + i * apart + _resolved(index_at(coming[0] + i * next_index, index_type), size) * step)
        if mode == SCATTER:
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
    zero: int, mode: int, geometry: Moves, first: int, height: int, width: int, places: tuple[int, int, int]
) -> None:
    """Moves single elements, specialized by index type: checking it in the loop would take three times as long."""
    index_type = geometry.index_type
    if index_type == SIGNED_64:
        _elements_by(zero, mode, SIGNED_64, geometry, first, height, width, places)
    elif index_type == SIGNED_32:
        _elements_by(zero, mode, SIGNED_32, geometry, first, height, width, places)
    elif index_type == UNSIGNED_32:
        _elements_by(zero, mode, UNSIGNED_32, geometry, first, height, width, places)
    else:
        _elements_by(zero, mode, UNSIGNED_64, geometry, first, height, width, places)


@inner
def _elements(zero: int, geometry: Moves, first: int, height: int, width: int, places: tuple[int, int, int]) -> None:
    """Gathers or scatters single elements."""
    if geometry.mode == SCATTER:
        _elements_of(zero, SCATTER, geometry, first, height, width, places)
    else:
        _elements_of(zero, GATHER, geometry, first, height, width, places)


@inner
def _line(geometry: Moves, indices: int, source: int, target: int, count: int, position: int) -> None:
    """Processes the points of the innermost loop: tuples of several indices, or one index each."""
    mode, index_type, run = geometry.mode, geometry.index_type, geometry.run
    next_index, here, there = (
        geometry.inner.index,
        geometry.inner.source,
        geometry.inner.target,
    )
    size, step = geometry.components[0].size, geometry.components[0].step
    if geometry.parts > 1:
        for _ in range(count):
            offset = _offset(geometry, indices, mode, index_type)
            if offset >= 0:
                _move(target + offset * (mode == SCATTER), source + offset * (mode == GATHER), run)
            indices, source, target = indices + next_index, source + here, target + there
    elif mode == GATHER:
        ahead = RUNS_AHEAD if geometry.is_far else count
        for i in range(count):
            if i + ahead < count:
                coming = _resolved(index_at(indices + ahead * next_index, index_type), size)
                _ask_for_run(source + ahead * here + coming * step, run)
            _move(target, source + _resolved(index_at(indices, index_type), size) * step, run)
            indices, source, target = indices + next_index, source + here, target + there
    elif mode == SCATTER:
        for _ in range(count):
            place = _counted(index_at(indices, index_type), size)
            if place >= 0:
                _move(target + place * step, source, run)
            indices, source, target = indices + next_index, source + here, target + there
    elif mode == REVERSE:
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
def _block(geometry: Moves, first: int, height: int, width: int, places: tuple[int, int, int], position: int) -> None:
    """Processes points of the two innermost loops, starting at point ``first`` of the middle one."""
    run = geometry.run
    is_plain = geometry.mode in (GATHER, SCATTER) and geometry.parts == 1
    if is_plain and run == 4:
        _elements(int32(0), geometry, first, height, width, places)
    elif is_plain and run == 8:
        _elements(int64(0), geometry, first, height, width, places)
    else:
        for i in range(first, first + height):
            here = _moved(geometry.middle, i, places[0], places[1], places[2])
            _line(geometry, here[0], here[1], here[2], width, position)


@kernel
def move_points(zero: int, tensors: int, _target: int, _states: int, geometry: Moves, begin: int, end: int) -> None:
    """Processes the points of some units; ``tensors`` is the address of those of the tensors, the indices last."""
    for unit in range(begin, end):
        rest, middle_start, height = tile_part(geometry.middle, unit)
        rest, inner_start, width = tile_part(geometry.inner, rest)
        first = geometry.first + rest * geometry.tile
        last = min(first + geometry.tile, geometry.last)
        for point in range(first, last):
            places = load(tensors, 2, 0), load(tensors, 0, 0), load(tensors, 1, 0)
            left, position = point, 0
            for i in range(geometry.outer - 1, -1, -1):
                left, place = split(left, geometry.loops[i].size)
                if i == geometry.outer - 1:
                    position = place
                places = _moved(geometry.loops[i], place, places[0], places[1], places[2])
            if geometry.mode == REVERSE_LINES:
                position = inner_start
            places = _moved(geometry.inner, inner_start, places[0], places[1], places[2])
            _block(geometry, middle_start, height, width, places, position)
