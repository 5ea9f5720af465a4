"""UNFOLD and FOLD: images to columns of blocks, and the sums of overlapping blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, BufferTensorDesc, packed_strides

from ....execution import Arrays, Stop, Stopped
from ...reference.folds import FoldedDimension, axes_of, element_at
from ...reference.moves import view_at
from ..job import LOAD_BYTES, TYPES, BaseJob, Card, CudaJob, CudaMemory, KernelLaunch, Program
from ..structures import structure
from .view import UNITS
from .walk import PIECE, THREADS, Loop, SplitLaunch, count_of, depth_macro, merged, on_card, write_walk

_MOST_UNDECIDED = 2**16
"""Maximum number of undecided positions a GPU lists; if there are more, the host settles all results."""

MOST_SPAN = 4
"""Maximum number of adjacent window elements per thread."""


class _Dimensions:
    """Loops over the dimensions of a dense tensor, with ``steps`` additional steps each."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._loops: list[tuple[int, Loop]] = []

    def add(self, size: int, out: int, steps: Mapping[int, int]) -> None:
        """Adds a dimension: its size, its step in the tensor, and the additional steps by their index."""
        self._loops.append((out, (size, *(steps.get(i, 0) for i in range(self._steps)))))

    @property
    def loops(self) -> list[Loop]:
        ordered = sorted(self._loops, key=lambda each: each[0], reverse=True)
        return merged((loop for _, loop in ordered), self._steps)


