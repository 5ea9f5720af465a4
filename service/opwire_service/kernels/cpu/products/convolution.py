"""CONVOLUTION: tiles of filters times unfolded columns, rounded as the products of matrices are."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ...activation import activated
from ...layout import coordinates
from ..jit.compiler import Kernel
from ..run.job import Job
from ..run.pool import Find, Pool
from . import blas
from .certified import EXACT_BYTES, STRIP, Expression, Tile, finish
from .rounding import ROWS, Round, rounding
from .unfolding import CHANNELS, MOST_SUMS, MOST_UNFOLDED, WASTE, Box, Boxes, Columns, Cut, Geometry, Line, halved

MOST_CONVERTED = 64 << 20
"""Bytes of a filter in float64 that all threads share; of a larger one each thread converts what a tile needs."""


class Phase(NamedTuple):
    """What the tiles of a phase have in common.

    Attributes:
        columns: where its columns are read.
        filters: a view ``[groups, filters, *taps, channels]``, in float64 where that is shared.
        norms: of the filters in float64, ``[groups, filters]``.
        target: the part of the output, ``[groups, filters, images, *positions]``.
        cut: into tiles.
        round_rows: rounds sums.
    """

    columns: Columns
    filters: Array
    norms: Array
    target: Array
    cut: Cut
    round_rows: Round


class Unit(NamedTuple):
    """A tile: some groups, images and positions."""

    groups: slice
    places: Box


def grouped(tensor: Array, groups: int) -> Array:
    """``[groups, channels, images, *spatial]`` of ``[images, channels, *spatial]``, without a copy."""
    images, _, *spatial = tensor.shape
    return tensor.reshape(images, groups, -1, *spatial).transpose(1, 2, 0, *range(3, len(spatial) + 3))


class ConvolutionJob(Job):
    """All phases, one after the other, by tiles."""

    def __init__(self, plan: Plan) -> None:
        self._geometry = Geometry(plan)
        self._expression = Expression(1.0, 1.0, plan.attributes.FusedActivation)
        kernel = plan.inputs["FilterTensor"]
        self._filter_elements = kernel.element_count
        self._is_shared = 8 * kernel.element_count <= MOST_CONVERTED
        self._depth = prod(kernel.sizes[2:]) * self._geometry.channels

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (ROWS,)

    def scratch_bytes(self, threads: int) -> int:
        shared = 8 * self._filter_elements if self._is_shared else 0
        return shared + threads * TILE_BYTES

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        blas.single_threaded()
        geometry = self._geometry
        source = grouped(inputs["InputTensor"], geometry.groups)
        target = grouped(outputs["OutputTensor"], geometry.groups)
        bias = None
        if "BiasTensor" in inputs:
            bias = inputs["BiasTensor"].reshape(geometry.groups, geometry.filters)
        if not geometry.is_whole:
            self._fill(target, bias, stop)
        round_rows = rounding(find(ROWS).call)
        for number in range(geometry.phases):
            if stop():
                raise Stopped
            lines = geometry.phase(number)
            if lines is not None:
                self._run_phase(lines, source, inputs["FilterTensor"], target, bias, round_rows, pool, stop)

    def _fill(self, target: Array, bias: Array | None, stop: Stop) -> None:
        """Writes what no element of the input reaches."""
        pieces = Boxes(target.shape[2:], halved(target.shape[2:], MOST_SUMS))
        with np.errstate(all="ignore"):
            for group, channel in coordinates(target.shape[:2]):
                value = np.zeros(1) if bias is None else bias[group, channel : channel + 1].astype(np.float64)
                value = activated(self._expression.activation, value)
                for place in pieces:
                    if stop():
                        raise Stopped
                    target[(group, channel, *place)] = value[0]

    def _run_phase(
        self,
        lines: tuple[Line, ...],
        source: Array,
        kernel: Array,
        target: Array,
        bias: Array | None,
        round_rows: Round,
        pool: Pool,
        stop: Stop,
    ) -> None:
        geometry = self._geometry
        filters = geometry.filters_of(kernel, lines)
        cut = Cut.of(geometry, lines)
        with np.errstate(all="ignore"):
            if self._is_shared:
                filters = filters.astype(np.float64, order="C")
            norms = _norms(filters, stop)
        place: tuple[Any, ...] = (..., *(line.outputs for line in lines))
        part = target[place]
        phase = Phase(Columns(source, lines, np.float64), filters, norms, part, cut, round_rows)
        places = (geometry.images, *(line.length for line in lines))
        sizes = [cut.groups, *cut.places]
        units = Boxes((geometry.groups, *places), sizes)
        work = partial(self._units, phase, bias, units, stop)
        if len(units) == 1:
            work(0, 1)
        else:
            pool.run(work, len(units), 1, stop)

    def _units(self, phase: Phase, bias: Array | None, units: Boxes, stop: Stop, begin: int, end: int) -> None:
        with np.errstate(all="ignore"):
            for groups, *places in units[begin:end]:
                self._unit(phase, bias, Unit(groups, tuple(places)), stop)

    def _unit(self, phase: Phase, bias: Array | None, unit: Unit, stop: Stop) -> None:
        *taps, channels = phase.filters.shape[2:]
        depths = Boxes((*taps, channels), phase.cut.depths)
        kept = phase.columns.unfold(*unit, depths[0]) if len(depths) == 1 else None
        for first in range(0, self._geometry.filters, CHANNELS):
            filters = slice(first, min(first + CHANNELS, self._geometry.filters))
            total, squares = None, np.zeros(())
            for depth in depths:
                columns, more = kept or phase.columns.unfold(*unit, depth)
                weights = phase.filters[(unit.groups, filters, *depth)].astype(np.float64, copy=False)
                weights = weights.reshape(*weights.shape[:2], -1)
                squares = squares + more
                special = ~np.isfinite(phase.norms[unit.groups, filters])
                if special.any():
                    weights = np.where(special[..., None], 0, weights)
                total = _add_product(total, weights, columns, stop)
                if special.any():
                    self._add_special(phase, unit, filters, depth, columns, total, stop)
            assert total is not None
            self._finish(phase, bias, unit, filters, total, np.sqrt(squares), len(depths), stop)

    def _add_special(
        self, phase: Phase, unit: Unit, filters: slice, depth: Box, columns: Array, total: Array, stop: Stop
    ) -> None:
        """Adds the products of filters that hold an infinity or NaN, which in the padding adds nothing."""
        ones = np.broadcast_to(np.ones(()), phase.columns.source.shape)
        reached = phase.columns._replace(source=ones, has_norms=False).unfold(*unit, depth)[0] != 0
        first = unit.groups.start
        for group, number in zip(*np.nonzero(~np.isfinite(phase.norms[unit.groups, filters])), strict=True):
            if stop():
                raise Stopped
            weights = phase.filters[(first + group, filters.start + number, *depth)].astype(np.float64).reshape(-1, 1)
            total[group, number] += np.where(reached[group], weights * columns[group], 0).sum(0)

    def _finish(
        self,
        phase: Phase,
        bias: Array | None,
        unit: Unit,
        filters: slice,
        total: Array,
        norms: Array,
        pieces: int,
        stop: Stop,
    ) -> None:
        groups, count, places = total.shape
        depth = prod(phase.filters.shape[2:])
        # A tile of several boxes of depths has a sum more of each.
        error = blas.summation_error(depth) + 2 * pieces * 2.0**-53
        row_bounds = phase.norms[unit.groups, filters].reshape(-1) * error

        def terms(rows: Array, columns: Array, part: slice) -> tuple[Array, Array]:
            return _terms(phase, unit, filters, rows, columns, part)

        addend = None if bias is None else bias[unit.groups, filters].reshape(-1, 1)
        rounded = np.empty((groups * count, places), phase.target.dtype)
        tile = Tile(total.reshape(-1, places), row_bounds, norms, addend, rounded, terms, depth)
        finish(tile, self._expression, phase.round_rows, stop)
        target = phase.target[(unit.groups, filters, *unit.places)]
        target[...] = rounded.reshape(target.shape)


def _add_product(total: Array | None, weights: Array, columns: Array, stop: Stop) -> Array:
    """The sums so far and the product of filters and columns, ``blas.DEPTH`` products at a time."""
    for first in range(0, weights.shape[-1], blas.DEPTH):
        if stop():
            raise Stopped
        part = slice(first, first + blas.DEPTH)
        found: Array = np.matmul(weights[..., part], columns[:, part])
        total = found if total is None else np.add(total, found, out=total)
    assert total is not None
    return total


def _norms(filters: Array, stop: Stop) -> Array:
    """The Euclidean norms of filters, one group at a time or some filters of one."""
    flat = filters.reshape(*filters.shape[:2], -1) if filters.dtype == np.float64 else None
    if flat is not None:
        return np.sqrt(np.einsum("gmk,gmk->gm", flat, flat))
    norms = np.zeros(filters.shape[:2])
    *taps, channels = filters.shape[2:]
    for group, filter_ in coordinates(norms.shape):
        for depth in Boxes((*taps, channels), halved((*taps, channels), STRIP)):
            if stop():
                raise Stopped
            part = filters[(group, filter_, *depth)].astype(np.float64)
            norms[group, filter_] += (part * part).sum()
    return np.sqrt(norms)


def _terms(phase: Phase, unit: Unit, filters: slice, rows: Array, columns: Array, part: slice) -> tuple[Array, Array]:
    """The weights and the elements of the input that are multiplied for elements of a tile."""
    count = filters.stop - filters.start
    group = (unit.groups.start + rows // count)[:, None]
    *taps, channel = np.unravel_index(np.arange(part.start, part.stop), phase.filters.shape[2:])
    shape = [place.stop - place.start for place in unit.places]
    found = zip(np.unravel_index(columns, shape), unit.places, strict=True)
    image, *positions = ((index + place.start)[:, None] for index, place in found)
    left = phase.filters[(group, (filters.start + rows % count)[:, None], *taps, channel)]
    right = phase.columns.gather(group, channel, image, list(taps), list(positions))
    # An infinity or NaN of the filter adds nothing in the padding; where it meets the input nobody asks.
    return np.where(np.isfinite(left), left, 0).astype(np.float64), right


TILE_BYTES = 8 * (MOST_UNFOLDED * (3 + WASTE) + 4 * MOST_SUMS + CHANNELS * blas.DEPTH) + 2 * EXACT_BYTES
"""What a tile takes on each thread: columns, what they are read from, and sums."""
