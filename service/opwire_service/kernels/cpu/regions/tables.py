"""Tables of what each output of each region reads along one dimension."""

from __future__ import annotations

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ...sampling import Rounding, extents, is_linear, nearest_indices, neighbors, offsets
from ..resampling.tables import WeightTable

SAMPLES = 1 << 18
"""Maximum number of samples of some regions along one dimension."""


def region_table(plan: Plan, corners: Array, axis: int, size: int, outputs: int) -> tuple[WeightTable, Array] | None:
    """Returns a table with ``outputs`` rows per region, and whether all samples of each region are inside the input.

    Returns None if the regions have too many samples, or read too much of the input.
    """
    start, extent, samples = extents(plan.attributes, corners, axis, outputs)
    counts = samples * outputs
    if float(samples.astype(np.float64).sum()) * outputs > SAMPLES:
        return None
    into, out, to_corners = offsets(plan.attributes)
    region = np.repeat(np.arange(counts.size), counts)
    sample = np.arange(region.size) - (np.cumsum(counts) - counts)[region]
    steps = (counts - to_corners).astype(np.float64)[region]
    with np.errstate(all="ignore"):
        moved = np.where(steps == 0, extent[region] / 2, (sample - out) * extent[region] / steps)
        coordinates = moved + start[region] - into
    inside = (coordinates >= -1.0) & (coordinates < size)
    if is_linear(plan.attributes):
        first, part = neighbors(coordinates, size)
    else:
        first = nearest_indices(coordinates, size, Rounding.HALVES_UP)
        part = np.zeros(first.size)
    row = region * outputs + sample // samples[region]
    table = _table(first, part, inside, row, counts.size * outputs, np.repeat(samples, outputs))
    if table is None:
        return None
    all_inside = np.ones(counts.size, bool)
    np.logical_and.at(all_inside, region, inside)
    return table, all_inside


def _table(first: Array, part: Array, inside: Array, row: Array, rows: int, samples: Array) -> WeightTable | None:
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    far = np.iinfo(np.int64).max // 2
    low = np.minimum.reduceat(np.where(inside, first, far), begins)
    high = np.maximum.reduceat(np.where(inside, first + (part > 0), -1), begins)
    taps = np.maximum(high - low + 1, 0)
    low = np.where(taps > 0, low, 0)
    if int(taps.sum()) > SAMPLES:
        return None
    starts = np.cumsum(taps) - taps
    total = int(taps.sum())
    place = (starts[row] + first - low[row])[inside]
    share = part[inside]
    weights = np.bincount(place, 1.0 - share, total).astype(np.float64)  # bincount of nothing returns integers
    weights += np.bincount((place + 1)[share > 0], share[share > 0], total)
    weights /= np.repeat(samples, taps)
    return WeightTable(low, taps, starts, np.append(weights, (0.0, 0.0)), False)
