"""Normalizations by statistics of their own input: mean and variance of rows first, then all elements in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from math import prod
from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop
from ...activation import activated
from ...exact import FORMATS
from ...formulas.resolve import as_fused
from ...reference.elements import Elements
from ...reference.moments import moments
from ...reference.normalization import axes_of, normalized, statistics_of, uses
from ...reference.reals import Real, real, rounded
from ..jit.compiler import Kernel
from ..run.arranged import part_of
from ..run.job import Job
from ..run.pool import Find, Pool
from ..run.tiles import TILE, Slices
from . import affine
from .exactly import PIECE_BYTES, exact_results, in_pieces
from .lines import Lines, layout_of, lines_of
from .moments import roundings
from .rows import RowMoments, long_rows, rows_of

_PAIRWISE = 48
"""Rounding errors that affect a term of a contiguous sum in NumPy, which sums pairwise."""

_OF_LONG_ROW = 1024
"""Memory for the statistics of a row of several tiles, in bytes; they are computed twice, the second time exactly."""

_ABOVE = 1 + 2.0**-50
"""Factor slightly above 1 that raises limits, because results equal to a limit are doubtful too."""

_Known = dict[int, tuple[Real, Real]]
"""Exact mean and divisor of a tile's rows, by row number within the tile."""


class _Tensors(NamedTuple):
    """The arranged tensors; None if absent."""

    source: Array
    target: Array
    scale: Array | None
    bias: Array | None
    added: Array | None

    @property
    def summands(self) -> list[Array]:
        return [summand for summand in (self.bias, self.added) if summand is not None]


