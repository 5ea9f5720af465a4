"""Loop geometry of weighted sums: five dimensions, each with tables of what its outputs read."""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import float64, load
from ..jit.records import Record, rows


class ReadAxis(Record):
    """A dimension: the number of outputs, the addresses of the tables of what they read, and steps in elements."""

    out: int
    first: int
    taps: int
    starts: int
    weights: int
    source: int
    target: int


class WeightedSums(Record):
    """Weighted sums, or moves, in tiles of the innermost dimension."""

    tile: int  # outputs in a tile, and tiles in a row
    tiles: int
    line: int  # input elements that a tile reads along the innermost dimension
    exact: bool  # whether weights are exactly those of the formula
    limit: float  # sums below this share of the greatest element may be too inaccurate
    least: float  # the same, relative to the sum of the magnitudes of its own terms
    integer: bool  # whether results are integers, and their range
    lowest: float
    highest: float
    capacity: int  # maximum number of undecided outputs
    pairs: bool  # whether outputs read at most two elements along the innermost dimension
    twice: bool  # only for moves: whether each element goes to two outputs along the innermost dimension
    local: bool  # whether sums along a line have limits of their own
    region_rows: int  # table rows of the last two dimensions for each index of the second one
    region_columns: int
    near: int  # addresses of the two weights of each output if none has more; 0 if missing
    far: int
    axes = rows(ReadAxis, 4)
    across: ReadAxis


@inner
def reads_of(axis: ReadAxis, out: int) -> tuple[int, int, int]:
    """Returns what an output reads along a dimension: first index, number of taps, and the address of their weights."""
    first, taps = load(axis.first, out, 0), load(axis.taps, out, 0)
    return first, taps, axis.weights + 8 * load(axis.starts, out, 0)


@inner
def weight(address: int, tap: int) -> float:
    return load(address, tap, float64(0.0))


@inner
def reach_of(across: ReadAxis, first: int, count: int) -> tuple[int, int]:
    """Returns the range of indices that a tile reads along the innermost dimension."""
    begin, taps, _ = reads_of(across, first)
    last, taps_of_last, _ = reads_of(across, first + count - 1)
    return min(begin, last), max(begin + taps, last + taps_of_last)
