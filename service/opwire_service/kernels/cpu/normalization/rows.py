"""Means and variances of rows in float64, close enough to their exact values for results within one ULP."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opwire.tensor import Array

from ....execution import Stop
from ..run.arranged import Arrangement
from ..run.pool import Pool


class RowMoments(NamedTuple):
    """Moments of rows, as arrays that broadcast to the elements.

    Attributes:
        mean: the nearest float64 to the mean, or an adjacent one.
        rest: remainder of the mean.
        spread: mean of the squared deviations from the mean or from 0.
    """

    mean: Array
    rest: Array
    spread: Array


def rows_of(x: Array, layout: Arrangement, *, about_mean: bool) -> RowMoments:
    """Returns the moments of a tile's whole rows; replaces ``x`` with the deviations."""
    count = layout.tiles.length
    shape = tuple(1 if i in layout.axes else size for i, size in enumerate(x.shape))
    mean, rest = np.zeros(shape), np.zeros(shape)
    if about_mean:
        mean = (layout.sums(x) + 0.0) / count  # no sum is -0
        x -= mean
        rest = _finite(layout.sums(x) / count)
        x -= rest
    spread = layout.sums(np.multiply(x, x)) / count
    return RowMoments(mean, rest, spread)


def _finite(rest: Array) -> Array:
    return np.where(np.isfinite(rest), rest, 0.0)


def long_rows(source: Array, layout: Arrangement, pool: Pool, stop: Stop, *, about_mean: bool) -> RowMoments:
    """Returns the moments of rows of several tiles each, one number per row."""
    tiles, per_row = layout.tiles, layout.tiles.tiles_of_row
    sums, squares = np.empty(tiles.count), np.empty(tiles.count)
    mean = np.zeros(tiles.rows)

    def totals(number: int) -> None:
        sums[number] = source[tiles.at(number)].astype(np.float64).sum()

    def deviations(number: int) -> None:
        x = source[tiles.at(number)].astype(np.float64)
        x -= mean[number // per_row]
        sums[number] = x.sum()
        squares[number] = np.multiply(x, x, out=x).sum()

    with np.errstate(all="ignore"):
        if about_mean:
            pool.each(totals, tiles.count, stop)
            mean = (sums.reshape(-1, per_row).sum(1) + 0.0) / tiles.length
        pool.each(deviations, tiles.count, stop)
        rest = np.zeros(tiles.rows)
        if about_mean:
            rest = _finite(sums.reshape(-1, per_row).sum(1) / tiles.length)
        spread = squares.reshape(-1, per_row).sum(1) / tiles.length - rest * rest
    return RowMoments(mean, rest, spread)
