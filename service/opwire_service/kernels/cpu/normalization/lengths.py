"""LP_NORMALIZATION: elements divided by the length of their row, the root of its squared norm plus Epsilon."""

from __future__ import annotations

from functools import partial

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop
from ...decimals import FLOAT64
from ...exact import FORMATS
from ...reference.elements import Elements
from ...reference.normalization import length_of
from ...reference.reals import rounded
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from ..run.tiles import TILE
from ..run.undecided import settle
from . import affine
from .lines import Lines, layout_of, lines_of

EXACT_VISITS = 1 << 9
"""Cost of an exact divisor, in element visits."""

_PLAIN = [np.full((), number) for number in (0.0, 1.0, 0.0, 0.0, 0.0)]
"""Parameters of the kernel: nothing is added, and nothing cancels."""

_NEXT_TO_NOTHING = 2.0**-12
"""Share of a negative Epsilon that a squared norm leaves if too much may have cancelled."""


class LengthsJob(Job):
    """Normalizes rows; divisors that a negative Epsilon nearly cancels are computed exactly."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        axes = (plan.attributes.Axis,)
        self._layout = layout_of(plan.inputs["InputTensor"], plan.outputs["OutputTensor"], axes)
        self._squared = plan.attributes.P == 2
        self._epsilon = plan.attributes.Epsilon + 0.0  # removes the sign of zero
        self._of = FORMATS[plan.inputs["InputTensor"].data_type]
        if self._epsilon < 0:  # divisors may all be computed exactly
            self._visits = plan.work + EXACT_VISITS * self._layout.tiles.rows
        self._lines = self._cut()
        if self._lines is None:
            tiles = self._layout.tiles
            of_long_rows = 0 if tiles.whole else 16 * tiles.count
            self._scratch = ScratchBytes(thread=48 * TILE, shared=of_long_rows, units=tiles.count)
        else:
            self._kernels, self._scratch = self._lines.kernels, ScratchBytes(shared=self._lines.scratch_bytes)

    def _cut(self) -> Lines | None:
        if self._epsilon < 0:
            return None
        plan, kind = self._plan, affine.SQUARES if self._squared else affine.MAGNITUDES
        tensors, ones = (plan.inputs["InputTensor"], plan.outputs["OutputTensor"]), [(1,) * len(self._layout.order)] * 5
        return lines_of(self._layout, *tensors, ones, kind=kind, epsilon=self._epsilon)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        if self._lines is None:
            return partial(self._run_tiles, inputs, outputs, pool)
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        return self._lines.bind(source, target, _PLAIN, lambda at, stop: None, find, pool)

    def _run_tiles(self, inputs: Arrays, outputs: Arrays, pool: Pool, stop: Stop) -> None:
        layout, order, tiles = self._layout, self._layout.order, self._layout.tiles
        source, target = inputs["InputTensor"].transpose(order), outputs["OutputTensor"].transpose(order)
        sums = np.empty(0 if tiles.whole else tiles.count)

        def whole(number: int) -> None:
            at = tiles.at(number)
            x = np.array(source[at], np.float64, order="C")
            self._put(x, self._divisor(layout.sums(self._terms(x)), source[at], stop), target[at])

        def parts(number: int) -> None:
            sums[number] = self._terms(source[tiles.at(number)].astype(np.float64)).sum()

        def results(number: int) -> None:
            at = tiles.at(number)
            x = np.array(source[at], np.float64, order="C")
            self._put(x, divisors[number // tiles.tiles_of_row], target[at])

        if tiles.whole:
            pool.each(whole, tiles.count, stop)
            return
        pool.each(parts, tiles.count, stop)
        with np.errstate(all="ignore"):
            totals = sums.reshape(-1, tiles.tiles_of_row).sum(1)
            ones = (1,) * len(order)
            rows = (source[layout.row(row)] for row in range(totals.size))
            divisors = [self._divisor(total.reshape(ones), row, stop) for total, row in zip(totals, rows, strict=True)]
        pool.each(results, tiles.count, stop)

    @staticmethod
    def _put(x: Array, divisor: Array, into: Array) -> None:
        x /= divisor
        into[...] = x
        into += 0  # no zero is negative

    def _terms(self, x: Array) -> Array:
        terms: Array = np.multiply(x, x) if self._squared else np.abs(x)
        return terms

    def _divisor(self, total: Array, rows: Array, stop: Stop) -> Array:
        """Returns the lengths of rows from the sums of their terms."""
        left = (total if self._squared else total * total) + self._epsilon
        divisor: Array = np.sqrt(left)
        everywhere = (slice(None),) * rows.ndim

        def exact(place: tuple[int, ...]) -> object:
            row = Elements(rows[self._layout.whole_row(place, everywhere)], stop)
            return rounded(length_of(row, self._plan, self._of), FLOAT64)

        settle(divisor, np.abs(left) < -self._epsilon * _NEXT_TO_NOTHING, exact, stop)
        return divisor
