"""Encodes the loops of moves by index; each point resolves one tuple of indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ...picking import Component, Point
from ..jit.records import Record, rows

MOST_LOOPS = 16


class PointLoop(Record):
    """A loop over points."""

    size: int
    index: int
    source: int
    target: int


class TiledPointLoop(PointLoop):
    """A loop that is cut into tiles."""

    tile: int
    tiles: int


class IndexPart(Record):
    """A component of a tuple of indices: its offset in the tuple, the size that it indexes, and the step."""

    place: int
    size: int
    step: int


class Moves(Record):
    """Moves by index."""

    mode: int
    index_type: int
    run: int  # bytes moved per point
    first: int  # range and tiles of the points of the outer loops
    last: int
    tile: int
    tiles: int
    outer: int  # number of outer loops
    parts: int  # number of components
    is_far: bool  # whether the indexed memory exceeds the inner caches
    middle: TiledPointLoop
    inner: TiledPointLoop
    components = rows(IndexPart, 8)
    loops = rows(PointLoop, MOST_LOOPS)


GATHER, SCATTER, REVERSE, REVERSE_LINES = range(4)
"""Modes. The last two reverse sequences: over an outer loop, or along the innermost loop."""

TILE_POINTS = 1 << 14
"""Maximum number of points in a unit."""

TILE_BYTES = 1 << 18
"""Maximum number of bytes that a unit moves if points move many bytes."""

FAR_BYTES = 1 << 20
"""Size of the inner caches, in bytes; memory beyond that is prefetched."""


def collapse(loops: Iterable[Point]) -> list[Point]:
    """Returns the fewest loops that visit the same points in the same order."""
    merged: list[Point] = []
    for loop in loops:
        if loop.size == 1:
            continue
        last = merged[-1] if merged else None
        if last is not None and last[1:] == tuple(loop.size * step for step in loop[1:]):
            merged[-1] = Point(last.size * loop.size, *loop[1:])
        else:
            merged.append(loop)
    return merged


def encode(
    mode: int,
    index_type: int,
    run: int,
    components: Sequence[Component],
    outer: Sequence[Point],
    tiles: Sequence[Point],
) -> tuple[Moves, int, int]:
    """Encodes a move by index.

    Args:
        mode: gather, scatter, or one of the reversals.
        index_type: type of an index.
        run: bytes that a point moves.
        components: components of a tuple of indices, in bytes.
        outer: outer loops, in bytes; in order if later points overwrite earlier ones.
        tiles: at most two loops inside them, which may be cut.

    Returns:
        The geometry, the number of units, and the maximum number of element visits in a unit.
    """
    levels = [Point(1, 0, 0, 0)] * (2 - len(tiles)) + list(tiles)
    left = max(1, min(TILE_POINTS, TILE_BYTES // run))
    widths = [min(left, levels[-1].size)]
    left = max(1, left // widths[0])
    widths.append(min(left, levels[0].size))
    left = max(1, left // levels[0].size)
    count = prod(loop.size for loop in outer)
    tile = count if mode == SCATTER else min(count, left)
    middle, inner = (
        (*level, width, -(-level.size // width)) for level, width in zip(levels, reversed(widths), strict=True)
    )
    reach = sum(each.size * abs(each.step) for each in components)
    reach += sum(loop.size * abs(loop.target if mode == SCATTER else loop.source) for loop in (*outer, *tiles))
    moves = Moves(
        mode=mode,
        index_type=index_type,
        run=run,
        last=count,
        tile=tile,
        tiles=-(-count // tile),
        outer=len(outer),
        parts=len(components),
        is_far=reach > FAR_BYTES,
        middle=middle,
        inner=inner,
        components=components,
        loops=outer,
    )
    points = prod(widths) * (1 if mode == SCATTER else tile)
    units = moves.tiles * moves.middle.tiles * moves.inner.tiles
    return moves, units, points * (2 * len(components) + run // 8)
