"""Jobs that compute each element from a reduction over its row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from opwire.tensor import Array, BufferTensorDesc

from ....execution import Arrays, Stop, Stopped
from ..job import LOAD_BYTES, MOST_UNDECIDED, TYPES, CudaMemory, KernelLaunch, Program, SingleProgramJob, device_desc
from ..nests import in_packs, offsets, size_of, stretched_strides, write_nest
from ..pair_source import PAIRS
from ..structures import structure
from .shape import HELD_BYTES, HELD_KEPT, nests_of, row_shape

TENSORS = ("source", "target", "scale", "bias", "added", "mean", "variance")
"""Tensors in the order in which the sources number them."""

LAUNCH_ELEMENTS = 2**28
"""Maximum elements per launch, so that it takes only a few milliseconds; a single row may have more."""

STATISTIC = 2**32 - 1
"""Stands in place of an element's index for the statistics of its row."""

PREFETCHED_BYTES = 2**15
"""Prefetch distance of rows, in bytes per multiprocessor: half of what the blocks in flight hold in registers."""

HOST_AT_ONCE = 4096
"""Elements that the host computes between two calls of ``stop``."""


_TASK = structure("Task", "nests", "normalization/numbers", "normalization/rows", TENSORS=len(TENSORS))


class Exact(Protocol):
    """Computes exact results of a row on the host."""

    def __call__(self, row: Array, values: Array, beside: Mapping[str, Array], stop: Stop) -> Array:
        """Returns the exact results of some elements.

        Args:
            row: all elements of the row.
            values: the elements to compute, 1-dimensional.
            beside: the corresponding elements of the other inputs, by name.
            stop: called periodically to check for cancellation.
        """
        ...


class ExactStatistics(Protocol):
    """Computes the exact mean and variance of a row on the host, as elements of the output."""

    def __call__(self, row: Array, stop: Stop) -> tuple[object, object]: ...


@dataclass(frozen=True, slots=True)
class RowKernels:
    """Kernels of one family of row operators.

    Attributes:
        source: the file that defines ``State`` and ``Row``, preceded by the files that it needs.
        state_bytes, row_bytes: the sizes of ``State`` and ``Row``.
        macros: macros of the source.
        generated: see ``Program``.
        functions: generated source that precedes ``source``.
        exact: computes the results that the kernel does not certify; None if it certifies all.
        statistics: the same for mean and variance where they are outputs.
        ordered: whether the positions of elements within their row matter.
        given: whether mean and variance are inputs.
        keeps: whether threads keep a term for each element that they hold.
        prefetches: whether blocks that hold a row prefetch later ones.
        in_pairs: whether rows are computed in pairs of floats.
        resums: whether what this leaves undecided is settled by summing the row again, as described in ``rows.cu``.
        shared: the kernels of rows that several blocks share, if others.
        epsilon: value added to the variance or the squared length.
        count: what sums are divided by, or None for the number of elements.
    """

    source: tuple[str, ...]
    state_bytes: int
    row_bytes: int
    macros: tuple[tuple[str, str | int], ...] = ()
    generated: str = ""
    functions: str = ""
    exact: Exact | None = None
    statistics: ExactStatistics | None = None
    ordered: bool = False
    given: bool = False
    keeps: bool = False
    prefetches: bool = False
    in_pairs: bool = False
    resums: bool = False
    shared: RowKernels | None = None
    epsilon: float = 0.0
    count: int | None = None


class SideTensor(NamedTuple):
    """Tensor other than the main input and output: its name in the plan, its desc, and whether it is an output."""

    name: str
    desc: BufferTensorDesc
    is_output: bool = False


