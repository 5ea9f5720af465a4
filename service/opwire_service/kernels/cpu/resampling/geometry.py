"""Loop geometry of weighted sums as int64 slots: five dimensions, each with tables of what its outputs read."""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import float64, load
from ..run.geometry import at

# Slots of the array.
TILE, TILES = 0, 1  # outputs in a tile, and tiles in a row
LINE = 2  # input elements that a tile reads along the innermost dimension
EXACT = 3  # whether weights are exactly those of the formula
DOUBT = 4  # bits of a float64: sums below this share of the greatest element may be too inaccurate
LEAST = 5  # bits of a float64: the same, relative to the sum of the magnitudes of its own terms
INTEGER, LOWEST, HIGHEST = 6, 7, 8  # whether results are integers, and their range
CAPACITY = 9  # maximum number of outputs left open
PAIRS = 10  # whether outputs read at most two elements along the innermost dimension
TWICE = 10  # only for moves: whether each element goes to two outputs along the innermost dimension
LOCAL = 11  # whether sums along a line have doubt limits of their own
REGION_ROWS, REGION_COLUMNS = 12, 13  # table rows of the last two dimensions for each index of the second one
NEAR_WEIGHTS, FAR_WEIGHTS = 14, 15  # addresses of the two weights of each output if none has more; 0 if missing
AXES, WIDTH, DIMENSIONS = 16, 7, 5
OUT, FIRST, TAPS, STARTS, WEIGHTS, SOURCE, TARGET = range(WIDTH)
PLACES = AXES + DIMENSIONS * WIDTH

ACROSS = AXES + (DIMENSIONS - 1) * WIDTH


@inner
def reads_of(geometry: int, axis: int, out: int) -> tuple[int, int, int]:
    """Returns what an output reads along a dimension: first index, number of taps, and the address of their weights."""
    first = load(at(geometry, axis + FIRST), out, 0)
    taps = load(at(geometry, axis + TAPS), out, 0)
    return first, taps, at(geometry, axis + WEIGHTS) + 8 * load(at(geometry, axis + STARTS), out, 0)


@inner
def weight(address: int, tap: int) -> float:
    return load(address, tap, float64(0.0))


@inner
def reach_of(geometry: int, first: int, count: int) -> tuple[int, int]:
    """Returns the range of indices that a tile reads along the innermost dimension."""
    begin, taps, _ = reads_of(geometry, ACROSS, first)
    last, taps_of_last, _ = reads_of(geometry, ACROSS, first + count - 1)
    return min(begin, last), max(begin + taps, last + taps_of_last)
