"""CONVOLUTION: tiles of filters times unfolded input, or output lines one by one where a group has few filters."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop, Stopped
from ...activation import activated
from ...convolutions import ConvolutionGeometry, PhaseDimension
from ...formulas.resolve import as_fused
from ...gaps import Gaps
from ...layout import coordinates
from ..jit.compiler import Kernel
from ..run.job import Job, KernelStep
from ..run.pool import Find, Pool
from .calls import CALLS
from .certified import EXACT_BYTES, Epilogue, SumsTile, finish
from .columns import UNFOLD
from .convolving import PhaseTiles
from .direct import DIRECT, LINE
from .finishing import Finish, StridedOperand, of_type
from .laying import lines_at_once, planes_of_lines
from .lines import LINES
from .multiplying import GATHER, MULTIPLY, summation_error
from .phases import (
    MOST_UNFOLDED,
    Phase,
    PhaseTiling,
    Spot,
    Spots,
    Unit,
    addend_of,
    flat_filters,
    flat_view,
    grouped,
    visits_of_tiles,
)
from .planes import LAY
from .unfolding import MOST_SUMS, Boxes, Columns, halved
from .widening import WIDEN
from .window import PLACES, SPATIAL
from .workspace import Workspace, Workspaces

FEW = 8
"""Maximum number of filters in a group whose lines are summed without matrix products."""

SHALLOW = 1 << 12
"""Maximum number of products in a sum of such lines, so that a line takes about a millisecond."""

FEW_PHASES = 64
"""Maximum number of phases for which each one's memory is computed in advance."""


class ConvolutionTensors(NamedTuple):
    """The tensors of a run.

    Attributes:
        source, target: ``[groups, channels, images, *spatial]``.
        kernel: filters, as given.
        bias: ``[groups, filters]``, or None.
    """

    source: Array
    kernel: Array
    bias: Array | None
    target: Array