class NormalizationJob(SingleProgramJob):
    """Job that normalizes the rows of a tensor.

    Args:
        source, target: the main input and output.
        beside: the other tensors, by their names in ``TENSORS``.
        axes: the axes that make up a row.
        kernels: the kernels to run.
        processors: number of multiprocessors of the GPU.
    """

    def __init__(
        self,
        source: BufferTensorDesc,
        target: BufferTensorDesc,
        beside: Mapping[str, SideTensor],
        axes: Sequence[int],
        kernels: RowKernels,
        processors: int,
    ) -> None:
        self._beside, self._element = beside, source.data_type
        descs = {name: device_desc(each.desc) if each.is_output else each.desc for name, each in beside.items()}
        strides = [
            source.element_strides,
            device_desc(target).element_strides,
            *(stretched_strides(descs.get(name), source.sizes) for name in TENSORS[2:]),
        ]
        self._kept, self._reduced = nests_of(source.sizes, strides, axes, ordered=kernels.ordered)
        item_bytes = source.data_type.dtype.itemsize
        held = HELD_KEPT if kernels.keeps else HELD_BYTES // item_bytes
        shape = row_shape(self._kept, self._reduced, item_bytes, processors, held)
        self._shape = replace(shape, held=0) if kernels.given else shape
        self._kernels = kernels.shared or kernels if shape.splits > 1 else kernels
        self._prefetched = self._blocks_ahead(processors) if kernels.prefetches else 0
        self._program = self._made()
        rows, elements = size_of(self._kept), size_of(self._reduced)
        self._piece = max(1, LAUNCH_ELEMENTS // elements // self._shape.outputs_of_block) * self._shape.outputs_of_block
        if self._shape.splits > 1:
            each = self._shape.splits * self._kernels.state_bytes + self._kernels.row_bytes
            self.scratch_bytes = min(self._piece, rows) * each
        self._room = min(rows * (elements + 1), MOST_UNDECIDED) if self._kernels.exact else 0

    def _made(self) -> Program:
        shape, kernels = self._shape, self._kernels
        macros: tuple[tuple[str, str | int], ...] = (
            ("ELEMENT", TYPES[self._element]),
            ("TENSORS", len(TENSORS)),
            ("LANES", shape.lanes),
            ("BY_ROWS", int(shape.by_rows)),
            ("SHARING", shape.sharing),
            ("STRAIGHT", int(len(self._reduced) <= 1)),
            ("FULL", int(shape.held * shape.sharing == shape.items)),
            ("BLOCK", shape.block[0] * shape.block[1]),
            ("HELD", shape.held),
            ("RESIDENT", shape.resident),
            ("PREFETCHED", self._prefetched),
            ("BATCH", shape.batch),
            ("STATE_BYTES", kernels.state_bytes),
            ("ROW_BYTES", kernels.row_bytes),
            ("STATISTICS", int(kernels.statistics is not None)),
            ("GIVEN", int(kernels.given)),
            ("PAIRS", int(kernels.in_pairs)),
            ("RESUMS", int(kernels.resums)),
            *((name.upper(), self._walk(name)) for name in ("scale", "bias", "added")),
            *kernels.macros,
        )
        sources = (
            "scalars",
            "floats",
            "certified",
            "nests",
            *(PAIRS if kernels.in_pairs else ()),
            "normalization/numbers",
            "normalization/lanes",
        )
        own = *kernels.source, "normalization/joins", "normalization/rows"
        if kernels.functions:
            return Program(sources, macros, kernels.functions, own)
        return Program((*sources, *own), macros, kernels.generated)

    def _blocks_ahead(self, processors: int) -> int:
        """Prefetch distance in blocks; 0 unless a block holds a single row that it reads with full-width loads."""
        shape, item_bytes = self._shape, self._element.dtype.itemsize
        is_dense = len(self._reduced) == 1 and shape.lanes * item_bytes == LOAD_BYTES
        if not (shape.held and shape.outputs_of_block == 1 and is_dense):
            return 0
        return processors * PREFETCHED_BYTES // (size_of(self._reduced) * item_bytes)

    def _walk(self, name: str) -> str:
        if name not in self._beside:
            return "NOTHING"
        lanes, number = self._shape.lanes, TENSORS.index(name)
        if lanes == 1:
            return "GATHER"
        *others, inner = *self._kept, *self._reduced
        if inner.steps[number] == 0:
            return "SAME"
        is_dense = inner.steps[number] == 1 and not any(axis.steps[number] % lanes for axis in others)
        return "DENSE" if is_dense else "GATHER"

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (task,) = whole = np.zeros(1, _TASK)
        task["source"], task["target"] = memory.inputs["InputTensor"], memory.outputs["OutputTensor"]
        for name, each in self._beside.items():
            task[name] = (memory.outputs if each.is_output else memory.inputs)[each.name]
        shape, kept = self._shape, size_of(self._kept)
        task["undecided"], task["room"] = memory.undecided, self._room
        epsilon = self._kernels.epsilon + 0.0  # turns -0 into 0
        count = self._kernels.count or size_of(self._reduced)
        grains = shape.grains(is_half=self._element.dtype.itemsize == 2)
        task["numbers"] = (epsilon, shape.depth, 1 / count, count, epsilon, *grains)
        task["items"], task["stretch"], task["splits"] = shape.items, shape.stretch, shape.splits
        task["step"] = [step % 2**32 for step in self._reduced[-1].steps] if self._reduced else 0
        write_nest(self._kept, task["kept"])
        write_nest(in_packs(self._reduced, shape.lanes), task["reduced"])
        task["partial"] = memory.scratch
        for first in range(0, kept, self._piece):
            part = whole.copy()
            count = min(self._piece, kept - first)
            part["first"], part["outputs"] = first, count
            part["rows"] = memory.scratch + count * shape.splits * self._kernels.state_bytes
            yield from self._of_piece(count, part)

    def _of_piece(self, outputs: int, task: Array) -> Iterator[KernelLaunch]:
        shape = self._shape
        grid = -(-outputs // shape.outputs_of_block)
        if self._kernels.given:
            yield KernelLaunch(self._program, "put_rows", (grid, shape.splits), shape.block, task)
        elif shape.splits == 1:
            entry = "held_rows" if shape.held else "whole_rows"
            yield KernelLaunch(self._program, entry, (grid, 1), shape.block, task)
        else:
            joining = 32, shape.block[0] * shape.block[1] // 32
            yield KernelLaunch(self._program, "split_rows", (grid, shape.splits), shape.block, task)
            yield KernelLaunch(self._program, "join_splits", (-(-outputs // joining[1]), 1), joining, task)
            yield KernelLaunch(self._program, "put_rows", (grid, shape.splits), shape.block, task)

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.settle``; a place is the number of a row and the index of an element in it."""
        for row, indices in self._all_places() if places is None else _by_row(places):
            if stop():
                raise Stopped
            self._settle_row(row, indices, inputs, outputs, stop)

    def _settle_row(self, row: int, indices: Array, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        starts = [int(offsets(self._kept, np.array([row]), number)[0]) for number in range(len(TENSORS))]
        source = inputs["InputTensor"]
        sizes = [axis.size for axis in self._reduced]
        strides = [axis.steps[0] * source.itemsize for axis in self._reduced]
        view = np.lib.stride_tricks.as_strided(source[starts[0] :], sizes, strides, writeable=False)
        elements = indices[indices != STATISTIC]
        if self._kernels.statistics is not None and elements.size < indices.size:
            found = self._kernels.statistics(view, stop)
            for name, value in zip(("mean", "variance"), found, strict=True):
                outputs[self._beside[name].name][starts[TENSORS.index(name)]] = value
        if not elements.size or self._kernels.exact is None:
            return

        def at(number: int) -> Array:
            found: Array = starts[number] + offsets(self._reduced, elements, number)
            return found

        beside = {
            name: inputs[each.name][at(TENSORS.index(name))]
            for name, each in self._beside.items()
            if not each.is_output
        }
        outputs["OutputTensor"][at(1)] = self._kernels.exact(view, source[at(0)], beside, stop)

    def _all_places(self) -> Iterator[tuple[int, Array]]:
        elements = size_of(self._reduced)
        for row in range(size_of(self._kept)):
            for first in range(0, elements, HOST_AT_ONCE):
                indices = np.arange(first, min(first + HOST_AT_ONCE, elements))
                is_last = first + HOST_AT_ONCE >= elements and self._kernels.statistics is not None
                yield row, np.append(indices, STATISTIC) if is_last else indices


def _by_row(places: Array) -> Iterator[tuple[int, Array]]:
    """Groups places by row and yields the indices of each row in pieces of at most ``HOST_AT_ONCE``."""
    order = np.argsort(places[:, 0], kind="stable")
    rows, indices = places[order, 0], places[order, 1].astype(np.int64)
    bounds = [0, *(np.flatnonzero(np.diff(rows)) + 1).tolist(), rows.size]
    for begin, end in pairwise(bounds):
        for first in range(begin, end, HOST_AT_ONCE):
            yield int(rows[first]), indices[first : min(first + HOST_AT_ONCE, end)]
