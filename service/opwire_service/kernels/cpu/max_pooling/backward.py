"""MAX_POOLING_GRAD and MAX_UNPOOLING."""

from __future__ import annotations

from math import prod

import numpy as np

from opwire.check import Plan, check
from opwire.rules.dimension import Dimension
from opwire.tensor import Array, BufferTensorDesc, DataType

from ....execution import Arrays, Stop, Stopped
from ...windows import dimensions_of
from ..jit.compiler import Kernel
from ..jit.element import FLOAT32, HALF, INT8, INT16, INT32, INT64
from ..run.job import PIECE, Job, KernelStep, ScratchBytes
from ..run.pool import Find, Pool
from ..run.windows import encode
from . import gradient, unpooling
from .family import prepare as prepare_max
from .row_tiling import TILE_VISITS

FLOATS = {DataType.FLOAT32: FLOAT32, DataType.FLOAT16: HALF}

MOVED = {8: INT8, 16: INT16, 32: INT32, 64: INT64}
"""Element types of unpooling, by bits."""

KERNELS = (
    *(Kernel(gradient.blocks, element) for element in FLOATS.values()),
    *(Kernel(unpooling.planes, element) for element in MOVED.values()),
)

BLOCK = 1 << 12
"""Elements in a block of gradients."""

WINNER_VISITS, WINDOW_VISITS, ELEMENT_VISITS = 2, 2, 8
"""Costs: finding winners with indices, relative to max pooling; a window and a gradient, in element visits."""

LARGEST_PLANE = 1 << 20
"""Maximum cost of a plane that is unpooled in a single unit, in element visits."""


