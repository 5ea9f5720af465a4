"""HARDMAX: 1 at the first maximum of each block, or at its first element if that is NaN, and 0 elsewhere."""

from __future__ import annotations

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, packed_strides

from ....execution import Arrays, Stop
from ...reference.softmax import axes_of
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from ..run.tiles import TILE, Tiles

ROW_VISITS = 4
"""Overhead of a row, in visits."""


class HardmaxJob(Job):
    """Computes blocks, or parts of long ones, in row-major order."""

    def __init__(self, plan: Plan) -> None:
        sizes = plan.inputs["InputTensor"].sizes
        self._axes = axes_of(plan)
        self._tiles = tiles = Tiles(sizes, packed_strides(sizes), self._axes)
        of_long_rows = 0 if tiles.whole else 32 * tiles.count
        self._scratch = ScratchBytes(thread=24 * TILE, shared=of_long_rows, units=tiles.count)
        self._visits = tiles.rows * (tiles.length + ROW_VISITS)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target, tiles = inputs["InputTensor"], outputs["OutputTensor"], self._tiles
        if not tiles.whole:
            self._run_long(source, target, pool, stop)
            return

        def rows(number: int) -> None:
            at = tiles.at(number)
            view, into = self._last(source[at]), self._last(target[at])
            flat = view.reshape(-1, tiles.length)
            marks = np.zeros(flat.shape, target.dtype)
            np.put_along_axis(marks, _winners(flat)[:, None], 1, 1)
            into[...] = marks.reshape(into.shape)

        pool.each(rows, tiles.count, stop)

    def _last(self, view: Array) -> Array:
        """Returns a view with the block's axes last."""
        kept = [i for i in range(view.ndim) if i not in self._axes]
        return view.transpose(*kept, *sorted(self._axes))

    def _run_long(self, source: Array, target: Array, pool: Pool, stop: Stop) -> None:
        tiles, per_row = self._tiles, self._tiles.tiles_of_row
        values = np.empty(tiles.count, np.float64)
        places = np.empty(tiles.count, np.int64)

        def extremes(number: int) -> None:
            flat = source[tiles.at(number)].reshape(1, -1)
            places[number] = _winners(flat)[0] if number % per_row == 0 else _greatest(flat)[0]
            values[number] = flat[0, places[number]]

        def zeros(number: int) -> None:
            part = target[tiles.at(number)]
            part[...] = 0
            if number in winners:
                part[np.unravel_index(places[number], part.shape)] = 1

        pool.each(extremes, tiles.count, stop)
        rows = values.reshape(-1, per_row)
        winners = set((_winners(rows) + per_row * np.arange(rows.shape[0])).tolist())
        pool.each(zeros, tiles.count, stop)


def _winners(rows: Array) -> Array:
    """Returns the position of each row's first maximum that is a number; 0 if the row begins with NaN."""
    return np.where(np.isnan(rows[:, 0]), 0, _greatest(rows))


def _greatest(rows: Array) -> Array:
    """Returns the position of each row's first maximum that is a number; 0 if there is none."""
    numbers = rows == rows
    if numbers.all():
        first: Array = rows.argmax(1)
        return first
    known = np.where(numbers, rows, -np.inf)
    found = known.argmax(1)
    # Where the maximum is negative infinity, the first number.
    return np.where(known.max(1) == -np.inf, numbers.argmax(1), found)
