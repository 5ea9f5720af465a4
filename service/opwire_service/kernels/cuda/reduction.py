"""How a reduction is distributed over the threads of a GPU, whatever it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from opwire.tensor import Array, BufferTensorDesc

from ...execution import Arrays, Stop
from ..layout import Loop, ReductionLayout, coordinates, reduction_layout
from .job import LOAD_BYTES, MOST_UNDECIDED, TYPES, BaseJob, CudaMemory, KernelLaunch, Program, device_desc
from .nests import division
from .structures import structure

THREADS = 256
ROW_THREADS = 128
"""Maximum threads per row if there are many rows; with more of them the final merge dominates."""

LOADS = 32
"""Minimum loads that justify another thread: merging two threads costs as much as several elements."""

NARROWEST = 64
"""Minimum adjacent threads in a block, if there are that many columns: together they read 1 KiB."""

NARROWEST_ROW = 8
"""Minimum threads per row if more would be justified: together they read 128 bytes."""

MOST_TERMS = 8192
"""Maximum number of terms per thread; a double adds this many FLOAT16 exactly."""

BLOCKS_PER_PROCESSOR = 4
"""Blocks that a multiprocessor can hold at 64 registers per thread, for which most kernels are compiled."""

QUICK_FROM = 2**16
"""Minimum number of elements that justify a quick pass followed by a settling pass."""


TASK = structure("Task", "types", "loops", "reduction", LOOPS=8)

_BYTES = np.dtype((np.void, TASK.itemsize))

Settle = Callable[[Array, Stop], Any]
"""Returns the exact result for a view of the elements of one output."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The resources that the threads of a kernel use; results do not depend on them.

    Attributes:
        lanes: maximum number of columns per thread; each needs registers.
        row_batch, column_batch: loads in flight per thread, for parts of a row and for columns.
        row_blocks, column_blocks: minimum number of blocks resident per multiprocessor, which limits the registers.
    """

    lanes: int = 16
    row_batch: int = 4
    column_batch: int = 4
    row_blocks: int = 4
    column_blocks: int = 4


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The computation of a reduction: a source that defines ``Accumulator``, its size, and its macros.

    Attributes:
        settle: the exact path for results that the kernel does not certify, or None if it always does.
        ordered: whether the positions of the elements matter.
        tuning: resources of its threads.
        quick: a faster accumulator that computes most results; the ones it cannot certify are settled by this one.
        needs: sources that its own needs.
    """

    source: str
    size_in_bytes: int
    macros: tuple[tuple[str, str | int], ...]
    settle: Settle | None = None
    ordered: bool = False
    tuning: Tuning = Tuning()
    quick: Accumulator | None = None
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReductionGeometry:
    """The loops, blocks and splits of a reduction.

    Attributes:
        rows: whether threads are laid along the reduced elements rather than along the kept ones.
        lanes: adjacent elements per load.
        kept, reduced: loops over loads, outermost first.
        block: threads along x and y.
        splits: number of parts that the reduced elements of each output are divided into.
        stretch: loads per part; column threads read their part sequentially, row threads interleave load by load.
    """

    rows: bool
    lanes: int
    kept: tuple[Loop, ...]
    reduced: tuple[Loop, ...]
    block: tuple[int, int]
    splits: int
    stretch: int

    @property
    def outputs(self) -> int:
        return prod(loop.size for loop in self.kept)

    @property
    def items(self) -> int:
        return prod(loop.size for loop in self.reduced)

    @property
    def grid(self) -> tuple[int, int]:
        along = self.block[1] if self.rows else self.block[0]
        return -(-self.outputs // along), self.splits

    @property
    def depth(self) -> int:
        """Maximum number of additions that any term takes part in."""
        sharing = self.block[0] if self.rows else self.block[1]
        own = -(-self.stretch // sharing) * (self.lanes if self.rows else 1)
        return own + sharing + self.splits + 16


def geometry(layout: ReductionLayout, item_bytes: int, processors: int, tuning: Tuning) -> ReductionGeometry:
    """Distributes a reduction over the threads of a GPU.

    Args:
        layout: the loops of the reduction.
        item_bytes: bytes per input element.
        processors: number of multiprocessors.
        tuning: tuning of the kernel that does most of the work.
    """
    kept, reduced = layout.kept, layout.reduced
    inner_kept = kept[-1].source if kept else 0
    inner_reduced = reduced[-1].source if reduced else 0
    rows = not kept or inner_reduced == 1 or (bool(reduced) and 1 != inner_kept >= inner_reduced)
    if rows:
        lanes = _lanes(reduced, kept, LOAD_BYTES // item_bytes)
        reduced = _by_lanes(reduced, lanes)
    else:
        lanes = _lanes(kept, reduced, min(LOAD_BYTES // item_bytes, tuning.lanes))
        kept = _by_lanes(kept, lanes)
    outputs, items = prod(loop.size for loop in kept), prod(loop.size for loop in reduced)
    wanted = processors * (tuning.row_blocks if rows else tuning.column_blocks)
    if rows:
        sharing = _sharing(outputs, items, wanted)
        block = sharing, THREADS // sharing
        blocks = -(-outputs // block[1])
    else:
        along = min(THREADS, _power_above(outputs))
        most = _power_below(max(1, items // LOADS))
        while along > NARROWEST and 10 * outputs < 9 * wanted * along and most * along > THREADS:
            along //= 2
        sharing = min(THREADS // along, most)
        block = along, sharing
        blocks = -(-outputs // along)
    longest = MOST_TERMS // lanes if rows else MOST_TERMS
    splits = max(1, min(wanted // blocks, items // (sharing * LOADS)), -(-items // (sharing * longest)))
    stretch = -(-items // splits)
    return ReductionGeometry(rows, lanes, kept, reduced, block, -(-items // stretch), stretch)


def _sharing(outputs: int, items: int, wanted: int) -> int:
    """Returns the threads per row; with many rows fewer than justified, but enough for contiguous reads."""
    most = _power_below(max(1, items // LOADS))
    if outputs < wanted:
        return min(most, THREADS)
    return min(most, ROW_THREADS, max(most // 2, NARROWEST_ROW))


def _power_below(number: int) -> int:
    return 1 << (number.bit_length() - 1)


def _power_above(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _lanes(inner: Sequence[Loop], others: Sequence[Loop], full: int) -> int:
    """Returns the elements per load, at most ``full``, such that they are contiguous and every load is aligned."""
    if not inner or inner[-1].source != 1:
        return 1
    steps = [inner[-1].size, *(loop.source for loop in (*inner[:-1], *others))]
    choices = (lanes for lanes in (full, full // 2, full // 4) if lanes > 1)
    return next((lanes for lanes in choices if not any(step % lanes for step in steps)), 1)


def _by_lanes(loops: tuple[Loop, ...], lanes: int) -> tuple[Loop, ...]:
    if lanes == 1:
        return loops
    inner = loops[-1]
    return (*loops[:-1], Loop(inner.size // lanes, inner.source * lanes, inner.target * lanes))


def loops_parameter(loops: Sequence[Loop], into: Array) -> None:
    """Writes loops, given outermost first, with the magic numbers that replace division by multiplication."""
    into["count"] = len(loops)
    for i, loop in enumerate(reversed(loops)):
        into["loop"][i] = (*loop, *division(loop.size))


class Reduction(BaseJob):
    """The job of a reduction.

    Args:
        source, target: the tensors.
        axes: the reduced axes.
        accumulator: the computation.
        processors: number of multiprocessors.
    """

    def __init__(
        self,
        source: BufferTensorDesc,
        target: BufferTensorDesc,
        axes: tuple[int, ...],
        accumulator: Accumulator,
        processors: int,
    ) -> None:
        self._accumulator = accumulator
        self._processors = processors
        self._layout = reduction_layout(source, device_desc(target), axes, ordered=accumulator.ordered)
        first = (accumulator.quick or accumulator).tuning
        tuning = replace(first, lanes=min(first.lanes, accumulator.tuning.lanes))
        self._geometry = geometry(self._layout, source.data_type.dtype.itemsize, processors, tuning)
        self._types = ("INPUT", TYPES[source.data_type]), ("OUTPUT", TYPES[target.data_type])
        passes: tuple[tuple[str, Accumulator], ...] = (("ONLY", accumulator),)
        if accumulator.quick is not None and self._layout.kept_count * self._layout.reduced_count >= QUICK_FROM:
            passes = ("QUICK", accumulator.quick), ("SETTLE", accumulator)
        self._passes = tuple((self._program(name, each), each) for name, each in passes)
        blocks, splits = self._geometry.grid[0], self._geometry.splits
        self.state_bytes = 4 * (1 + blocks) if len(passes) > 1 else 0  # marks
        if splits > 1:
            self.scratch_bytes = splits * self._layout.kept_count * max(each.size_in_bytes for _, each in passes)
            self.state_bytes += 4 * blocks
        self._room = min(self._layout.kept_count, MOST_UNDECIDED) if accumulator.settle else 0
        # Raw bytes are copied faster than fields.
        self._launches = tuple(replace(launch, parameter=launch.parameter.view(_BYTES)) for launch in self._prepared())

    def _program(self, name: str, accumulator: Accumulator) -> Program:
        macros: tuple[tuple[str, str | int], ...] = (
            *self._types,
            ("PASS", name),
            ("LANES", self._geometry.lanes),
            ("ROW_BATCH", accumulator.tuning.row_batch),
            ("ROW_BLOCKS", accumulator.tuning.row_blocks),
            ("COLUMN_BLOCKS", accumulator.tuning.column_blocks),
            ("COLUMN_BATCH", accumulator.tuning.column_batch),
            ("ACCUMULATOR_BYTES", accumulator.size_in_bytes),
            *accumulator.macros,
        )
        sources = (*accumulator.needs, accumulator.source, "reduction")
        return Program(("scalars", "types", "rounding", "loops", *sources), macros)

    @property
    def programs(self) -> tuple[Program, ...]:
        return tuple(program for program, _ in self._passes)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        addresses = (
            memory.inputs["InputTensor"],
            memory.outputs["OutputTensor"],
            memory.scratch,
            memory.undecided,
            memory.state,
        )
        for launch in self._launches:
            parameter = launch.parameter.copy()
            parameter.view("<u8")[: len(addresses)] = addresses
            yield KernelLaunch(launch.program, launch.entry, launch.grid, launch.block, parameter)

    def _prepared(self) -> Iterator[KernelLaunch]:
        """Yields the launches, without addresses."""
        shape = self._geometry
        (task,) = whole = np.zeros(1, TASK)
        along = shape.block[1] if shape.rows else shape.block[0] * shape.lanes
        task["room"], task["share"], task["blocks"] = self._room, along, shape.grid[0]
        task["terms"] = shape.depth, self._layout.reduced_count, 0
        task["outputs"], task["items"] = shape.outputs, shape.items
        task["stretch"], task["splits"] = shape.stretch, shape.splits
        loops_parameter(shape.kept, task["kept"])
        loops_parameter(shape.reduced, task["reduced"])
        entry = "reduce_rows" if shape.rows else "reduce_columns"
        for number, program in enumerate(self.programs):
            # Repairs only scan the marks; usually there is nothing to do.
            blocks = min(shape.grid[0], self._processors * BLOCKS_PER_PROCESSOR) if number else shape.grid[0]
            yield KernelLaunch(program, entry, (blocks, shape.splits), shape.block, whole)

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.settle``; a place is the offset of an output's first input element, and its own offset."""
        assert self._accumulator.settle is not None  # nothing is undecided without it
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        sizes = tuple(loop.size for loop in self._layout.reduced)
        strides = tuple(loop.source * source.itemsize for loop in self._layout.reduced)
        for start, place in self._all_places() if places is None else places.tolist():
            elements = np.lib.stride_tricks.as_strided(source[start:], sizes, strides, writeable=False)
            target[place] = self._accumulator.settle(elements, stop)

    def _all_places(self) -> Iterator[tuple[int, int]]:
        kept = self._layout.kept
        for index in coordinates([loop.size for loop in kept]):
            yield (
                sum(i * loop.source for i, loop in zip(index, kept, strict=True)),
                sum(i * loop.target for i, loop in zip(index, kept, strict=True)),
            )
