"""UNFOLD and FOLD: images as columns of blocks, and their sums where the blocks overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, BufferTensorDesc, packed_strides

from ....execution import Arrays, Stop, Stopped
from ...reference.folds import Axis, axes_of, element_at
from ...reference.moves import view_at
from ..job import LOAD_BYTES, TYPES, CudaJob, CudaMemory, KernelLaunch, Program
from .view import UNITS
from .walk import PIECE, THREADS, CertainJob, Loop, Part, count_of, depth_macro, on_card, walk_type, write_walk

UNCERTAIN = 2**16
"""The most places of uncertain results that a card lists; if there are more, all are computed again."""

_AXIS = np.dtype(
    [(name, "<u4") for name in ("size", "blocks", "window", "stride", "dilation", "start", "step", "block_step")]
)


def _head(addresses: Sequence[str], numbers: Sequence[str], axes: int, steps: int) -> np.dtype[np.void]:
    return np.dtype(
        [
            *((name, "<u8") for name in addresses),
            *((name, "<u4") for name in numbers),
            ("axis", _AXIS, (axes,)),
            ("walk", walk_type(steps)),
        ]
    )


class _Dimensions:
    """Loops over the dimensions of a dense tensor, with steps elsewhere."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._loops: list[tuple[int, Loop]] = []

    def add(self, size: int, out: int, source: int = 0, coordinate: int | None = None) -> None:
        """A dimension: its size, its step in the tensor, that in the source, and which offset counts it."""
        steps = [source, *(0,) * (self._steps - 1)]
        if coordinate is not None:
            steps[coordinate] = 1
        if size > 1:
            self._loops.append((out, (size, *steps)))

    @property
    def loops(self) -> list[Loop]:
        ordered = sorted(self._loops, key=lambda each: each[0], reverse=True)
        return [loop for _, loop in ordered] or [(1, *(0,) * self._steps)]


