"""Encodes the loops of moves by index as an array of int64 slots; each point resolves one tuple of indices."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from math import prod

from ...picking import Component, Point

# Slots of the array. Steps are in bytes.
MODE, INDEX_TYPE, RUN = 0, 1, 2  # mode, type of an index, and bytes moved per point
FIRST, LAST, TILE, TILES = 3, 4, 5, 6  # range and tiles of the points of the outer loops
OUTER = 7  # number of outer loops
COMPONENTS = 8  # number of components in a tuple of indices
MIDDLE, INNER = 9, 15  # the two innermost loops
SIZE, INDEX_STEP, SOURCE_STEP, TARGET_STEP, LEVEL_TILE, LEVEL_TILES = range(6)
IS_FAR = 21  # whether the indexed memory exceeds the inner caches
COMPONENT, COMPONENT_SLOTS = 24, 3  # for each component: offset in the tuple, size, and step
LOOPS, LOOP_SLOTS = 48, 4  # the outer loops
MOST_LOOPS = 16
SLOTS = LOOPS + LOOP_SLOTS * MOST_LOOPS

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
) -> tuple[array[int], int, int]:
    """Encodes a move by index.

    Args:
        mode: gather, scatter, or one of the reversals.
        index_type: type of an index.
        run: bytes that a point moves.
        components: components of a tuple of indices, in bytes.
        outer: outer loops, in bytes; in order if later points overwrite earlier ones.
        tiles: at most two loops inside them, which may be cut.

    Returns:
        The slots, the number of units, and the maximum number of element visits in a unit.
    """
    levels = [Point(1, 0, 0, 0)] * (2 - len(tiles)) + list(tiles)
    left = max(1, min(TILE_POINTS, TILE_BYTES // run))
    widths = [min(left, levels[-1].size)]
    left = max(1, left // widths[0])
    widths.append(min(left, levels[0].size))
    left = max(1, left // levels[0].size)
    count = prod(loop.size for loop in outer)
    tile = count if mode == SCATTER else min(count, left)
    row = [mode, index_type, run, 0, count, tile, -(-count // tile), len(outer), len(components)]
    for level, width in zip(levels, reversed(widths), strict=True):
        row += [*level, width, -(-level.size // width)]
    reach = sum(each.size * abs(each.step) for each in components)
    reach += sum(loop.size * abs(loop.target if mode == SCATTER else loop.source) for loop in (*outer, *tiles))
    row.append(int(reach > FAR_BYTES))
    row += [0] * (COMPONENT - len(row)) + [number for each in components for number in each]
    row += [0] * (LOOPS - len(row)) + [number for loop in outer for number in loop]
    row += [0] * (SLOTS - len(row))
    units = row[TILES] * row[MIDDLE + LEVEL_TILES] * row[INNER + LEVEL_TILES]
    points = prod(widths) * (1 if mode == SCATTER else tile)
    return array("q", row), units, points * (2 * len(components) + run // 8)
