"""The copy kernels: for runs of bytes, and for elements of a given size, whatever their type."""

from __future__ import annotations

from ..jit.compiler import inner, kernel
from ..jit.element import size_of
from ..run.geometry import at
from . import geometry as g
from .geometry import CopyTile, step_of, tile_of
from .moves import fence, move_pairs, move_run, move_seconds, put, seconds_of, take
from .transposing import transpose


@kernel
def runs(zero: int, tensors: int, _target: int, _states: int, geometry: int, begin: int, end: int) -> None:
    """Copies runs of bytes."""
    for unit in range(begin, end):
        while unit >= at(geometry, g.END):
            geometry += 8 * g.RECORD
        tile = tile_of(tensors, geometry, unit)
        for i in range(tile.outer):
            source = tile.source + i * step_of(geometry, 0, g.SOURCE_STEP)
            target = tile.target + i * step_of(geometry, 0, g.TARGET_STEP)
            for _ in range(tile.middle):
                move_run(target, source, tile.inner)
                source += step_of(geometry, 1, g.SOURCE_STEP)
                target += step_of(geometry, 1, g.TARGET_STEP)


@kernel
def items(zero: int, tensors: int, _target: int, _states: int, geometry: int, begin: int, end: int) -> None:
    """Copies elements one by one, or in transposed squares."""
    for unit in range(begin, end):
        while unit >= at(geometry, g.END):
            geometry += 8 * g.RECORD
        tile = tile_of(tensors, geometry, unit)
        if at(geometry, g.KIND) >= g.TRANSPOSED:
            transpose(zero, geometry, tile)
            continue
        for i in range(tile.outer):
            source = tile.source + i * step_of(geometry, 0, g.SOURCE_STEP)
            target = tile.target + i * step_of(geometry, 0, g.TARGET_STEP)
            if at(geometry, g.KIND) == g.PAIRS and tile.middle == 2:
                _pairs(zero, target, source, source + step_of(geometry, 1, g.SOURCE_STEP), tile.inner)
            else:
                _lines(zero, geometry, target, source, tile)
    # Complete streaming stores before other threads learn that the results are there.
    fence()


@inner
def _lines(zero: int, geometry: int, target: int, source: int, tile: CopyTile) -> None:
    here, there = step_of(geometry, 2, g.SOURCE_STEP), step_of(geometry, 2, g.TARGET_STEP)
    for row in range(tile.middle):
        first = max(0, at(geometry, g.BEGIN) - tile.diagonal + row)
        last = min(tile.inner, at(geometry, g.LAST) - tile.diagonal + row)
        if first < last:
            if at(geometry, g.KIND) == g.FILL:
                fill(target + first * there, there, take(source, 0, zero), last - first)
            else:
                _line(zero, target + first * there, there, source + first * here, here, last - first)
        source += step_of(geometry, 1, g.SOURCE_STEP)
        target += step_of(geometry, 1, g.TARGET_STEP)


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
