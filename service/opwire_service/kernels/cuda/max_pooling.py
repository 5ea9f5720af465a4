"""MAX_POOLING, MAX_POOLING1 and MAX_POOLING2: in strips for 2D images with small windows, else window by window."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.rules.dimension import Dimension
from opwire.tensor import Array, BufferTensorDesc

from .job import LOAD_BYTES, TYPES, BaseJob, Card, CudaMemory, KernelLaunch, Program, device_desc
from .structures import structure

THREADS = 256
STRIP_THREADS = 128
WIDEST_STRIP = 8
LARGEST_WINDOW, LARGEST_STEP = 7, 4
"""Limits for compiling strips: the window size, and its stride and dilation."""

READS_PER_THREAD = 16
"""Elements of a large window that justify another thread."""

LAUNCH_READS = 2**31
"""Maximum number of elements read per launch: some milliseconds."""

_RANK = 6

_POOLING = structure("Pooling", "windows")
_STRIPS = structure("Strips", "windows", "strips")


class Pooling(BaseJob):
    """The job of a max pooling plan."""

    def __init__(self, plan: Plan, card: Card) -> None:
        self._processors = card.processors
        self._source = plan.inputs["InputTensor"]
        self._target = device_desc(plan.outputs["OutputTensor"])
        indices = plan.outputs.get("OutputIndicesTensor")
        self._positions = None if indices is None else device_desc(indices)
        self._dimensions = tuple(plan.attributes.dimensions(self._source.sizes))
        kind = TYPES[self._source.data_type]
        self._macros: tuple[tuple[str, str | int], ...] = (
            ("INPUT", kind),
            ("OUTPUT", kind),
            ("POSITIONS", "u32" if indices is None else TYPES[indices.data_type]),
            ("GREATEST", 1),
            ("FIRST", 1),
            ("POSITION", 0),
        )
        self._strips = self._strip_macros()

    @property
    def programs(self) -> tuple[Program, ...]:
        sources = ("scalars", "types", "extreme", "windows")
        if self._strips is None:
            return (Program(sources, self._macros),)
        return (Program((*sources, "strips"), (*self._macros, *self._strips.items())),)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (program,) = self.programs
        task = self._parameter(memory)
        if self._strips is not None:
            yield self._strip_launch(program, task, self._strips)
            return
        outputs = self._target.element_count
        reads = prod(min(dimension.window, dimension.size) for dimension in self._dimensions)
        piece = max(1, LAUNCH_READS // reads)
        sharing = min(THREADS, 1 << (max(1, reads // READS_PER_THREAD).bit_length() - 1))
        if min(outputs, piece) >= self._processors * THREADS * 8:
            sharing = 1
        block = sharing, THREADS // sharing
        for first in range(0, outputs, piece):
            part = task.copy()
            count = min(piece, outputs - first)
            part["first"], part["outputs"] = first, count
            yield KernelLaunch(program, "pool_windows", (-(-count // block[1]), 1), block, part)

    def _parameter(self, memory: CudaMemory) -> Array:
        (task,) = whole = np.zeros(1, _POOLING)
        rank = self._source.rank
        task["source"], task["target"] = memory.inputs["InputTensor"], memory.outputs["OutputTensor"]
        task["positions"] = memory.outputs.get("OutputIndicesTensor", 0)
        task["rank"] = rank
        task["size"][:rank] = self._target.sizes
        task["source_step"][:rank] = self._source.element_strides
        task["target_step"][:rank] = self._target.element_strides
        task["position_step"][:rank] = (self._positions or self._target).element_strides
        for i, row in enumerate(self._dimensions):
            task["dimension"][i] = (row.size, row.stride, row.window, row.start, row.dilation, 0)
        return whole

    def _strip_launch(self, program: Program, task: Array, macros: dict[str, int]) -> KernelLaunch:
        strips = np.zeros(1, _STRIPS)
        strips["pooling"] = task
        planes, (height, width) = prod(self._target.sizes[:2]), self._target.sizes[2:]
        across, down = -(-width // macros["WIDE"]), -(-height // macros["TALL"])
        strips["across"], strips["down"] = across, down
        return KernelLaunch(
            program, "pool_strips", (-(-across * down * planes // STRIP_THREADS), 1), (STRIP_THREADS, 1), strips
        )

    def _strip_macros(self) -> dict[str, int] | None:
        """Returns the macros of strips for these windows, or None if strips do not apply."""
        results = [tensor for tensor in (self._target, self._positions) if tensor is not None]
        if len(self._dimensions) != 2 or not all(map(_is_small, self._dimensions)):
            return None
        if any(tensor.element_strides[3] != 1 for tensor in (self._source, *results)):
            return None
        item_bytes = self._source.data_type.dtype.itemsize
        down, across = self._dimensions
        wide = min(WIDEST_STRIP, LOAD_BYTES // item_bytes)
        own = wide * across.stride
        lanes = min(LOAD_BYTES // item_bytes, own & -own)
        whole = all(_steps_fit(tensor, wide) for tensor in results)
        return {
            "WIDE": wide,
            "TALL": min(strip_height(down), self._target.sizes[2]),
            "PACK": lanes if _steps_fit(self._source, lanes) and self._source.sizes[3] % lanes == 0 else 1,
            "STORE": wide if whole else 1,
            "INDICES": int(self._positions is not None),
            **{f"{name}_Y": value for name, value in _sizes(down).items()},
            **{f"{name}_X": value for name, value in _sizes(across).items()},
        }


def strip_height(down: Dimension) -> int:
    """Returns the number of vertically adjacent results per thread; the more input they share, the more pay off."""
    if down.window <= down.stride:
        return 1
    return 4 if down.stride == 1 else 2


def _sizes(dimension: Dimension) -> dict[str, int]:
    return {
        "WINDOW": dimension.window,
        "STRIDE": dimension.stride,
        "DILATION": dimension.dilation,
        "START": dimension.start,
    }


def _is_small(dimension: Dimension) -> bool:
    return (
        dimension.window <= LARGEST_WINDOW
        and dimension.start <= LARGEST_WINDOW
        and dimension.stride <= LARGEST_STEP
        and dimension.dilation <= LARGEST_STEP
    )


def _steps_fit(tensor: BufferTensorDesc, lanes: int) -> bool:
    """Returns whether every row begins at a multiple of ``lanes`` elements."""
    return not any(step % lanes for step in tensor.element_strides[:3])


def job(plan: Plan, card: Card) -> Pooling:
    """Returns the job of a max pooling plan."""
    return Pooling(plan, card)


JOBS = dict.fromkeys(("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"), job)
