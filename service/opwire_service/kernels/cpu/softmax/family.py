"""SOFTMAX and LOG_SOFTMAX: tiles in float64, each element rounded once, guarded by an error bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop, Stopped
from ...reference.softmax import LOG_SOFTMAX, SOFTMAX, axes_of
from ..jit.compiler import Kernel
from ..numbers.undecided import undecided
from ..run.arranged import Arrangement
from ..run.job import Job, KernelStep, ScratchBytes
from ..run.pool import Find, Pool
from ..run.tiles import TILE, Slices
from ..run.undecided import by_row
from .hardmax import HardmaxJob
from .rows import SOFTMAX as SOFTMAX_ROWS
from .rows import Rows, error_of
from .settling import Row

KERNELS: tuple[Kernel, ...] = tuple(SOFTMAX_ROWS.values())

_ERROR = 2.0**-45
"""Relative error of an exponential and the operations on it, without the additions of the sum."""

ROW_VISITS, WIDE_VISITS, WIDE_ROW = 8, 8, 1 << 18
"""Costs of a row and of an element in extended precision, in visits; row length from which all rows need that."""

_ALONE = 1 << 13
"""Elements of a tile that NumPy computes in about the time of a row alone."""

_VISITS_OF_KERNEL = 4
"""Cost of an element in the kernel, in visits."""

_PAIRWISE = 48
"""Rounding errors that affect a term of a contiguous sum in NumPy, which sums pairwise."""

_SMALL_SUM = 1.5
"""Sums below this are the greatest element's 1 and little else; their logarithms are computed from the other terms."""

_LEAST_LOGARITHM = 1e-300
"""Replaces a logarithm that underflows although there are other terms."""