def _columns(
    desc: BufferTensorDesc, axes: Sequence[FoldedDimension]
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Returns sizes and steps of a column tensor's batch and channels, and its steps along windows and blocks."""
    windows, blocks = [axis.window for axis in axes], [axis.blocks for axis in axes]
    batch, rows, columns = range(desc.rank - 3, desc.rank)
    strides, sizes = desc.element_strides, desc.sizes
    area = prod(windows)
    outer = [(sizes[batch], strides[batch]), (sizes[rows] // area, strides[rows] * area)]
    return outer, _scaled(windows, strides[rows]), _scaled(blocks, strides[columns])


def _scaled(sizes: Sequence[int], step: int) -> list[int]:
    return [step * packed for packed in packed_strides(sizes)]


def _images(desc: BufferTensorDesc, axes: Sequence[FoldedDimension]) -> tuple[list[tuple[int, int]], list[int]]:
    """Returns sizes and steps of an image's batch and channels, and the steps of its folded dimensions."""
    first = desc.rank - len(axes) - 2
    dimensions = list(zip(desc.sizes, desc.element_strides, strict=True))[first:]
    return dimensions[:2], [step for _, step in dimensions[2:]]


def _write_axes(axes: Sequence[FoldedDimension], steps: Sequence[int], other_steps: Sequence[int], into: Array) -> None:
    for i, axis in enumerate(axes):
        numbers = axis.size, axis.blocks, axis.window, axis.stride, axis.dilation, axis.start
        into[i] = (*numbers, steps[i], other_steps[i])


def _is_short(axis: FoldedDimension) -> bool:
    """Returns whether positions fit into 32 bits, with some to spare."""
    last = (axis.blocks - 1) * axis.stride + (axis.window + MOST_SPAN) * axis.dilation
    return max(last, axis.start, axis.size) < 2**31 - 2**8


class _Walks:
    """How threads walk the columns, and how thread blocks walk the window elements.

    Each loop has a step in the source and in the target, one for the block index of each dimension, and one for the
    window offset. If windows have loops of their own, the window offset takes the place of the block index there.

    Attributes:
        places: the loops of threads.
        blocks: the loops of thread blocks.
        apart: whether thread blocks also loop over the windows; adjacent threads then have adjacent blocks.
        inner, lanes: the dimension along which a thread takes adjacent blocks, and how many.
        span: number of adjacent window elements along that dimension per thread.
        image_steps, window_steps: steps in the image, and in the columns along the windows.
    """

    def __init__(self, source: BufferTensorDesc, target: BufferTensorDesc, axes: Sequence[FoldedDimension]) -> None:
        self._axes, item_bytes = axes, source.data_type.bits // 8
        outer, self.window_steps, self._block_steps = _columns(target, axes)
        image, self.image_steps = _images(source, axes)
        self._outer = [(size, out, step) for (size, out), (_, step) in zip(outer, image, strict=True)]
        windows = self._lay_apart(item_bytes)
        if not windows:
            self.apart, self.inner, self.span = False, 0, 1
            self.places = self._loops()
            self._take_neighbors(item_bytes)
        sharing = -(-count_of(self.places) // (THREADS * self.lanes))
        self.blocks = merged([(sharing, 1, *(0,) * (self.steps - 1)), *windows], self.steps)

    @property
    def steps(self) -> int:
        return 2 + len(self._axes) * (1 if self.apart else 2)

    @property
    def are_adjacent(self) -> bool:
        """Whether adjacent blocks and adjacent window elements are adjacent in the image, too."""
        axis = self._axes[self.inner]
        return self.apart and (axis.stride, axis.dilation, self.image_steps[self.inner]) == (1, 1, 1)

    def _lay_apart(self, item_bytes: int) -> list[Loop]:
        """Returns loops over the windows if that leaves enough threads, else an empty list."""
        self.apart = True
        self.places = self._loops()
        if not self._take_neighbors(item_bytes) or count_of(self.places) < THREADS * self.lanes:
            return []
        self.span = min(MOST_SPAN, self._axes[self.inner].window)
        return self._window_loops()

    def _take_neighbors(self, item_bytes: int) -> bool:
        """Sets ``inner`` and ``lanes``, and returns whether the innermost loop runs over adjacent blocks."""
        size, _, target, *coordinates = self.places[-1]
        self.inner, self.lanes = 0, 1
        blocks = coordinates[: len(self._axes)]
        if target == 1 and 1 in blocks:
            self.inner, self.lanes = blocks.index(1), gcd(size, LOAD_BYTES // item_bytes)
            return True
        return False

    def _loops(self) -> list[Loop]:
        found, count = _Dimensions(self.steps), len(self._axes)
        for size, out, step in self._outer:
            found.add(size, out, {0: step, 1: out})
        for i, (axis, out, window) in enumerate(zip(self._axes, self._block_steps, self.window_steps, strict=True)):
            found.add(axis.blocks, out, {1: out, 2 + i: 1})
            if not self.apart:
                found.add(axis.window, window, {1: window, 2 + count + i: 1})
        return found.loops

    def _window_loops(self) -> list[Loop]:
        found = _Dimensions(self.steps)
        for i, (axis, out) in enumerate(zip(self._axes, self.window_steps, strict=True)):
            span = self.span if i == self.inner else 1
            found.add(-(-axis.window // span), out * span, {1: out * span, 2 + i: span})
        return found.loops


class CudaUnfoldJob(BaseJob):
    """Reads each column element from the image, or writes 0."""

    def __init__(self, plan: Plan) -> None:
        source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        axes = axes_of(plan, source)
        walks = _Walks(source, target, axes)
        sources = "scalars", "movement/walk", "movement/plain", "movement/unfold"
        parameter = np.zeros(1, structure("Unfold", *sources, AXES=len(axes), STEPS=walks.steps))
        parameter["places"] = count_of(walks.places)
        _write_axes(axes, walks.image_steps, walks.window_steps, parameter["axis"][0])
        write_walk(walks.places, parameter["walk"][0])
        write_walk(walks.blocks, parameter["windows"][0])
        macros: tuple[tuple[str, str | int], ...] = (
            ("UNIT", UNITS[source.data_type.bits // 8]),
            ("AXES", len(axes)),
            ("STEPS", walks.steps),
            ("APART", int(walks.apart)),
            ("INNER", walks.inner),
            ("LANES", walks.lanes),
            ("SPAN", walks.span),
            ("ADJACENT", int(walks.are_adjacent)),
            ("POSITION", "i32" if all(map(_is_short, axes)) else "i64"),
            depth_macro(walks.places),
            ("WINDOW_DEPTH", depth_macro(walks.blocks)[1]),
        )
        program = Program(sources, macros)
        piece = PIECE // (THREADS * walks.span)
        self._part = SplitLaunch(program, "unfold", parameter, count_of(walks.blocks), 1, piece)
        self.programs = (program,)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        return self._part.launches(memory.inputs["InputTensor"], memory.outputs["OutputTensor"])


class CudaFoldJob(BaseJob):
    """Computes each image element as the sum of its column elements."""

    def __init__(self, plan: Plan) -> None:
        self._source, self._target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        self._axes = axes_of(plan, self._target)
        outer, windows, blocks = _columns(self._source, self._axes)
        image, steps = _images(self._target, self._axes)
        dimensions = _Dimensions(1 + len(self._axes))
        for (size, out), (_, step) in zip(image, outer, strict=True):
            dimensions.add(size, out, {0: step})
        for i, axis in enumerate(self._axes):
            dimensions.add(axis.size, steps[i], {1 + i: 1})
        loops = dimensions.loops
        sources = "scalars", "rounding", "movement/walk", "movement/fold"
        parameter = np.zeros(1, structure("Fold", *sources, AXES=len(self._axes), STEPS=1 + len(self._axes)))
        _write_axes(self._axes, windows, blocks, parameter["axis"][0])
        write_walk(loops, parameter["walk"][0])
        data_type = self._target.data_type
        self._room = min(self._target.element_count, _MOST_UNDECIDED) if data_type.is_float else 0
        parameter["room"] = self._room
        kind = TYPES[data_type] if data_type.is_float else f"u{data_type.bits}"
        macros = ("TYPE", kind), ("REAL", int(data_type.is_float)), ("AXES", len(self._axes))
        program = Program(sources, (*macros, ("STEPS", 1 + len(self._axes)), depth_macro(loops)))
        terms = prod(min(axis.window, axis.blocks) for axis in self._axes)
        self._part = SplitLaunch(program, "fold", parameter, count_of(loops), THREADS, piece=max(1, PIECE // terms))
        self.programs = (program,)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        return self._part.launches(memory.inputs["InputTensor"], memory.outputs["OutputTensor"], memory.undecided)

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.settle``; a place is the element's index in the output's memory order, and 0."""
        whole = self._source.view(inputs["InputTensor"])
        columns = view_at(whole, (0,) * (whole.ndim - 3))
        target = outputs["OutputTensor"]
        for place in range(target.size) if places is None else places[:, 0].tolist():
            if stop():
                raise Stopped
            coordinate = self._coordinate(place)[-2 - len(self._axes) :]
            target[place] = element_at(columns, self._target.data_type, self._axes, coordinate, stop)

    def _coordinate(self, place: int) -> tuple[int, ...]:
        """Returns the coordinate of an image element, given its position in memory."""
        found = [0] * self._target.rank
        strides = self._target.element_strides
        for i in sorted(range(len(found)), key=strides.__getitem__, reverse=True):
            if self._target.sizes[i] > 1:
                found[i], place = divmod(place, strides[i])
        return tuple(found)


def _unfold(plan: Plan, card: Card) -> CudaJob:
    return CudaUnfoldJob(on_card(plan))


def _fold(plan: Plan, card: Card) -> CudaJob:
    return CudaFoldJob(on_card(plan))


JOBS = {"UNFOLD": _unfold, "FOLD": _fold}
