"""The loops of weighted sums as a row of int64: five dimensions, each with tables of what its outputs read."""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import float64, load
from ..run.geometry import at

# Slots of the row.
TILE, TILES = 0, 1  # outputs of a tile, and how many tiles a row has
LINE = 2  # elements of the input that a tile reads along the innermost dimension
EXACT = 3  # whether weights are those of the formula
DOUBT = 4  # bits of a float64: a sum so many times smaller than the greatest element may have lost too many digits
LEAST = 5  # bits of a float64: the same, of the sum of the magnitudes of its own terms
INTEGER, LOWEST, HIGHEST = 6, 7, 8  # whether results are integers, and their range
CAPACITY = 9  # outputs that can be left open
PAIRS = 10  # whether no output reads more than two elements along the innermost dimension
TWICE = 10  # of what is moved: whether each element goes to two places along the innermost dimension
LOCAL = 11  # whether sums along a line say themselves when they are doubtful
REGION_ROWS, REGION_COLUMNS = 12, 13  # rows of the tables of the last two dimensions for each place of the second one
NEAR_WEIGHTS, FAR_WEIGHTS = 14, 15  # the addresses of the two weights of each output, if none has more, 0 for none
AXES, WIDTH, DIMENSIONS = 16, 7, 5
OUT, FIRST, TAPS, STARTS, WEIGHTS, SOURCE, TARGET = range(WIDTH)
PLACES = AXES + DIMENSIONS * WIDTH

ACROSS = AXES + (DIMENSIONS - 1) * WIDTH


@inner
def reads_of(geometry: int, axis: int, out: int) -> tuple[int, int, int]:
    """What an output reads along a dimension: the first index, how many, and the address of their weights."""
    first = load(at(geometry, axis + FIRST), out, 0)
    taps = load(at(geometry, axis + TAPS), out, 0)
    return first, taps, at(geometry, axis + WEIGHTS) + 8 * load(at(geometry, axis + STARTS), out, 0)


@inner
def weight(address: int, tap: int) -> float:
    return load(address, tap, float64(0.0))


@inner
def reach_of(geometry: int, first: int, count: int) -> tuple[int, int]:
    """Where what a tile reads along the innermost dimension begins, and where it ends."""
    begin, taps, _ = reads_of(geometry, ACROSS, first)
    last, taps_of_last, _ = reads_of(geometry, ACROSS, first + count - 1)
    return min(begin, last), max(begin + taps, last + taps_of_last)
