"""NONZERO_COORDINATES: counts tile by tile, then writes each tile's coordinates after those of the tiles before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool

TILE = 1 << 15
"""Elements in a tile."""


class NonzeroJob(Job):
    """Computes the coordinates of nonzero elements."""

    def __init__(self, plan: Plan) -> None:
        self._sizes = plan.inputs["InputTensor"].sizes
        self._tiles = -(-plan.inputs["InputTensor"].element_count // TILE)
        self._scratch = ScratchBytes(thread=32 * TILE, shared=8 * (self._tiles + 1))

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, rows = inputs["InputTensor"], outputs["OutputCoordinatesTensor"]
        elements: Any = source.reshape(-1) if source.flags.c_contiguous else source.flat
        rows = rows[(0,) * (rows.ndim - 2)]
        ends = np.zeros(self._tiles + 1, np.int64)

        def count(tile: int) -> None:
            ends[tile + 1] = np.count_nonzero(elements[tile * TILE : (tile + 1) * TILE] != 0)

        def write(tile: int) -> None:
            found = np.flatnonzero(elements[tile * TILE : (tile + 1) * TILE] != 0)
            self._write(found, tile * TILE, rows[ends[tile] : ends[tile + 1]])

        pool.each(count, self._tiles, stop, 8)
        np.cumsum(ends, out=ends)
        pool.each(write, self._tiles, stop, 4)
        unused = rows[ends[-1] :]
        tile = TILE // rows.shape[1]

        def clear(begin: int, end: int) -> None:
            unused[begin * tile : end * tile] = 0

        pool.run(clear, -(-unused.shape[0] // tile), 8, stop)
        outputs["OutputCountTensor"][...] = ends[-1]

    def _write(self, found: Array, start: int, rows: Array) -> None:
        """Writes the coordinates of elements found in a tile."""
        places = found.astype(np.uint32)
        places += np.uint32(start)
        columns = rows.shape[1]
        for column, size in zip(reversed(range(columns)), reversed(self._sizes), strict=False):
            quotients = places // np.uint32(size)
            np.subtract(places, quotients * np.uint32(size), out=rows[:, column])
            places = quotients
