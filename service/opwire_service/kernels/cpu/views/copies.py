"""The copy kernels: for runs of bytes, and for elements of a given size, whatever their type."""

from __future__ import annotations

from ..jit.compiler import inner, kernel
from ..jit.element import size_of
from ..jit.records import Row
from .geometry import FILL, PAIRS, TRANSPOSED, CopyTile, EncodedCopy, tile_of
from .moves import fence, move_pairs, move_run, move_seconds, put, seconds_of, take
from .transposing import transpose


@kernel
def runs(zero: int, tensors: int, _target: int, _states: int, geometry: Row[EncodedCopy], begin: int, end: int) -> None:
    """Copies runs of bytes."""
    which = 0
    for unit in range(begin, end):
        while unit >= geometry[which].end:
            which += 1
        copy = geometry[which]
        tile = tile_of(tensors, copy, unit)
        for i in range(tile.outer):
            source = tile.source + i * copy.levels[0].source
            target = tile.target + i * copy.levels[0].target
            for _ in range(tile.middle):
                move_run(target, source, tile.inner)
                source += copy.levels[1].source
                target += copy.levels[1].target


@kernel
def items(
    zero: int, tensors: int, _target: int, _states: int, geometry: Row[EncodedCopy], begin: int, end: int
) -> None:
    """Copies elements one by one, or in transposed squares."""
    which = 0
    for unit in range(begin, end):
        while unit >= geometry[which].end:
            which += 1
        copy = geometry[which]
        tile = tile_of(tensors, copy, unit)
        if copy.kind >= TRANSPOSED:
            transpose(zero, copy, tile)
            continue
        for i in range(tile.outer):
            source = tile.source + i * copy.levels[0].source
            target = tile.target + i * copy.levels[0].target
            if copy.kind == PAIRS and tile.middle == 2:
                _pairs(zero, target, source, source + copy.levels[1].source, tile.inner)
            else:
                _lines(zero, copy, target, source, tile)
    # Complete streaming stores before other threads learn that the results are there.
    fence()


@inner
def _lines(zero: int, copy: EncodedCopy, target: int, source: int, tile: CopyTile) -> None:
    here, there = copy.levels[2].source, copy.levels[2].target
    for row in range(tile.middle):
        first = max(0, copy.begin - tile.diagonal + row)
        last = min(tile.inner, copy.last - tile.diagonal + row)
        if first < last:
            if copy.kind == FILL:
                fill(target + first * there, there, take(source, 0, zero), last - first)
            else:
                _line(zero, target + first * there, there, source + first * here, here, last - first)
        source += copy.levels[1].source
        target += copy.levels[1].target


@inner
def _pairs(zero: int, target: int, source: int, other: int, count: int) -> None:
    """Interleaves two lines."""
    at_once = seconds_of(zero) // 2
    whole = count // at_once * at_once
    for i in range(0, whole, at_once):
        move_pairs(target, i, source, other, zero)
    for i in range(whole, count):
        put(target, 2 * i, take(source, i, zero))
        put(target, 2 * i + 1, take(other, i, zero))


@inner
def fill(target: int, step: int, value: int, count: int) -> None:
    """Fills with an element, with a stride of ``step`` bytes."""
    if step == size_of(value):
        for i in range(count):
            put(target, i, value)
    else:
        for i in range(count):
            put(target + i * step, 0, value)


@inner
def _line(zero: int, target: int, there: int, source: int, here: int, count: int) -> None:
    """Copies elements with strides of ``here`` bytes in the source and ``there`` bytes in the target."""
    size = size_of(zero)
    if there != size:
        for i in range(count):
            put(target + i * there, 0, take(source + i * here, 0, zero))
    elif here == size:
        for i in range(count):
            put(target, i, take(source, i, zero))
    elif here == 2 * size:
        # A whole vector at the end would read one element past the last, which may be unmapped.
        whole = (count - 1) // seconds_of(zero) * seconds_of(zero)
        for i in range(0, whole, seconds_of(zero)):
            move_seconds(target, i, source, zero)
        for i in range(whole, count):
            put(target, i, take(source, 2 * i, zero))
    elif here == -size:
        for i in range(count):
            put(target, i, take(source, -i, zero))
    else:
        for i in range(count):
            put(target, i, take(source + i * here, 0, zero))
