"""Tiles of a convolution on one thread: filters times unfolded or laid-out input."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from math import prod

import numpy as np

from opwire.tensor import Array

from ....execution import Stop, Stopped
from ..jit.compiler import Kernel
from ..numbers.vectors import WIDTH
from ..run.scratch import Take
from .calls import Calls, KernelCall
from .columns import UNFOLD
from .finishing import StridedOperand, of_type
from .laying import InputPlanes
from .multiplying import GATHER, MULTIPLY
from .operands import Broken, Right, gathering, multiplying, padded, steps, widening
from .phases import Phase, Unit, addend_of, columns_of
from .planes import LAY
from .tiles import ADDEND, LEFT, RIGHT, TARGET
from .widening import WIDEN
from .window import COUNT, FIRST, SPATIAL
from .workspace import Workspace


class _ConvolutionShape:
    """Calls and geometry shared by tiles of the same shape, prepared for ``unit``.

    Attributes:
        groups, rows, columns: sizes of the sums.
        window: window through which kernels read the columns; every other window that ``move`` moves starts with the
            same slots.
        geometry: geometry of the rounding kernels.
        rounded: buffer for rounded results if positions of the output are not contiguous.
    """

    def __init__(self, phase: Phase, unit: Unit, workspace: Workspace) -> None:
        self._phase, self._workspace, self._dtype = phase, workspace, phase.source.dtype
        self._filters = phase.filters[unit.groups, unit.filters]
        self.groups, self.rows, self._depth = self._filters.shape
        self.window = phase.window(unit.groups, unit.places)
        self.columns = columns_of(self.window)
        self._taps = prod(phase.shape[1:])
        planes = InputPlanes.of(self.window)
        is_laid = self._fit(planes) and planes.is_better(self.columns, self.rows, self._taps)
        self._planes = planes if is_laid else None
        view = phase.target[(unit.groups, unit.filters, *unit.places)]
        target = _columns_in(view)
        self.rounded = np.empty((self.groups, self.rows, self.columns), view.dtype) if target is None else None
        self.geometry = self._geometry(unit, self.rounded if target is None else target)
        self._parts: dict[int, tuple[Calls, array[int]]] = {}

    def _fit(self, planes: InputPlanes) -> bool:
        """Whether the workspace is large enough for planes."""
        workspace, groups = self._workspace, self.groups
        channels = min(self._phase.tiling.depth // self._taps + 2, self._phase.shape[0])
        needed = groups * channels * planes.channel + planes.reach
        sums = groups * self.rows * planes.pitch
        return (
            needed <= workspace.right.size
            and sums <= workspace.sums.size
            and groups * planes.pitch <= workspace.column_squares.size
        )

    def _geometry(self, unit: Unit, rounded: Array | None) -> array[int]:
        phase = self._phase
        if rounded is None or not phase.finish.is_able:
            return array("q", self.window)
        bias = None if phase.bias is None else phase.bias[unit.groups, unit.filters]
        sizes, operands = (self.rows, self.columns), (StridedOperand.of(self._filters), 0)
        return phase.finish.geometry(
            self.window, *sizes, *operands, StridedOperand.of(rounded), addend_of(bias), self._workspace
        )

    def move(self, unit: Unit) -> None:
        """Points the rounding kernels at a tile."""
        phase, geometry = self._phase, self.geometry
        phase.move_window(self.window, unit)
        phase.move_window(geometry, unit)
        if not phase.finish.is_able:
            return
        groups, filters = unit.groups.start, unit.filters.start
        geometry[LEFT] = phase.spots.filters.at(groups, filters)
        geometry[RIGHT] = phase.source_of(unit)
        if self.rounded is None:
            geometry[TARGET] = phase.spots.target.at(groups, filters, *(place.start for place in unit.places))
        if phase.spots.bias is not None:
            geometry[ADDEND] = phase.spots.bias.at(groups, filters)

    def part(self, unit: Unit, depth: slice) -> Calls:
        """Returns the calls that add some products to a tile's sums; after the last ones they round, if kernels can."""
        phase = self._phase
        if depth.start not in self._parts:
            self._parts[depth.start] = self._calls(depth)
        calls, window = self._parts[depth.start]
        phase.move_window(window, unit)
        calls.move(0, phase.spots.filters.at(unit.groups.start, unit.filters.start, depth.start))
        calls.move(1, phase.source_of(unit))
        return calls

    def _calls(self, depth: slice) -> tuple[Calls, array[int]]:
        """Returns those calls and the window of the second one."""
        workspace, lines = self._workspace, self.groups * self.rows
        pitch = padded(self.columns) if self._planes is None else self._planes.pitch
        widen, left = widening(self._filters[:, :, depth], workspace.left, workspace.row_squares)
        copy, right = self._unfolding(depth, pitch) if self._planes is None else self._laying(depth, self._planes)
        multiply = multiplying(left, right, workspace.sums, pitch, adds=depth.start > 0)
        kernel = of_type(UNFOLD if self._planes is None else LAY, self._dtype)
        calls = [(of_type(WIDEN, self._dtype), widen), (kernel, copy), (MULTIPLY, multiply)]
        if depth.stop == self._depth:
            calls += self._gathering(pitch)
            if self._phase.finish.is_able:
                calls += self._phase.finish.calls(self.geometry, lines, workspace)
        return Calls(calls, self._phase.find), copy.geometry

    def window_of(self, depth: slice) -> array[int]:
        """Returns the window of some rows of the columns."""
        window = array("q", self.window)
        window[FIRST], window[COUNT] = depth.start, depth.stop - depth.start
        return window

    def _unfolding(self, depth: slice, pitch: int) -> tuple[KernelCall, Right]:
        """Returns the call that unfolds some rows of the columns, and the resulting operand."""
        memory, squares = self._workspace.right, self._workspace.places.column_squares
        count = depth.stop - depth.start
        right = Right(memory, count * self.columns, steps(self.columns, count), steps(WIDTH, pitch // WIDTH))
        return KernelCall(0, memory.ctypes.data, squares, self.window_of(depth), 0, self.groups * count), right

    def _laying(self, depth: slice, planes: InputPlanes) -> tuple[KernelCall, Right]:
        """Returns the call that lays out the planes of the channels of a part, and the resulting operand."""
        workspace, first = self._workspace, depth.start // self._taps
        channels = (depth.stop - 1) // self._taps + 1 - first
        starts, passed = planes.panels
        broken = Broken(workspace.panel.ctypes.data, workspace.places.column_squares, planes.run, planes.gap, passed)
        window = array("q", (*self.window_of(depth), *planes.kinds, *planes.extents, first, channels))
        places = workspace.right.ctypes.data, workspace.offsets.ctypes.data
        right = Right(workspace.right, channels * planes.channel, workspace.offsets, starts, broken)
        return KernelCall(0, *places, window, 0, self.groups * channels), right

    def _gathering(self, pitch: int) -> list[tuple[Kernel, KernelCall]]:
        """Returns the calls that remove padding between the sums, and between the corresponding squares."""
        workspace, planes = self._workspace, self._planes
        lines, calls = self.groups * self.rows, []
        if pitch == self.columns:
            return []
        blocks = (1, self.columns, pitch, 0)
        if planes is not None:
            blocks = (prod(planes.blocks), planes.height * planes.length, pitch, planes.block)
            calls.append((GATHER, gathering(workspace.column_squares, self.groups, blocks)))
        return [*calls, (GATHER, gathering(workspace.sums, lines, blocks))]


class PhaseTiles:
    """Computes tiles of a phase one by one, in its own workspace."""

    def __init__(self, phase: Phase, take: Take) -> None:
        self.workspace = Workspace(phase.tiling.sizes, take)
        self._phase = phase
        self._shapes: dict[tuple[int, ...], _ConvolutionShape] = {}

    def round(self, unit: Unit, stop: Stop) -> None:
        """Computes a tile of the output.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        phase, shape = self._phase, self._shape(unit)
        special = self._sum(unit, shape, stop)
        if special is not None:
            self._open(special, shape.columns)
        phase.finish.settle(shape.geometry, self.workspace, phase.find, stop)
        if shape.rounded is not None:
            view = phase.target[(unit.groups, unit.filters, *unit.places)]
            view[...] = shape.rounded.reshape(view.shape)

    def sum(self, unit: Unit, stop: Stop) -> Array:
        """Returns the sums of a tile, ``[groups, filters, places]``, and leaves the operands' squares in the workspace.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        shape = self._shape(unit)
        self._sum(unit, shape, stop)
        return self._sums(shape)

    def _shape(self, unit: Unit) -> _ConvolutionShape:
        sizes = tuple(part.stop - part.start for part in (unit.groups, unit.filters, *unit.places))
        if sizes not in self._shapes:
            self._shapes[sizes] = _ConvolutionShape(self._phase, unit, self.workspace)
        return self._shapes[sizes]

    def _sums(self, shape: _ConvolutionShape) -> Array:
        return self.workspace.sums[: shape.groups * shape.rows * shape.columns].reshape(
            shape.groups, shape.rows, shape.columns
        )

    def _sum(self, unit: Unit, shape: _ConvolutionShape, stop: Stop) -> Array | None:
        """Computes sums; returns which filters hold an infinity or NaN, ``[groups, filters]``, or None if none does."""
        workspace = self.workspace
        workspace.row_squares.fill(0)
        workspace.column_squares.fill(0)
        shape.move(unit)
        for depth in self._parts(stop):
            shape.part(unit, depth).run()
        is_finite = np.isfinite(workspace.row_squares[: shape.groups * shape.rows])
        if is_finite.all():
            return None
        special = ~is_finite.reshape(shape.groups, shape.rows)
        self._sum_special(special, unit, shape, stop)
        return special

    def _parts(self, stop: Stop) -> Iterator[slice]:
        """Yields parts of the depth."""
        whole = prod(self._phase.shape)
        for first in range(0, whole, self._phase.tiling.depth):
            if stop():
                raise Stopped
            yield slice(first, min(first + self._phase.tiling.depth, whole))

    def _open(self, special: Array, columns: int) -> None:
        """Lists all elements of some filters as open, unless they are still listed."""
        opens, rows = self.workspace.opens, special.shape[1]
        if opens[0] == 0:
            groups, filters = (index[:, None] for index in np.nonzero(special))
            codes = ((groups * columns + np.arange(columns)) * rows + filters).reshape(-1)
            opens[0], opens[1 : 1 + codes.size] = codes.size, codes

    def _sum_special(self, special: Array, unit: Unit, shape: _ConvolutionShape, stop: Stop) -> None:
        """Recomputes the sums of filters that hold an infinity or NaN, which adds nothing in padding."""
        phase, into = self._phase, self._sums(shape)
        one, unfold = np.ones(1, phase.source.dtype), phase.find(of_type(UNFOLD, phase.source.dtype))
        filters = phase.filters[unit.groups, unit.filters]
        into[special] = 0
        for depth in self._parts(stop):
            window = shape.window_of(depth)
            ones, count = array("q", window), depth.stop - depth.start
            ones[: SPATIAL * 2] = array("q", [0] * SPATIAL * 2)
            columns, is_inside = np.empty((2, shape.groups, count, shape.columns))
            squares = np.zeros(shape.groups * shape.columns)
            for memory, source, geometry in (
                (columns, phase.source_of(unit), window),
                (is_inside, one.ctypes.data, ones),
            ):
                places = source, memory.ctypes.data, squares.ctypes.data
                KernelCall(*places, geometry, 0, shape.groups * count).run(unfold)
            for group, row in zip(*np.nonzero(special), strict=True):
                if stop():
                    raise Stopped
                products = filters[group, row, depth].astype(np.float64)[:, None] * columns[group]
                into[group, row] += np.where(is_inside[group] != 0, products, 0).sum(0)


def _columns_in(view: Array) -> Array | None:
    """Returns ``[groups, filters, places]`` of a part of an output whose positions are contiguous, or None."""
    try:
        flat = view.reshape(*view.shape[:2], -1, copy=False)
    except ValueError:
        return None
    return flat if flat.shape[2] == 1 or flat.strides[2] == flat.itemsize else None
