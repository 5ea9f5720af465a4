"""Gradients of batch normalizations: sums of groups first, then all elements in one pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop
from ...exact import FORMATS
from ...reference.batch_gradients import Group, by_statistics_of_the_batch, summed
from ...reference.reals import Real, add, divide, real, root, rounded
from ..run.arranged import Arrangement, part_of
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from ..run.tiles import TILE, Slices
from ..run.undecided import by_row

_STATISTICS = ("Mean", "Variance", "Scale")
_SUMS = 4
"""Number of sums of a group; see ``_GradientSums``."""


class _GradientSums(NamedTuple):
    """Sums of groups: of gradients, of their products with deviations from the mean, and of the magnitudes of both."""

    gradients: Array
    products: Array
    gradient_sizes: Array
    product_sizes: Array


class GradientsJob(Job):
    """Groups are rows of the arrangement; sums and elements in which too much cancels are recomputed exactly."""

    def __init__(self, plan: Plan) -> None:
        desc, statistics = plan.inputs["InputTensor"], plan.inputs["MeanTensor"]
        self._epsilon = plan.attributes.Epsilon + 0.0  # removes the sign of zero
        self._by_batch = "TRAINING" in plan.operator.name
        self._layout = Arrangement.of(desc, [i for i, size in enumerate(statistics.sizes) if size == 1])
        self._of = FORMATS[desc.data_type]
        tiles = self._layout.tiles
        roundings = 64 if self._layout.neighbors or not tiles.whole else min(tiles.length, TILE) + 64
        sums = 0 if tiles.whole else 16 * _SUMS * tiles.count
        self._scratch = ScratchBytes(thread=192 * TILE, shared=(4 << 20) + sums, units=tiles.count)
        # Results smaller than this share of their terms are too inaccurate.
        self._limit = roundings * 2.0**-53 * 2.0 ** (self._of.fraction_bits + 2)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        order, tiles = self._layout.order, self._layout.tiles
        arrays = {name: array.transpose(order) for name, array in (*inputs.items(), *outputs.items())}
        every = None if tiles.whole else self._long_sums(arrays, pool, stop)

        def piece(number: int) -> None:
            self._tile(arrays, tiles.at(number), self._row_of(every, number), stop)

        with np.errstate(all="ignore"):
            for row in range(0 if every is None else tiles.rows):
                sums = self._row_of(every, row * tiles.tiles_of_row)
                assert sums is not None
                self._put_sums(arrays, self._layout.row(row), sums, stop)
        pool.each(piece, tiles.count, stop)

    def _row_of(self, every: Array | None, number: int) -> _GradientSums | None:
        if every is None:
            return None
        ones = (1,) * len(self._layout.order)
        return _GradientSums(*(np.full(ones, value) for value in every[:, number // self._layout.tiles.tiles_of_row]))

    def _deviations(self, arrays: Arrays, at: Slices) -> tuple[Array, Array]:
        """Returns a tile's deviations from the given means, and its gradients."""
        x, g = (np.array(arrays[name][at], np.float64, order="C") for name in ("InputTensor", "InputGradientTensor"))
        x -= part_of(arrays["MeanTensor"], at).astype(np.float64)
        return x, g

    @staticmethod
    def _terms(x: Array, g: Array) -> tuple[Array, ...]:
        """Returns the terms of the sums, in the order of ``_GradientSums``."""
        products = x * g
        return g, products, np.abs(g), np.abs(products)

    def _long_sums(self, arrays: Arrays, pool: Pool, stop: Stop) -> Array:
        tiles = self._layout.tiles
        parts = np.empty((_SUMS, tiles.count))

        def piece(number: int) -> None:
            at = tiles.at(number)
            terms = self._terms(*self._deviations(arrays, at))
            parts[:, number] = [each.sum() for each in terms]

        pool.each(piece, tiles.count, stop)
        with np.errstate(all="ignore"):
            sums: Array = parts.reshape(_SUMS, tiles.rows, -1).sum(2) + 0.0  # no sum is -0
        return sums

    def _tile(self, arrays: Arrays, at: Slices, sums: _GradientSums | None, stop: Stop) -> None:
        x, g = self._deviations(arrays, at)
        if sums is None:
            sums = _GradientSums(*(self._layout.sums(each) + 0.0 for each in self._terms(x, g)))
            self._put_sums(arrays, at, sums, stop)
        variance, scale = (part_of(arrays[f"{name}Tensor"], at).astype(np.float64) for name in _STATISTICS[1:])
        variance += self._epsilon
        factor = scale / np.sqrt(variance)
        into = arrays["OutputGradientTensor"][at]
        if not self._by_batch:
            into[...] = g * factor
            return
        count = self._layout.tiles.length
        size = np.abs(g) + sums.gradient_sizes / count
        size += np.abs(x) * (sums.product_sizes / count / np.abs(variance))
        result = (g - sums.gradients / count) - x * (sums.products / count / variance)
        into[...] = result * factor
        values, gradients = (arrays[name][at] for name in ("InputTensor", "InputGradientTensor"))
        for row, index in by_row(np.abs(result) < size * self._limit, self._layout, at, stop):
            group, mean, variance_of_group, scale_of_group = self._group(arrays, row, stop)
            of = by_statistics_of_the_batch(group, mean, scale_of_group, variance_of_group, stop)
            exact = map(of, values[index], gradients[index])
            into[index] = [rounded(each, self._of) for each in exact]

    def _put_sums(self, arrays: Arrays, at: Slices, sums: _GradientSums, stop: Stop) -> None:
        """Writes the gradients of scale and bias."""
        scales, biases = (part_of(arrays[f"Output{name}GradientTensor"], at) for name in ("Scale", "Bias"))
        variance = part_of(arrays["VarianceTensor"], at).astype(np.float64) + self._epsilon
        scales[...] = sums.products / np.sqrt(variance)
        biases[...] = sums.gradients
        undecided = (np.abs(sums.products) < sums.product_sizes * self._limit) | (
            np.abs(sums.gradients) < sums.gradient_sizes * self._limit
        )
        for place in map(tuple, np.argwhere(undecided).tolist()):
            group, mean, variance_of_group, _ = self._group(arrays, self._layout.whole_row(place, at), stop)
            scales[place] = rounded(divide(group.products_about(mean, stop), root(variance_of_group)), self._of)
            biases[place] = rounded(group.gradient_total, self._of)

    def _group(self, arrays: Arrays, row: Slices, stop: Stop) -> tuple[Group, Real, Real, Real]:
        """Returns a group, with its mean, variance and scale."""
        group = summed(arrays["InputTensor"][row], arrays["InputGradientTensor"][row], self._of, stop)
        mean, variance, scale = (real(part_of(arrays[f"{name}Tensor"], row).flat[0]) for name in _STATISTICS)
        return group, mean, add(variance, real(self._epsilon)), scale
