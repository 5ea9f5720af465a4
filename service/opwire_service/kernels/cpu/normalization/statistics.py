"""Normalizations by statistics of their own input: mean and variance of rows first, then all elements in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
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
from ..run.arranged import part_of
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from ..run.tiles import TILE, Slices
from ..run.undecided import by_row, settle
from . import affine
from .lines import Lines, layout_of, lines_of
from .moments import roundings
from .rows import RowMoments, long_rows, rows_of
from .settling import PIECE, PIECE_BYTES, exact_results

_PAIRWISE = 48
"""Rounding errors that affect a term of a contiguous sum in NumPy, which sums pairwise."""

_OF_LONG_ROW = 1024
"""Memory for the statistics of a row of several tiles, in bytes; they are computed twice, the second time exactly."""

_ABOVE = 1 + 2.0**-50
"""Factor slightly above 1 that raises limits, because results equal to a limit are undecided too."""

_Statistics = Callable[[Slices], tuple[Real, Real]]
"""Returns the exact mean and divisor of a row."""


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
        self._lines = lines = self._cut()
        by_lines = 0 if lines is None else lines.scratch_bytes
        self._kernels = () if lines is None else lines.kernels
        of_long_rows = 0 if tiles.whole else 64 * tiles.count + _OF_LONG_ROW * tiles.rows
        self._scratch = ScratchBytes(128 * TILE + PIECE_BYTES, shared=of_long_rows + by_lines, units=tiles.count)

    def _cut(self) -> Lines | None:
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
            # The kernel does not tell deviations whose sign is undecided.
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

        def piece(number: int) -> None:
            self._rows(tensors, statistics, layout.tiles.at(number), stop)

        pool.each(piece, layout.tiles.count, stop)

    @np.errstate(all="ignore")
    def _rows(self, tensors: _Tensors, statistics: Mapping[str, Array], at: Slices, stop: Stop) -> None:
        """Normalizes whole rows."""
        x = np.array(tensors.source[at], np.float64, order="C")
        found = rows_of(x, self._layout, about_mean=self._use_mean)
        self._put_statistics(found, tensors.source, statistics, at, stop)
        self._finish(x, found, tensors, at, partial(self._exact_statistics, tensors.source, stop), stop)

    def _run_long(self, tensors: _Tensors, statistics: Mapping[str, Array], pool: Pool, stop: Stop) -> None:
        layout, per_row = self._layout, self._layout.tiles.tiles_of_row
        every = long_rows(tensors.source, layout, pool, stop, about_mean=self._use_mean)
        ones = (1,) * len(layout.order)
        known: dict[int, tuple[Real, Real]] = {}

        def row(number: int) -> RowMoments:
            return RowMoments(*(np.full(ones, values[number]) for values in every))

        def exact(number: int, row: Slices) -> tuple[Real, Real]:
            if number not in known:
                known[number] = self._exact_statistics(tensors.source, stop, row)
            return known[number]

        def piece(number: int) -> None:
            at, found = layout.tiles.at(number), row(number // per_row)
            x = np.array(tensors.source[at], np.float64, order="C")
            x -= found.mean
            x -= found.rest
            self._finish(x, found, tensors, at, partial(exact, number // per_row), stop)

        for number in range(layout.tiles.rows if statistics else 0):
            self._put_statistics(row(number), tensors.source, statistics, layout.row(number), stop)
        pool.each(piece, layout.tiles.count, stop)

    def _put_statistics(
        self, found: RowMoments, source: Array, statistics: Mapping[str, Array], at: Slices, stop: Stop
    ) -> None:
        """Writes means and variances, if they are outputs."""
        if not statistics:
            return
        means, variances = (part_of(statistics[f"Output{name}Tensor"], at) for name in ("Mean", "Variance"))
        means[...] = found.mean + found.rest
        variances[...] = found.spread

        def exact(place: tuple[int, ...]) -> object:
            row = self._layout.whole_row(place, at)
            return rounded(moments(Elements(source[row], stop), self._of).mean, self._of)

        settle(means, np.abs(found.mean) <= np.sqrt(found.spread) * self._of_scale, exact, stop)

    def _finish(
        self, x: Array, found: RowMoments, tensors: _Tensors, at: Slices, statistics: _Statistics, stop: Stop
    ) -> None:
        """Computes the output from deviations, and settles results close to 0 relative to their terms."""
        factor, bias, limit = self._parameters(found, tensors, at)
        near = self._without_sign(x, found, factor)
        x *= factor
        x += bias
        # Element by element: with minima and maxima, a NaN in one row would decide about the others.
        undecided = near | (np.abs(x) < limit)
        others = (
            np.broadcast_to(part_of(each, at), x.shape)
            for each in (tensors.scale, *tensors.summands)
            if each is not None
        )
        columns = [tensors.source[at], *others]
        for row, index in by_row(undecided, self._layout, at, stop):
            exact = partial(self._exact, *statistics(row))
            for begin in range(0, index[0].size, PIECE):
                piece = tuple(each[begin : begin + PIECE] for each in index)
                x[piece] = exact_results([column[piece] for column in columns], exact)
        into = tensors.target[at]
        into[...] = activated(as_fused(self._plan.attributes.FusedActivation), x)

    def _without_sign(self, x: Array, found: RowMoments, factor: Array) -> Array:
        """Returns which deviations are too inaccurate to have a sign, which is all that an infinite factor leaves."""
        is_infinite: Array = np.isinf(factor) & (found.spread > 0) & self._use_mean
        return is_infinite & (np.abs(x) <= np.sqrt(found.spread) * self._of_scale) if is_infinite.any() else is_infinite

    def _parameters(self, found: RowMoments, tensors: _Tensors, at: Slices) -> tuple[Array, Array, Array]:
        """Returns the factor of deviations, the summand, and the magnitude below which results are undecided."""
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

    def _exact_statistics(self, source: Array, stop: Stop, row: Slices) -> tuple[Real, Real]:
        return statistics_of(moments(Elements(source[row], stop), self._of), self._plan)

    def _exact(self, mean: Real, divisor: Real, value: float, *others: float) -> Real:
        scale, *summands = others if "ScaleTensor" in self._plan.inputs else (1.0, *others)
        return normalized(value, mean, divisor, real(scale), *map(real, summands or (0.0,)))