class SoftmaxJob(Job):
    """Computes the softmax of blocks, or its logarithm.

    Args:
        plan: the plan.
        logarithm: whether to compute the logarithm.
    """

    def __init__(self, plan: Plan, *, logarithm: bool) -> None:
        self._layout = Arrangement.of(plan.inputs["InputTensor"], axes_of(plan))
        self._logarithm = logarithm
        self._share = LOG_SOFTMAX if logarithm else SOFTMAX
        tiles = self._layout.tiles
        neighbors = self._layout.neighbors or not tiles.whole
        roundings = _PAIRWISE if neighbors else min(tiles.length, TILE) + _PAIRWISE
        error = _ERROR + roundings * 2.0**-53
        self._error = 4 * error if logarithm else error
        elements = plan.outputs["OutputTensor"].element_count
        of_long_rows = 0 if tiles.whole else 32 * (tiles.count + tiles.rows)
        of_flags = 0
        if tiles.whole and neighbors and not logarithm:
            self._kernels, of_flags = (SOFTMAX_ROWS[plan.inputs["InputTensor"].data_type.dtype.type],), 8 * tiles.rows
        self._scratch = ScratchBytes(thread=64 * TILE, shared=of_long_rows + of_flags, units=tiles.count)
        # The longer a row, the more likely it must be summed in extended precision.
        again = 0 if tiles.whole else WIDE_VISITS * elements * min(tiles.length, WIDE_ROW) // WIDE_ROW
        self._visits = elements + ROW_VISITS * tiles.rows + again

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        order = self._layout.order
        source, target = inputs["InputTensor"].transpose(order), outputs["OutputTensor"].transpose(order)
        by_tiles = partial(self._run_tiles, source, target, pool)
        rows = self._rows(source, target) if self._kernels else None
        if rows is None:
            return by_tiles
        (kernel,), undecided = self._kernels, np.zeros(self._layout.tiles.rows, np.int64)
        step = KernelStep(kernel, rows, undecided.size, _VISITS_OF_KERNEL * rows.length)
        compute = step.bind(source.ctypes.data, target.ctypes.data, undecided.ctypes.data, find, pool)
        return partial(self._run_rows, compute, undecided, source, target, by_tiles)

    def _rows(self, source: Array, target: Array) -> Rows | None:
        """Returns the rows of contiguous elements that the tensors consist of, or None if they do not."""
        tiles, pitches = self._layout.tiles, []
        for array in (source, target):
            try:
                rows = array.reshape(tiles.rows, tiles.length, copy=False)
            except ValueError:
                return None
            if tiles.length > 1 and rows.strides[1] != rows.itemsize:
                return None
            pitches.append(rows.strides[0] // rows.itemsize)
        return Rows(length=tiles.length, source_pitch=pitches[0], target_pitch=pitches[1], error=error_of(tiles.length))

    def _run_rows(
        self, compute: Bound, undecided: Array, source: Array, target: Array, by_tiles: Bound, stop: Stop
    ) -> None:
        """Computes rows in machine code, and those that it leaves undecided again by NumPy."""
        compute(stop)
        rows = np.flatnonzero(undecided)
        if rows.size * _ALONE > source.size:
            by_tiles(stop)
            return
        kept = source.shape[: source.ndim - len(self._layout.axes)]
        for row in rows.tolist():
            if stop():
                raise Stopped
            place = [slice(int(i), int(i) + 1) for i in np.unravel_index(row, kept)] if kept else []
            with np.errstate(all="ignore"):
                self._whole_rows(source, target, (*place, *(slice(None) for _ in self._layout.axes)), stop)

    def _run_tiles(self, source: Array, target: Array, pool: Pool, stop: Stop) -> None:
        tiles = self._layout.tiles
        if not tiles.whole:
            self._run_long(source, target, pool, stop)
            return

        def piece(number: int) -> None:
            self._whole_rows(source, target, tiles.at(number), stop)

        pool.each(piece, tiles.count, stop)

    def _whole_rows(self, source: Array, target: Array, at: Slices, stop: Stop) -> None:
        axes, part = self._layout.axes, source[at]
        x = np.array(part, np.float64, order="C")
        greatest = x.max(axes, keepdims=True)
        x -= greatest
        powers = np.exp(x)
        total = self._layout.sums(powers)
        if self._logarithm:
            x -= self._logarithms(x, powers, total)
        else:
            x = np.divide(powers, total, out=powers)
        self._put(x, source, target, at, stop)

    def _logarithms(self, x: Array, powers: Array, total: Array) -> Array:
        """Returns the logarithms of the sums, accurate close to 0 too."""
        logarithms: Array = np.log(total)
        if (total < _SMALL_SUM).any():  # some may be NaN
            axes = self._layout.axes
            is_greatest = x == 0
            others = np.where(is_greatest, 0.0, powers).sum(axes, keepdims=True)
            others += is_greatest.sum(axes, keepdims=True) - 1
            finite = (x > -np.inf).sum(axes, keepdims=True)
            logarithms = np.where(total < _SMALL_SUM, _logarithm(others, finite), logarithms)
        return logarithms

    def _put(self, x: Array, source: Array, target: Array, at: Slices, stop: Stop, known: Row | None = None) -> None:
        """Rounds results into the output; settles undecided ones with their whole rows."""
        into = target[at]
        into[...] = x
        left = np.zeros(x.size, np.bool_)
        left[undecided(x, self._error, into.dtype)] = True
        for row, index in by_row(left.reshape(x.shape), self._layout, at, stop):
            settled = known or Row(source[row], self._share, logarithm=self._logarithm, stop=stop)
            into[index] = settled.results(source[at][index])

    def _run_long(self, source: Array, target: Array, pool: Pool, stop: Stop) -> None:
        """Computes rows of several tiles: first their greatest elements, then their sums, then the results."""
        tiles, per_row = self._layout.tiles, self._layout.tiles.tiles_of_row
        greatest, others, most_often, finite = (np.empty(tiles.count) for _ in range(4))

        def extremes(number: int) -> None:
            part = source[tiles.at(number)]
            greatest[number] = part.max()
            finite[number] = np.count_nonzero(part > -np.inf)

        def sums(number: int) -> None:
            x = source[tiles.at(number)].astype(np.float64).reshape(-1)
            x -= most[number // per_row]
            is_greatest = x == 0
            most_often[number] = np.count_nonzero(is_greatest)
            np.exp(x, out=x)[is_greatest] = 0
            others[number] = x.sum()

        known = [
            Row(source[self._layout.row(row)], self._share, logarithm=self._logarithm, stop=stop)
            for row in range(tiles.rows)
        ]

        def results(number: int) -> None:
            at, row = tiles.at(number), number // per_row
            x = np.array(source[at], np.float64, order="C")
            x -= most[row]
            if self._logarithm:
                x -= logarithms[row]
            else:
                np.exp(x, out=x)
                x /= 1 + rest[row]
            self._put(x, source, target, at, stop, known[row])

        pool.each(extremes, tiles.count, stop)
        most = greatest.reshape(-1, per_row).max(1)
        pool.each(sums, tiles.count, stop)
        with np.errstate(all="ignore"):
            rest = others.reshape(-1, per_row).sum(1) + (most_often.reshape(-1, per_row).sum(1) - 1)
            logarithms = _logarithm(rest, finite.reshape(-1, per_row).sum(1))
        pool.each(results, tiles.count, stop)


def _logarithm(others: Array, finite: Array) -> Array:
    """Returns the logarithm of 1 plus the other terms: never 0 if there are any."""
    found: Array = np.log1p(others)
    return np.where((found < _LEAST_LOGARITHM) & (finite > 1), _LEAST_LOGARITHM, found)


PREPARE: dict[str, Callable[[Plan], Job]] = {
    **dict.fromkeys(("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1"), partial(SoftmaxJob, logarithm=False)),
    **dict.fromkeys(("ACTIVATION_LOG_SOFTMAX", "ACTIVATION_LOG_SOFTMAX1"), partial(SoftmaxJob, logarithm=True)),
    **dict.fromkeys(("ACTIVATION_HARDMAX", "ACTIVATION_HARDMAX1"), HardmaxJob),
}
