"""The copy kernels: for runs of bytes, and for elements of a given size, whatever their type."""

from __future__ import annotations

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import size_of
from ..run.geometry import at
from . import geometry as g
from .geometry import CopyTile, tile_of
from .moves import (
    LINE,
    fence,
    move_pairs,
    move_run,
    move_seconds,
    move_small_square,
    move_square,
    move_square_past_cache,
    put,
    seconds_of,
    small_square_of,
    square_of,
    take,
)


@inlined
def _step(geometry: int, level: int, which: int) -> int:
    return at(geometry, g.LEVELS + level * g.LEVEL_SLOTS + which)


@kernel
def runs(zero: int, tensors: int, _target: int, _states: int, geometry: int, begin: int, end: int) -> None:
    """Copies runs of bytes."""
    for unit in range(begin, end):
        while unit >= at(geometry, g.END):
            geometry += 8 * g.RECORD
        tile = tile_of(tensors, geometry, unit)
        for i in range(tile.outer):
            source = tile.source + i * _step(geometry, 0, g.SOURCE_STEP)
            target = tile.target + i * _step(geometry, 0, g.TARGET_STEP)
            for _ in range(tile.middle):
                move_run(target, source, tile.inner)
                source += _step(geometry, 1, g.SOURCE_STEP)
                target += _step(geometry, 1, g.TARGET_STEP)


@kernel
def items(zero: int, tensors: int, _target: int, _states: int, geometry: int, begin: int, end: int) -> None:
    """Copies elements one by one, or in transposed squares."""
    for unit in range(begin, end):
        while unit >= at(geometry, g.END):
            geometry += 8 * g.RECORD
        tile = tile_of(tensors, geometry, unit)
        if at(geometry, g.KIND) >= g.TRANSPOSED:
            _transpose(zero, geometry, tile)
            continue
        for i in range(tile.outer):
            source = tile.source + i * _step(geometry, 0, g.SOURCE_STEP)
            target = tile.target + i * _step(geometry, 0, g.TARGET_STEP)
            if at(geometry, g.KIND) == g.PAIRS and tile.middle == 2:
                _pairs(zero, target, source, source + _step(geometry, 1, g.SOURCE_STEP), tile.inner)
            else:
                _lines(zero, geometry, target, source, tile)


@inner
def _lines(zero: int, geometry: int, target: int, source: int, tile: CopyTile) -> None:
    here, there = _step(geometry, 2, g.SOURCE_STEP), _step(geometry, 2, g.TARGET_STEP)
    for row in range(tile.middle):
        first = max(0, at(geometry, g.BEGIN) - tile.diagonal + row)
        last = min(tile.inner, at(geometry, g.LAST) - tile.diagonal + row)
        if first < last:
            if at(geometry, g.KIND) == g.FILL:
                fill(target + first * there, there, take(source, 0, zero), last - first)
            else:
                _line(zero, target + first * there, there, source + first * here, here, last - first)
        source += _step(geometry, 1, g.SOURCE_STEP)
        target += _step(geometry, 1, g.TARGET_STEP)


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


@inner
def _transpose(zero: int, geometry: int, tile: CopyTile) -> None:
    """Transposes a matrix with contiguous source columns and contiguous target rows, square by square.

    The last squares overlap others.
    """
    here, there = _step(geometry, 1, g.SOURCE_STEP), _step(geometry, 2, g.TARGET_STEP)
    size, least = size_of(zero), min(tile.middle, tile.inner)
    if least >= square_of(zero):
        _squares(zero, geometry, tile)
    elif least >= small_square_of(zero):
        square = small_square_of(zero)
        for i in range(0, tile.inner, square):
            i = min(i, tile.inner - square)
            for j in range(0, tile.middle, square):
                j = min(j, tile.middle - square)
                source, target = tile.source + i * size + j * here, tile.target + i * there + j * size
                move_small_square(target, there, source, here, zero)
    else:
        for i in range(tile.inner):
            for j in range(tile.middle):
                put(tile.target + i * there, j, take(tile.source + i * size + j * here, 0, zero))


@inner
def _squares(zero: int, geometry: int, tile: CopyTile) -> None:
    here, there = _step(geometry, 1, g.SOURCE_STEP), _step(geometry, 2, g.TARGET_STEP)
    size, square = size_of(zero), square_of(zero)
    is_whole = (tile.target | there) % LINE == 0 and tile.middle % square == 0
    is_past_cache = is_whole and at(geometry, g.KIND) == g.TRANSPOSED_PAST_CACHE
    # All squares but the first and the last start at a cache line of the source.
    before = tile.source % LINE // size if here % LINE == 0 else 0
    for i in range(-before, tile.inner, square):
        i = min(max(i, 0), tile.inner - square)
        source, target = tile.source + i * size, tile.target + i * there
        if is_past_cache:
            for j in range(0, tile.middle, square):
                move_square_past_cache(target + j * size, there, source + j * here, here, zero)
        else:
            for j in range(0, tile.middle, square):
                j = min(j, tile.middle - square)
                move_square(target + j * size, there, source + j * here, here, zero)
    if is_past_cache:
        fence()
