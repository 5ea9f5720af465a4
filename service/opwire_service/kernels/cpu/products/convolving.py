"""The sums of a tile of a convolution: filters times the elements of the input that they meet."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from opwire.tensor import Array

from ....execution import Stop, Stopped
from ..numbers.vectors import WIDTH
from .columns import UNFOLD
from .finishing import of_type
from .laying import Planes
from .multiplying import GATHER, MULTIPLY
from .operands import Broken, Right, gather, multiplying, padded, steps, widened
from .phases import Phase, columns_of
from .planes import LAY
from .widening import WIDEN
from .window import COUNT, FIRST, SPATIAL
from .workspace import Workspace


class Sums:
    """Those of one tile.

    Args:
        phase: of the convolution.
        filters: of the tile, ``[groups, filters, depth]``.
        window: what kernels read its columns by.
        source: the address of its first image.
        workspace: its memory.
    """

    def __init__(self, phase: Phase, filters: Array, window: array[int], source: int, workspace: Workspace) -> None:
        self._phase, self._filters, self._window, self._source = phase, filters, window, source
        self._workspace, self._dtype = workspace, phase.source.dtype
        self._groups, self._rows, self._depth = filters.shape
        self._columns = columns_of(window)
        self._taps = prod(phase.shape[1:])
        planes = Planes.of(window)
        is_laid = self._fit(planes) and planes.is_better(self._columns, self._rows, self._taps)
        self._planes = planes if is_laid else None

    def _fit(self, planes: Planes) -> bool:
        """Whether the memory is enough for planes."""
        workspace, groups = self._workspace, self._groups
        channels = min(self._phase.cut.depth // self._taps + 2, self._phase.shape[0])
        needed = groups * channels * planes.channel + planes.reach
        sums = groups * self._rows * planes.pitch
        return (
            needed <= workspace.right.size
            and sums <= workspace.sums.size
            and groups * planes.pitch <= workspace.column_squares.size
        )

    def sum(self, stop: Stop) -> Array:
        """The sums, ``[groups, filters, places]``; in its memory it leaves the squares of the operands.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        workspace, phase = self._workspace, self._phase
        workspace.row_squares.fill(0)
        workspace.column_squares.fill(0)
        pitch = padded(self._columns) if self._planes is None else self._planes.pitch
        read = self._unfolded(pitch) if self._planes is None else self._laid(self._planes)
        for part in self._parts(stop):
            widen = phase.find(of_type(WIDEN, self._dtype))
            left = widened(widen, self._filters[:, :, part], workspace.left, workspace.row_squares)
            multiplying(phase.find(MULTIPLY), left, read(), workspace.sums, pitch, adds=part.start > 0)()
        self._move(pitch)
        into = workspace.sums[: self._groups * self._rows * self._columns]
        into = into.reshape(self._groups, self._rows, self._columns)
        special = ~np.isfinite(workspace.row_squares[: self._groups * self._rows]).reshape(self._groups, self._rows)
        if special.any():
            self._sum_special(special, into, stop)
        return into

    def _parts(self, stop: Stop) -> Iterator[slice]:
        """Parts of the depth; the window is set to each."""
        for first in range(0, self._depth, self._phase.cut.depth):
            if stop():
                raise Stopped
            part = slice(first, min(first + self._phase.cut.depth, self._depth))
            self._window[FIRST], self._window[COUNT] = part.start, part.stop - part.start
            yield part

    def _unfolded(self, pitch: int) -> Callable[[], Right]:
        """What unfolds the columns of a part."""
        workspace, unfold = self._workspace, self._phase.find(of_type(UNFOLD, self._dtype))
        places = workspace.right.ctypes.data, workspace.places.column_squares, self._window.buffer_info()[0]
        starts = steps(WIDTH, pitch // WIDTH)

        def unfolded() -> Right:
            count = self._window[COUNT]
            unfold.call(0, self._source, *places, 0, self._groups * count)
            return Right(workspace.right, count * self._columns, steps(self._columns, count), starts)

        return unfolded

    def _laid(self, planes: Planes) -> Callable[[], Right]:
        """What lays out the planes of the channels of a part."""
        window, workspace, lay = self._window, self._workspace, self._phase.find(of_type(LAY, self._dtype))
        starts, passed = planes.panels
        memory = workspace.panel.ctypes.data, workspace.places.column_squares
        broken = Broken(*memory, planes.run, planes.gap, passed)
        places = workspace.right.ctypes.data, workspace.offsets.ctypes.data

        def laid() -> Right:
            first = window[FIRST] // self._taps
            channels = (window[FIRST] + window[COUNT] - 1) // self._taps + 1 - first
            geometry = array("q", (*window, *planes.kinds, *planes.extents, first, channels))
            lay.call(0, self._source, *places, geometry.buffer_info()[0], 0, self._groups * channels)
            return Right(workspace.right, channels * planes.channel, workspace.offsets, starts, broken)

        return laid

    def _move(self, pitch: int) -> None:
        """Takes out what has no meaning between the sums, and between the squares of columns that go with them."""
        if pitch == self._columns:
            return
        find, workspace, planes = self._phase.find, self._workspace, self._planes
        blocks = (1, self._columns, pitch, 0)
        if planes is not None:
            blocks = (prod(planes.blocks), planes.height * planes.length, pitch, planes.block)
            gather(find(GATHER), workspace.column_squares, self._groups, blocks)
        gather(find(GATHER), workspace.sums, self._groups * self._rows, blocks)

    def _sum_special(self, special: Array, into: Array, stop: Stop) -> None:
        """Sums again for filters that hold an infinity or NaN, which in the padding adds nothing."""
        window, ones = self._window, array("q", self._window)
        ones[: SPATIAL * 2] = array("q", [0] * SPATIAL * 2)
        one, unfold = np.ones(1, self._dtype), self._phase.find(of_type(UNFOLD, self._dtype))
        into[special] = 0
        for part in self._parts(stop):
            count = part.stop - part.start
            ones[FIRST], ones[COUNT] = window[FIRST], window[COUNT]
            columns, is_inside = np.empty((2, self._groups, count, self._columns))
            squares = np.zeros(self._groups * self._columns)
            for memory, source, geometry in ((columns, self._source, window), (is_inside, one.ctypes.data, ones)):
                places = memory.ctypes.data, squares.ctypes.data, geometry.buffer_info()[0]
                unfold.call(0, source, *places, 0, self._groups * count)
            for group, row in zip(*np.nonzero(special), strict=True):
                if stop():
                    raise Stopped
                products = self._filters[group, row, part].astype(np.float64)[:, None] * columns[group]
                into[group, row] += np.where(is_inside[group] != 0, products, 0).sum(0)