class ConvolutionJob(Job):
    """Computes all phases, one after the other, by tiles or by lines."""

    def __init__(self, plan: Plan) -> None:
        self._geometry = geometry = ConvolutionGeometry(plan)
        self._epilogue = Epilogue(1.0, 1.0, as_fused(plan.attributes.FusedActivation))
        self._gaps = Gaps(geometry) if Gaps(geometry).may_exist else None
        kernel = plan.inputs["FilterTensor"]
        self._filter_elements, self._dtype = kernel.element_count, kernel.data_type.dtype
        self._depth = prod(kernel.sizes[2:]) * geometry.channels
        is_few = geometry.filters <= FEW and self._depth <= SHALLOW
        self._by_lines = is_few and self._epilogue.is_rounded
        self._visits = visits_of_tiles(plan, geometry.filters, self._count_tiles())

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        if self._by_lines:
            return of_type(DIRECT, self._dtype), of_type(LINES, self._dtype)
        kernels = tuple(of_type(pair, self._dtype) for pair in (WIDEN, UNFOLD, LAY))
        return CALLS, *kernels, MULTIPLY, GATHER, *self._finish_of(self._depth).kernels

    @property
    def visits(self) -> int:
        return self._visits

    def _count_tiles(self) -> int:
        """Returns the number of tiles of all phases, assuming that phases are of similar size."""
        geometry, lines = self._geometry, self._geometry.phase(0)
        if self._by_lines or lines is None:
            return geometry.phases
        return geometry.phases * len(self._tiles(self._tiling(lines, 1), lines))

    def _tiling(self, lines: tuple[PhaseDimension, ...], threads: int) -> PhaseTiling:
        depth = prod(line.taps for line in lines) * self._geometry.channels
        return PhaseTiling.of(self._geometry, (self._geometry.images, *(line.length for line in lines)), depth, threads)

    def _tiles(self, tiling: PhaseTiling, lines: tuple[PhaseDimension, ...]) -> Boxes:
        geometry = self._geometry
        extents = geometry.groups, geometry.filters, geometry.images, *(line.length for line in lines)
        return Boxes(extents, (tiling.groups, tiling.filters, *tiling.places))

    def scratch_bytes(self, threads: int) -> int:
        gaps = 0 if self._gaps is None else self._gaps.scratch_bytes
        return 4 * self._filter_elements + gaps + threads * self._tile_bytes(threads)

    def _tile_bytes(self, threads: int) -> int:
        """Returns the maximum memory of a tile in bytes, of any phase or, if these are many, of any convolution."""
        if self._geometry.phases > FEW_PHASES:
            return TILE_BYTES
        phases = (self._geometry.phase(number) for number in range(self._geometry.phases))
        tilings = (self._tiling(lines, threads) for lines in phases if lines is not None)
        return max((_bytes_of_tile(tiling) for tiling in tilings), default=0)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        geometry, tensors = self._geometry, self._tensors(inputs, outputs)
        if geometry.margins:
            self._fill_margins(outputs["OutputTensor"], stop)
        if not geometry.is_whole:
            self._fill(tensors.target, tensors.bias, stop)
        for number in range(geometry.phases):
            if stop():
                raise Stopped
            lines = geometry.phase(number)
            if lines is not None:
                filters = self._filters(tensors, lines)
                phase = self._phase(lines, flat_filters(filters, stop), filters.shape[2:], tensors, find, pool)
                self._bound(phase, pool)(stop)
        self._fill_gaps(inputs, outputs, stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        tensors = self._tensors(inputs, outputs)
        is_single = self._geometry.phases == 1 and self._geometry.is_whole and not self._geometry.margins
        lines = self._geometry.phase(0) if is_single else None
        if lines is not None:
            filters = self._filters(tensors, lines)
            flat = flat_view(filters)
            if flat is not None:
                compute = self._bound(self._phase(lines, flat, filters.shape[2:], tensors, find, pool), pool)
                if self._gaps is None:
                    return compute

                def run(stop: Stop) -> None:
                    compute(stop)
                    self._fill_gaps(inputs, outputs, stop)

                return run
        return super().bind(inputs, outputs, find, pool)

    def _tensors(self, inputs: Arrays, outputs: Arrays) -> ConvolutionTensors:
        groups, bias = self._geometry.groups, inputs.get("BiasTensor")
        source, target = grouped(inputs["InputTensor"], groups), grouped(outputs["OutputTensor"], groups)
        inner: tuple[Any, ...] = (..., *(slice(size) for size in self._geometry.inner))
        return ConvolutionTensors(
            source, inputs["FilterTensor"], None if bias is None else bias.reshape(groups, -1), target[inner]
        )

    def _filters(self, tensors: ConvolutionTensors, lines: tuple[PhaseDimension, ...]) -> Array:
        """Returns a view of the filters of a phase, ``[groups, filters, channels, *taps]``."""
        filters = self._geometry.filters_of(tensors.kernel, lines)
        return filters.transpose(0, 1, filters.ndim - 1, *range(2, filters.ndim - 1))

    def _finish_of(self, depth: int) -> Finish:
        return Finish(self._epilogue, summation_error(depth), depth, self._dtype)

    def _fill(self, target: Array, bias: Array | None, stop: Stop) -> None:
        """Writes the outputs that no input element reaches; like all sums, none of them is -0."""
        pieces = Boxes(target.shape[2:], halved(target.shape[2:], MOST_SUMS))
        with np.errstate(all="ignore"):
            for group, channel in coordinates(target.shape[:2]):
                value = np.zeros(1) if bias is None else bias[group, channel : channel + 1].astype(np.float64) + 0.0
                value = activated(self._epilogue.activation, value)
                for place in pieces:
                    if stop():
                        raise Stopped
                    target[(group, channel, *place)] = value[0]

    def _fill_margins(self, output: Array, stop: Stop) -> None:
        """Writes the padding of the output."""
        value = activated(self._epilogue.activation, np.zeros(1))[0]
        with np.errstate(all="ignore"):
            for margin in self._geometry.margins:
                whole: tuple[Any, ...] = (..., *margin)
                view = output[whole]
                for place in Boxes(view.shape, halved(view.shape, MOST_SUMS)):
                    if stop():
                        raise Stopped
                    view[place] = value

    def _fill_gaps(self, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        if self._gaps is not None:
            inner: tuple[Any, ...] = (..., *(slice(size) for size in self._geometry.inner))
            value = activated(self._epilogue.activation, np.full(1, np.nan))[0]
            self._gaps.fill(inputs["FilterTensor"], outputs["OutputTensor"][inner], value, stop)

    def _phase(
        self,
        lines: tuple[PhaseDimension, ...],
        filters: Array,
        shape: tuple[int, ...],
        tensors: ConvolutionTensors,
        find: Find,
        pool: Pool,
    ) -> Phase:
        source, _, bias, target = tensors
        place: tuple[Any, ...] = (..., *(line.outputs for line in lines))
        tiling, depth = self._tiling(lines, pool.threads), prod(shape)
        target = target[place]
        spots = Spots(Spot.of(source), Spot.of(filters), Spot.of(target), None if bias is None else Spot.of(bias))
        return Phase(lines, source, filters, shape, bias, target, spots, tiling, self._finish_of(depth), find)

    def _bound(self, phase: Phase, pool: Pool) -> Bound:
        """Returns a function that computes a phase."""
        if self._by_lines:
            return self._bound_lines(phase, pool)
        return partial(self._run_tiles, phase, Workspaces(partial(PhaseTiles, phase), pool.scratch), pool)

    def _bound_lines(self, phase: Phase, pool: Pool) -> Bound:
        groups, filters, *extents = phase.target.shape
        window = phase.window(slice(0, groups), tuple(slice(0, extent) for extent in extents))
        group, filter_, image, *space = (step // phase.target.itemsize for step in phase.target.strides)
        space = [0] * (SPATIAL - len(space)) + space
        geometry = phase.finish.direct_geometry(
            window, filters, StridedOperand.of(phase.filters), phase.spots.source.address,
            StridedOperand(phase.spots.target.address, group, filter_, 0), addend_of(phase.bias), (image, *space),
        )  # fmt: skip
        lines, kernel = lines_at_once(window, phase.shape[0], filters), of_type(DIRECT, self._dtype)
        units, elements = groups * filters * prod(extents[:-1]) * -(-extents[-1] // LINE), min(extents[-1], LINE)
        if lines:
            planes, kernel = planes_of_lines(window, lines), of_type(LINES, self._dtype)
            geometry.extend((lines, *planes.kinds, *planes.extents))
            height = window[PLACES + 1]
            units = groups * prod(extents) // (extents[-1] * height) * -(-height // lines)
            elements = filters * lines * extents[-1]
        step = KernelStep(kernel, geometry, units, elements * prod(phase.shape))
        return step.bind(0, 0, 0, phase.find, pool, (phase,))

    def _run_tiles(self, phase: Phase, spaces: Workspaces[PhaseTiles], pool: Pool, stop: Stop) -> None:
        units = self._tiles(phase.tiling, phase.lines)
        work = partial(self._units, phase, spaces, units, stop)
        if len(units) == 1:
            work(0, 1)
        else:
            pool.run(work, len(units), 1, stop, phase.find)

    def _units(
        self, phase: Phase, spaces: Workspaces[PhaseTiles], units: Boxes, stop: Stop, begin: int, end: int
    ) -> None:
        with np.errstate(all="ignore"), spaces.one() as tiles:
            for groups, filters, *places in units[begin:end]:
                unit = Unit(groups, filters, tuple(places))
                if phase.finish.is_able:
                    tiles.round(unit, stop)
                else:
                    self._evaluate(phase, unit, tiles.sum(unit, stop), tiles.workspace, stop)

    def _evaluate(self, phase: Phase, unit: Unit, sums: Array, workspace: Workspace, stop: Stop) -> None:
        """Finishes sums whose epilogue the kernels do not support."""
        groups, rows, columns = sums.shape
        bias = None if phase.bias is None else phase.bias[unit.groups, unit.filters].reshape(-1, 1)
        row_bounds = np.sqrt(workspace.row_squares[: groups * rows]) * summation_error(prod(phase.shape))
        column_bounds = np.sqrt(workspace.column_squares[: groups * columns]).reshape(groups, columns)
        target = phase.target[(unit.groups, unit.filters, *unit.places)]
        flat = np.empty(sums.shape, target.dtype)
        tile = SumsTile(
            sums.reshape(-1, columns), row_bounds, column_bounds, bias, flat.reshape(-1, columns),
            partial(_terms, phase, unit), prod(phase.shape),
        )  # fmt: skip
        finish(tile, self._epilogue, stop)
        target[...] = flat.reshape(target.shape)


def _terms(phase: Phase, unit: Unit, rows: Array, columns: Array, part: slice) -> tuple[Array, Array]:
    """Returns the weights and the input elements that are multiplied for some elements of a tile."""
    count = unit.filters.stop - unit.filters.start
    group = (unit.groups.start + rows // count)[:, None]
    steps = np.arange(part.start, part.stop)
    channel, *taps = np.unravel_index(steps, phase.shape)
    shape = [place.stop - place.start for place in unit.places]
    found = zip(np.unravel_index(columns, shape), unit.places, strict=True)
    image, *positions = ((index + place.start)[:, None] for index, place in found)
    left = phase.filters[group, (unit.filters.start + rows % count)[:, None], steps]
    reader = Columns(phase.source, phase.lines, np.float64)
    right = reader.gather(group, channel, image, list(taps), list(positions))
    # A non-finite weight adds nothing in padding. Elements where it meets the input are not asked for here.
    return np.where(np.isfinite(left), left, 0).astype(np.float64), right


def _bytes_of_tile(tiling: PhaseTiling) -> int:
    sums = tiling.groups * tiling.filters * prod(tiling.places)
    return min(TILE_BYTES, tiling.sizes.bytes + 4 * 8 * sums + EXACT_BYTES)


TILE_BYTES = 8 * (5 * MOST_UNFOLDED + 5 * MOST_SUMS) + EXACT_BYTES
"""Maximum memory of a tile on each thread, in bytes: operands, sums and their rounding."""
