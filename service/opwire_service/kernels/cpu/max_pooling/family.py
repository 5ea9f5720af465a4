"""MAX_POOLING, MAX_POOLING1 and MAX_POOLING2."""

from __future__ import annotations

from math import prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import BufferTensorDesc, packed_strides

from ....execution import Arrays, Stop
from ...layout import Loop, ReductionLayout, collapse, coordinates
from ...reference.max_pooling import started
from ...windows import covered, dimensions_of
from ..argreduce import rows as winning_rows
from ..argreduce.family import ELEMENTS
from ..argreduce.geometry import Search
from ..argreduce.ranks import inversion, rank_size
from ..jit.compiler import Kernel
from ..jit.element import INT64
from ..run.job import Job, KernelStep, ScratchBytes
from ..run.pool import Find, Pool
from ..run.tiling import ROW_SEGMENT, cut
from ..run.window_tiles import WindowTilesJob
from ..run.windows import encode
from . import kernels
from .lines import MaxPooling
from .row_tiling import LANES, RowTiling, cut_rows

KERNELS = (
    *(
        Kernel(function, element)
        for element in dict.fromkeys(ELEMENTS.values())
        for function in (kernels.rows, kernels.named_rows, kernels.windows)
        if element != INT64 or function is not kernels.named_rows
    ),
)

REDUCTION = 1 << 16
"""Cost of setting up a reduction of one window, in element visits."""


def prepare(plan: Plan) -> Job:
    source = plan.inputs["InputTensor"]
    invert = inversion(source.data_type, least=False)
    indices = "OutputIndicesTensor" in plan.outputs
    tiles = cut_rows(plan, lines=source.data_type.bits < 64 or not indices)
    if tiles is None:
        return WindowsJob(plan, invert)
    function = kernels.windows
    if tiles.by_line:
        function = kernels.named_rows if indices else kernels.rows
    geometry = _encode(plan, tiles, invert)
    units = prod(plan.outputs["OutputTensor"].sizes[:-1]) * tiles.number
    step = KernelStep(Kernel(function, ELEMENTS[source.data_type]), geometry, units, tiles.elements)
    # For floats, codes replace ranks where NaN or zeros leave the winner undecided.
    place = 8 if indices or source.data_type.is_float else rank_size(step.kernel.element)
    return WindowTilesJob(step, kernels.room if tiles.by_line else None, tiles.visits, place=place)


def _encode(plan: Plan, tiles: RowTiling, invert: int) -> MaxPooling:
    source, values = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    indices = plan.outputs.get("OutputIndicesTensor")
    return encode(
        MaxPooling,
        (source, values, indices or values),
        dimensions_of(plan.attributes, source.sizes),
        values.sizes,
        index_size=0 if indices is None else indices.data_type.bits // 8,
        packed=_is_packed(source),
        invert=invert,
        tile=tiles.width,
        tiles=tiles.number,
        line=tiles.line,
    )


def _is_packed(desc: BufferTensorDesc) -> bool:
    """Whether channels are contiguous in row-major order, so that positions in a channel are offsets."""
    moving = [(size, step) for size, step in zip(desc.sizes[2:], desc.element_strides[2:], strict=True) if size > 1]
    expected = 1
    for size, step in reversed(moving):
        if step != expected:
            return False
        expected *= size
    return True


class WindowsJob(Job):
    """Windows so large that each is a reduction of its own, in segments."""

    def __init__(self, plan: Plan, invert: int) -> None:
        self._source = plan.inputs["InputTensor"]
        self._dimensions = tuple(plan.attributes.dimensions(self._source.sizes))
        self._invert = invert
        self._element = ELEMENTS[self._source.data_type]
        self._kernels = Kernel(winning_rows.rows, self._element), Kernel(winning_rows.finish, self._element)
        self._item_size = self._source.data_type.bits // 8
        self._visits = plan.work // LANES + REDUCTION * plan.outputs["OutputTensor"].element_count
        elements = prod(min(dimension.window, dimension.size) for dimension in self._dimensions)
        self._scratch = ScratchBytes(shared=16 * -(-elements // ROW_SEGMENT))

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, values = inputs["InputTensor"], outputs["OutputTensor"]
        indices = outputs.get("OutputIndicesTensor")
        for place in coordinates(values.shape):
            ranges = [range(i, i + 1) for i in place[:2]] + [
                covered(dimension, i) for dimension, i in zip(self._dimensions, place[2:], strict=True)
            ]
            found = self._winner(ranges, source.ctypes.data, find, pool, stop)
            within = np.unravel_index(found, tuple(map(len, ranges)))
            winner = tuple(part[int(i)] for part, i in zip(ranges, within, strict=True))
            values[place] = started(source[winner])
            if indices is not None:
                steps = packed_strides(source.shape)
                indices[place] = sum(i * step for i, step in zip(winner, steps, strict=True))

    def _winner(self, ranges: list[range], source: int, find: Find, pool: Pool, stop: Stop) -> int:
        """Returns the row-major position of the winner among the elements of a window."""
        strides = self._source.element_strides
        loops = [
            Loop(len(part), part.step * stride) for part, stride in zip(ranges, strides, strict=True) if len(part) > 1
        ]
        first = sum(part[0] * stride for part, stride in zip(ranges, strides, strict=True))
        work = cut(Search, ReductionLayout((), collapse(loops)), self._item_size)
        work.set(invert=self._invert, index_size=8)
        here = source + first * self._item_size
        found = np.empty(1, np.int64)
        states = np.empty(2 * work.segments, np.int64)
        step = KernelStep(Kernel(winning_rows.rows, self._element), work.geometry, work.units, work.elements)
        step.run(here, found.ctypes.data, states.ctypes.data, find, pool, stop)
        if work.segments > 1:
            finish = KernelStep(Kernel(winning_rows.finish, self._element), work.whole, 1, work.segments)
            finish.run(here, found.ctypes.data, states.ctypes.data, find, pool, stop)
        return int(found[0])


PREPARE = dict.fromkeys(("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"), prepare)