class GradientJob(Job):
    """Finds the winners of all windows, then adds up the gradients at each winner."""

    def __init__(self, plan: Plan) -> None:
        source, pooled = plan.inputs["InputTensor"], plan.inputs["InputGradientTensor"]
        target = plan.outputs["OutputGradientTensor"]
        self._pooled = pooled
        self._winners_plan = _max_pooling(plan)
        self._winners = prepare_max(self._winners_plan)
        dimensions = dimensions_of(plan.attributes, source.sizes)
        height, width = source.sizes[-2:]
        columns = min(width, BLOCK)
        rows = min(height, max(1, BLOCK // width))
        packed = BufferTensorDesc(DataType.UINT64, pooled.sizes)
        tensors = target, pooled, packed
        geometry = encode(gradient.Gradient, tensors, dimensions, pooled.sizes, rows=rows, columns=columns)
        units = prod(source.sizes[:-2]) * -(-height // rows) * -(-width // columns)
        windows = pooled.element_count * 4 * prod(min(each.window, each.size) for each in dimensions[:1])
        visits = rows * columns + windows // units + 1
        self._step = KernelStep(Kernel(gradient.blocks, FLOATS[source.data_type]), geometry, units, visits)
        self._block = rows * columns
        extents = (*(1,) * (len(dimensions) - 2), rows, columns)[-len(dimensions) :]
        looked_at = prod(map(_windows, dimensions, extents, pooled.sizes[2:]))
        block_visits = ELEMENT_VISITS * self._block + WINDOW_VISITS * looked_at + TILE_VISITS
        self._visits = self._winners.visits * WINNER_VISITS + units * block_visits

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (*self._winners.kernels, self._step.kernel)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        pooled, target = inputs["InputGradientTensor"], outputs["OutputGradientTensor"]
        found: dict[str, Array] = {
            "OutputTensor": np.empty(pooled.shape, pooled.dtype),
            "OutputIndicesTensor": np.empty(pooled.shape, np.uint64),
        }
        self._winners.run({"InputTensor": inputs["InputTensor"]}, found, find, pool, stop)
        indices = found["OutputIndicesTensor"]
        kept = pooled, target, indices
        self._step.bind(pooled.ctypes.data, target.ctypes.data, indices.ctypes.data, find, pool, kept)(stop)

    def scratch_bytes(self, threads: int) -> int:
        found = self._pooled.element_count * (8 + self._pooled.data_type.bits // 8)
        return found + self._winners.scratch_bytes(threads) + threads * 8 * (3 * self._block + 64)


def _windows(dimension: Dimension, extent: int, count: int) -> int:
    """Returns the maximum number of windows that contain any of some adjacent positions along a dimension."""
    return min(count, (extent - 1 + dimension.dilated_window - 1) // dimension.stride + 1)


def _max_pooling(plan: Plan) -> Plan:
    """Returns the plan of the max pooling, with indices, whose gradient a plan computes."""
    source, pooled, attributes = plan.inputs["InputTensor"], plan.inputs["InputGradientTensor"], plan.attributes
    names = ("Strides", "WindowSize", "StartPadding", "EndPadding", "Dilations")
    desc: dict[str, object] = {name: list(getattr(attributes, name)) for name in names}
    given = {"DataType": source.data_type.name, "Sizes": list(source.sizes), "Strides": list(source.element_strides)}
    desc["InputTensor"] = given
    desc["OutputTensor"] = {"DataType": source.data_type.name, "Sizes": list(pooled.sizes)}
    desc["OutputIndicesTensor"] = {"DataType": "UINT64", "Sizes": list(pooled.sizes)}
    return check({"type": "MAX_POOLING2", "desc": desc})


class UnpoolingJob(Job):
    """Unpools planes in parallel, unless an index points into another element's plane, or there are not as many."""

    _scratch = ScratchBytes(shared=64 * PIECE)

    def __init__(self, plan: Plan) -> None:
        source, indices = plan.inputs["InputTensor"], plan.inputs["IndicesTensor"]
        target = plan.outputs["OutputTensor"]
        self._kernel = Kernel(unpooling.planes, MOVED[source.data_type.bits])
        self._kernels = (self._kernel,)
        self._units = prod(target.sizes[:2])
        self._by_plane = source.sizes[:2] == target.sizes[:2]
        self._plane_visits = source.element_count // self._units * 2 + prod(target.sizes[2:])
        self._visits = self._units * self._plane_visits
        channels, rows, columns = source.sizes[1:]
        height, width = target.sizes[2:]
        self._geometry = unpooling.Unpooling(
            channels=channels,
            rows=rows,
            columns=columns,
            height=height,
            width=width,
            elements=target.element_count,
            index_bytes=indices.data_type.bits // 8,
            source=source.element_strides,
            index=indices.element_strides,
            target=target.element_strides,
        )

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, indices, target = inputs["InputTensor"], inputs["IndicesTensor"], outputs["OutputTensor"]
        foreign = np.ones(1, np.int64)
        if self._by_plane and self._plane_visits <= LARGEST_PLANE:
            foreign[0] = 0
            geometry = self._geometry.replaced(indices=indices.ctypes.data, foreign=foreign.ctypes.data)
            step = KernelStep(self._kernel, geometry, self._units, self._plane_visits)
            kept = source, indices, target, foreign
            step.bind(source.ctypes.data, target.ctypes.data, 0, find, pool, kept)(stop)
        if foreign[0]:
            _unpool_in_order(source, indices, target, pool, stop)


def _unpool_in_order(source: Array, indices: Array, target: Array, pool: Pool, stop: Stop) -> None:
    """Unpools element by element; of elements with the same index, the last one wins."""
    rows = target.shape[:-1]
    grain = max(1, PIECE // target.shape[-1])

    def clear(begin: int, end: int) -> None:
        for row in range(begin, end):
            target[tuple(int(i) for i in np.unravel_index(row, rows))] = 0

    pool.run(clear, prod(rows), grain, stop)
    for begin in range(0, source.size, PIECE // 4):
        if stop():
            raise Stopped
        piece = slice(begin, begin + PIECE // 4)
        chosen = indices.flat[piece]
        inside = np.flatnonzero(chosen < np.uint64(target.size))
        # For duplicate indices NumPy keeps the last element.
        target[np.unravel_index(chosen[inside].astype(np.int64), target.shape)] = source.flat[piece][inside]


PREPARE = {"MAX_POOLING_GRAD": GradientJob, "MAX_UNPOOLING": UnpoolingJob}