def _columns(desc: BufferTensorDesc, axes: Sequence[Axis]) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Of columns the sizes and steps of batch and channels, and the steps of the windows and of the blocks."""
    windows, blocks = [axis.window for axis in axes], [axis.blocks for axis in axes]
    batch, rows, columns = range(desc.rank - 3, desc.rank)
    strides, sizes = desc.element_strides, desc.sizes
    area = prod(windows)
    outer = [(sizes[batch], strides[batch]), (sizes[rows] // area, strides[rows] * area)]
    return outer, _scaled(windows, strides[rows]), _scaled(blocks, strides[columns])


def _scaled(sizes: Sequence[int], step: int) -> list[int]:
    return [step * packed for packed in packed_strides(sizes)]


def _images(desc: BufferTensorDesc, axes: Sequence[Axis]) -> tuple[list[tuple[int, int]], list[int]]:
    """Of an image the sizes and steps of batch and channels, and the steps of the dimensions that are folded."""
    first = desc.rank - len(axes) - 2
    dimensions = list(zip(desc.sizes, desc.element_strides, strict=True))[first:]
    return dimensions[:2], [step for _, step in dimensions[2:]]


def _write_axes(axes: Sequence[Axis], steps: Sequence[int], block_steps: Sequence[int], into: Array) -> None:
    for i, axis in enumerate(axes):
        numbers = axis.size, axis.blocks, axis.window, axis.stride, axis.dilation, axis.start
        into[i] = (*numbers, steps[i], block_steps[i])


def _neighbours(loop: Loop, item_bytes: int) -> tuple[int, int]:
    """The dimension along which a thread takes neighbouring blocks, and how many: the innermost loop may be that."""
    size, _, *coordinates = loop
    blocks = coordinates[1::2]
    if 1 not in blocks:
        return 0, 1
    return blocks.index(1), gcd(size, LOAD_BYTES // item_bytes)


class UnfoldJob(CertainJob):
    """Each element of the columns from the image, or 0."""

    def __init__(self, plan: Plan) -> None:
        source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        axes = axes_of(plan, source)
        outer, windows, blocks = _columns(target, axes)
        image, steps = _images(source, axes)
        dimensions = _Dimensions(1 + 2 * len(axes))
        for (size, out), (_, step) in zip(outer, image, strict=True):
            dimensions.add(size, out, step)
        for i, axis in enumerate(axes):
            dimensions.add(axis.window, windows[i], coordinate=1 + 2 * i)
            dimensions.add(axis.blocks, blocks[i], coordinate=2 + 2 * i)
        loops = dimensions.loops
        head = _head(("source", "target"), ("first", "count"), len(axes), 1 + 2 * len(axes))
        parameter = np.zeros(1, head)
        _write_axes(axes, steps, [0] * len(axes), parameter["axis"][0])
        write_walk(loops, parameter["walk"][0])
        inner, lanes = _neighbours(loops[-1], source.data_type.bits // 8)
        macros = ("UNIT", UNITS[source.data_type.bits // 8]), ("AXES", len(axes)), ("STEPS", 1 + 2 * len(axes))
        sources = ("scalars", "movement/walk", "movement/plain", "movement/unfold")
        program = Program(sources, (*macros, ("INNER", inner), ("LANES", lanes), depth_macro(loops)))
        self._part = Part(program, "unfold", parameter, count_of(loops), THREADS * lanes)
        self.programs = (program,)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        return self._part.launches(memory.inputs["InputTensor"], memory.outputs["OutputTensor"])


class FoldJob(CertainJob):
    """Each element of the image as the sum of those that the columns have for it."""

    def __init__(self, plan: Plan) -> None:
        self._source, self._target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        self._axes = axes_of(plan, self._target)
        outer, windows, blocks = _columns(self._source, self._axes)
        image, steps = _images(self._target, self._axes)
        dimensions = _Dimensions(1 + len(self._axes))
        for (size, out), (_, step) in zip(image, outer, strict=True):
            dimensions.add(size, out, step)
        for i, axis in enumerate(self._axes):
            dimensions.add(axis.size, steps[i], coordinate=1 + i)
        loops = dimensions.loops
        names = ("source", "target", "uncertain"), ("first", "count", "room", "unused")
        parameter = np.zeros(1, _head(*names, len(self._axes), 1 + len(self._axes)))
        _write_axes(self._axes, windows, blocks, parameter["axis"][0])
        write_walk(loops, parameter["walk"][0])
        data_type = self._target.data_type
        self._room = min(self._target.element_count, UNCERTAIN) if data_type.is_float else 0
        parameter["room"] = self._room
        kind = TYPES[data_type] if data_type.is_float else f"u{data_type.bits}"
        macros = ("TYPE", kind), ("REAL", int(data_type.is_float)), ("AXES", len(self._axes))
        sources = ("scalars", "rounding", "movement/walk", "movement/fold")
        program = Program(sources, (*macros, ("STEPS", 1 + len(self._axes)), depth_macro(loops)))
        terms = prod(min(axis.window, axis.blocks) for axis in self._axes)
        self._part = Part(program, "fold", parameter, count_of(loops), THREADS, piece=max(1, PIECE // terms))
        self.programs = (program,)
        self.uncertain_bytes = 8 + 8 * self._room if self._room else 0

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        return self._part.launches(memory.inputs["InputTensor"], memory.outputs["OutputTensor"], memory.uncertain)

    def recompute(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.recompute``; a place is that of the element in the order of the output's memory, and 0."""
        whole = self._source.view(inputs["InputTensor"])
        columns = view_at(whole, (0,) * (whole.ndim - 3))
        target = outputs["OutputTensor"]
        for place in range(target.size) if places is None else places[:, 0].tolist():
            if stop():
                raise Stopped
            coordinate = self._coordinate(place)[-2 - len(self._axes) :]
            target[place] = element_at(columns, self._target.data_type, self._axes, coordinate, stop)

    def _coordinate(self, place: int) -> tuple[int, ...]:
        """The coordinate of an element of the image, by its place in memory."""
        found = [0] * self._target.rank
        strides = self._target.element_strides
        for i in sorted(range(len(found)), key=strides.__getitem__, reverse=True):
            if self._target.sizes[i] > 1:
                found[i], place = divmod(place, strides[i])
        return tuple(found)


def _unfold(plan: Plan, processors: int) -> CudaJob:
    return UnfoldJob(on_card(plan))


def _fold(plan: Plan, processors: int) -> CudaJob:
    return FoldJob(on_card(plan))


JOBS = {"UNFOLD": _unfold, "FOLD": _fold}