class StatisticsJob(Job):
    """Normalizes by mean, variance, both, or neither."""

    def __init__(self, plan: Plan) -> None:
        desc = plan.inputs["InputTensor"]
        self._plan = plan
        self._layout = layout_of(desc, plan.outputs["OutputTensor"], axes_of(plan))
        self._use_mean, self._use_variance = uses(plan)
        self._of = FORMATS[desc.data_type]
        tiles = self._layout.tiles
        neighbors = self._layout.neighbors or not tiles.whole
        summed = _PAIRWISE if neighbors else min(tiles.length, TILE) + _PAIRWISE
        if neighbors and tiles.whole:
            summed = max(summed, roundings(tiles.length))
        # Results below these shares of the scale and the bias may be off by more than half an ULP.
        units = 2.0 ** (self._of.fraction_bits + 2)
        self._of_scale, self._of_bias = summed * 2.0**-53 * units, 4 * 2.0**-53 * units

    @cached_property
    def _lines(self) -> Lines | None:
        """Lines for the kernel: rows contiguous in memory, of more than one element, and fewer parameters."""
        plan, order = self._plan, self._layout.order
        is_plain = plan.attributes.FusedActivation is None and "FusedAddTensor" not in plan.inputs
        if not is_plain or len(plan.outputs) > 1 or not self._layout.axes:
            return None
        scale, bias = (
            tuple(1 if desc is None or desc.element_strides[i] == 0 else desc.sizes[i] for i in order)
            for desc in (plan.inputs.get(f"{name}Tensor") for name in ("Scale", "Bias"))
        )
        return lines_of(
            self._layout,
            plan.inputs["InputTensor"],
            plan.outputs["OutputTensor"],
            ((1,) * len(order), scale, bias, scale, bias),
            kind=affine.MOMENTS,
            uses=affine.MEAN * self._use_mean + affine.VARIANCE * self._use_variance,
            epsilon=plan.attributes.Epsilon,
        )

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return () if self._lines is None else self._lines.kernels

    def scratch_bytes(self, threads: int) -> int:
        tiles = self._layout.tiles
        of_long_rows = 0 if tiles.whole else 64 * tiles.count + _OF_LONG_ROW * tiles.rows
        by_lines = 0 if self._lines is None else self._lines.scratch_bytes
        return (128 * TILE + PIECE_BYTES) * min(threads, tiles.count) + of_long_rows + by_lines

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        self.bind(inputs, outputs, find, pool)(stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        arranged = self._layout.arranged
        others = (inputs.get(f"{name}Tensor") for name in ("Scale", "Bias", "FusedAdd"))
        order = self._layout.order
        tensors = _Tensors(
            inputs["InputTensor"].transpose(order),
            outputs["OutputTensor"].transpose(order),
            *(None if other is None else arranged(other) for other in others),
        )
        statistics = {name: array.transpose(order) for name, array in outputs.items() if name != "OutputTensor"}
        if self._lines is None:
            way = self._run_whole if self._layout.tiles.whole else self._run_long
            return partial(way, tensors, statistics, pool)
        scale, bias = (np.zeros(1 if array is None else array.shape) for array in (tensors.scale, tensors.bias))
        numbers = [np.zeros(1), scale, bias, np.zeros_like(scale), np.zeros_like(bias)]
        again, renew = partial(self._rows, tensors, statistics), partial(self._renew, numbers, tensors)
        bound = self._lines.bind(*tensors[:2], numbers, again, find, pool)
        if tensors.scale is None and tensors.bias is None:
            renew()
            return bound
        by_tiles = partial(self._run_whole, tensors, statistics, pool)

        def run(stop: Stop) -> None:
            renew()
            # The kernel does not tell deviations whose sign is uncertain.
            (by_tiles if np.isinf(numbers[1]).any() else bound)(stop)

        return run

    def _renew(self, numbers: list[Array], tensors: _Tensors) -> None:
        """Writes the kernel's parameters."""
        _, scale, bias, of_scale, of_bias = numbers
        with np.errstate(all="ignore"):
            scale[...] = 1 if tensors.scale is None else tensors.scale
            bias[...] = 0 if tensors.bias is None else tensors.bias
            np.multiply(np.abs(scale, out=of_scale), self._of_scale * _ABOVE, out=of_scale)
            np.multiply(np.abs(bias, out=of_bias), self._of_bias * _ABOVE, out=of_bias)

    def _run_whole(self, tensors: _Tensors, statistics: Mapping[str, Array], pool: Pool, stop: Stop) -> None:
        layout = self._layout

        def piece(begin: int, end: int) -> None:
            for number in range(begin, end):
                self._rows(tensors, statistics, layout.tiles.at(number), stop)

        pool.run(piece, layout.tiles.count, 1, stop)

    def _rows(self, tensors: _Tensors, statistics: Mapping[str, Array], at: Slices, stop: Stop) -> None:
        """Normalizes whole rows."""
        with np.errstate(all="ignore"):
            x = np.array(tensors.source[at], np.float64, order="C")
            found = rows_of(x, self._layout, about_mean=self._use_mean)
            self._put_statistics(found, tensors.source, statistics, at, stop)
            self._finish(x, found, tensors, at, {}, stop)

    def _run_long(self, tensors: _Tensors, statistics: Mapping[str, Array], pool: Pool, stop: Stop) -> None:
        layout, per_row = self._layout, self._layout.tiles.tiles_of_row
        every = long_rows(tensors.source, layout, pool, stop, about_mean=self._use_mean)
        ones = (1,) * len(layout.order)
        known: list[_Known] = [{} for _ in range(layout.tiles.rows)]

        def row(number: int) -> RowMoments:
            return RowMoments(*(np.full(ones, values[number]) for values in every))

        def piece(begin: int, end: int) -> None:
            with np.errstate(all="ignore"):
                for number in range(begin, end):
                    at, found = layout.tiles.at(number), row(number // per_row)
                    x = np.array(tensors.source[at], np.float64, order="C")
                    x -= found.mean
                    x -= found.rest
                    self._finish(x, found, tensors, at, known[number // per_row], stop)

        for number in range(layout.tiles.rows if statistics else 0):
            self._put_statistics(row(number), tensors.source, statistics, layout.row(number), stop)
        pool.run(piece, layout.tiles.count, 1, stop)

    def _put_statistics(
        self, found: RowMoments, source: Array, statistics: Mapping[str, Array], at: Slices, stop: Stop
    ) -> None:
        """Writes means and variances, if they are outputs."""
        if not statistics:
            return
        means, variances = (part_of(statistics[f"Output{name}Tensor"], at) for name in ("Mean", "Variance"))
        means[...] = found.mean + found.rest
        variances[...] = found.spread
        doubtful = np.abs(found.mean) <= np.sqrt(found.spread) * self._of_scale
        for place in map(tuple, np.argwhere(doubtful).tolist()):
            row = self._row_at(place, at)
            means[place] = rounded(moments(Elements(source[row], stop), self._of).mean, self._of)

    def _finish(self, x: Array, found: RowMoments, tensors: _Tensors, at: Slices, known: _Known, stop: Stop) -> None:
        """Computes the output from deviations; results close to 0 relative to their terms are recomputed exactly."""
        factor, bias, limit = self._parameters(found, tensors, at)
        near = self._without_sign(x, found, factor)
        x *= factor
        x += bias
        # Element by element: with minima and maxima, a NaN in one row would decide about the others.
        near = near | (np.abs(x) < limit)
        if near.any():
            self._mend(x, near, tensors, at, known, stop)
        into = tensors.target[at]
        into[...] = activated(as_fused(self._plan.attributes.FusedActivation), x)

    def _without_sign(self, x: Array, found: RowMoments, factor: Array) -> Array:
        """Returns which deviations are too inaccurate to have a sign, which is all that an infinite factor leaves."""
        is_infinite: Array = np.isinf(factor) & (found.spread > 0) & self._use_mean
        return is_infinite & (np.abs(x) <= np.sqrt(found.spread) * self._of_scale) if is_infinite.any() else is_infinite

    def _parameters(self, found: RowMoments, tensors: _Tensors, at: Slices) -> tuple[Array, Array, Array]:
        """Returns the factor of deviations, the summand, and the magnitude below which results are doubtful."""
        factor = np.ones_like(found.spread)
        if self._use_variance:
            factor = 1 / np.sqrt(found.spread + self._plan.attributes.Epsilon)
        # Without the mean, nothing cancels in deviations.
        size = np.sqrt(found.spread) * factor if self._use_mean else np.zeros_like(found.spread)
        if tensors.scale is not None:
            scale = part_of(tensors.scale, at).astype(np.float64)
            factor, size = factor * scale, size * np.abs(scale)
        limit = size * (self._of_scale * _ABOVE)
        terms = [part_of(summand, at).astype(np.float64) for summand in tensors.summands]
        for term in terms:
            limit = limit + np.abs(term) * (self._of_bias * _ABOVE)
        return factor, sum(terms[1:], terms[0]) if terms else np.zeros((1,) * factor.ndim), limit

    def _mend(self, x: Array, near: Array, tensors: _Tensors, at: Slices, known: _Known, stop: Stop) -> None:
        sizes = tuple(1 if i in self._layout.axes else size for i, size in enumerate(x.shape))
        rows = np.broadcast_to(np.arange(prod(sizes)).reshape(sizes), x.shape)[near]
        by_row = np.argsort(rows, kind="stable")
        doubtful, rows = np.flatnonzero(near)[by_row], rows[by_row]
        for part in in_pieces(doubtful.size, stop):
            index = np.unravel_index(doubtful[part], x.shape)
            scales = np.ones(index[0].size)
            if tensors.scale is not None:
                scales = np.broadcast_to(part_of(tensors.scale, at), x.shape)[index]
            summands = (np.broadcast_to(part_of(each, at), x.shape)[index] for each in tensors.summands)
            columns = [rows[part], tensors.source[at][index], scales, *summands]
            self._learn(known, np.unique(rows[part]).tolist(), sizes, tensors.source, at, stop)
            x[index] = exact_results(columns, partial(_exact, known))

    def _learn(
        self, known: _Known, rows: list[int], sizes: tuple[int, ...], source: Array, at: Slices, stop: Stop
    ) -> None:
        """Adds the exact statistics of a tile's rows, and drops those of rows that are no longer needed."""
        for past in [row for row in known if row < rows[0]]:
            del known[past]
        for row in rows:
            if row not in known:
                place = tuple(map(int, np.unravel_index(row, sizes)))
                elements = Elements(source[self._row_at(place, at)], stop)
                known[row] = statistics_of(moments(elements, self._of), self._plan)

    def _row_at(self, place: tuple[int, ...], at: Slices) -> Slices:
        """Returns the slices of the whole row that contains an element of a tile."""
        return tuple(
            slice(None) if i in self._layout.axes else slice((part.start or 0) + k, (part.start or 0) + k + 1)
            for i, (k, part) in enumerate(zip(place, at, strict=True))
        )


def _exact(known: _Known, row: float, value: float, scale: float, *summands: float) -> Real:
    mean, divisor = known[int(row)]
    return normalized(value, mean, divisor, real(scale), *map(real, summands or (0.0,)))
