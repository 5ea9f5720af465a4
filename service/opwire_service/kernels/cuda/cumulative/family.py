"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT, with one or more threads per line, or lines in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from math import gcd
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop, Stopped
from ...exact import FORMATS, Sum, multiply
from ...reference.elements import Elements
from ..job import LOAD_BYTES, MOST_UNDECIDED, TYPES, BaseJob, Card, CudaJob, CudaMemory, KernelLaunch, Program
from ..movement.walk import (
    PIECE,
    THREADS,
    Loop,
    SplitLaunch,
    count_of,
    depth_macro,
    merged,
    on_card,
    write_walk,
)
from ..structures import structure

SHARE = 16
"""Elements per thread where threads share a line or a chunk; half as many for 8-byte elements of a chunk."""

SHARED_BYTES = 47 * 1024
"""Maximum shared memory of a block whose threads share lines.

Each thread keeps its elements, one element of padding and a running value there.
"""

PREFETCHED_BYTES = 2**14
"""Prefetch distance of chunks, in bytes per multiprocessor."""

LONGEST_WALK = 2**17
"""Maximum elements of a line that a single thread walks, which takes a few milliseconds."""

FEWEST = 64
"""Minimum lines per multiprocessor for one thread per line."""

MOST_IN_FLOATS = 2**16
"""Maximum elements of a line whose product is computed in floats. With so many, one result in 2**26 is undecided."""

EXACTLY = 1024
"""Elements that the host accumulates between two calls of ``stop``."""

_SUM = tuple((name, 0) for name in ("SQUARED", "MAGNITUDE", "LOGARITHM", "ROOT", "MEAN"))
_COMBINE = {True: ("a + b", 0), False: ("a * b", 1)}
_LINES = structure("Lines", "types", "movement/walk", "cumulative/running", STEPS=2)


class CudaRunningJob(BaseJob):
    """Job that computes cumulative sums or products.

    Args:
        plan: the plan, with the strides that its tensors have on the GPU.
        card: what the launches depend on.
        sums: whether to compute sums rather than products.
    """

    def __init__(self, plan: Plan, card: Card, *, sums: bool) -> None:
        source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        attributes, axis = plan.attributes, plan.attributes.Axis
        self._sums, self._type = sums, source.data_type
        self._exclusive = bool(attributes.HasExclusiveSum if sums else attributes.HasExclusiveProduct)
        self._length = source.sizes[axis]
        self._in_floats = card.prefers_pairs and (sums or self._length <= MOST_IN_FLOATS)
        steps = [(source.sizes[i], source.element_strides[i], target.element_strides[i]) for i in range(source.rank)]
        others = sorted((each for i, each in enumerate(steps) if i != axis), key=lambda each: each[1], reverse=True)
        self._loops: list[Loop] = merged(others, 2)
        self._count = count_of(self._loops)
        self._step, self._target_step = source.element_strides[axis], target.element_strides[axis]
        self._begin, self._target_begin = 0, 0
        if attributes.AxisDirection is AxisDirection.DECREASING:
            self._begin, self._target_begin = (self._length - 1) * self._step, (self._length - 1) * self._target_step
            self._step, self._target_step = -self._step, -self._target_step
        is_beside = self._loops[-1][1] == 1 and abs(self._step) != 1 and self._count >= FEWEST * card.processors
        self._by_lines = self._length == 1 or (is_beside and self._length <= LONGEST_WALK)
        sharing = 1 << (-(-self._length // SHARE) - 1).bit_length()
        self._by_chunks = not self._by_lines and sharing > (2 * THREADS if self._has_room_for(2 * THREADS) else THREADS)
        is_wide = not source.data_type.is_float if self._by_chunks else sharing == 2 * THREADS
        self._threads = 2 * THREADS if is_wide else THREADS
        self._share = SHARE // 2 if self._by_chunks and source.data_type.bits == 64 else SHARE
        self._sharing = self._threads if self._by_chunks else min(self._threads, sharing)
        self._chunks = -(-self._length // (self._sharing * self._share)) if self._by_chunks else 1
        self._each = -(-self._count * self._chunks // (card.processors * self._blocks))
        self._prefetched = self._blocks_ahead(card.processors)
        self._room = min(source.element_count, MOST_UNDECIDED) if source.data_type.is_float else 0
        self.state_bytes = 16 + self._count * self._chunks * self._told_bytes if self._by_chunks else 0
        self.programs = (self._program(),)
        self._task = self._parameter()

    @property
    def _state(self) -> int:
        """Size of a running value, in bytes."""
        if not self._type.is_float:
            return self._type.bits // 8
        return 24 if self._sums else 20 if self._in_floats else 32

    @property
    def _told_bytes(self) -> int:
        """Size of the packets in which a chunk publishes a running value."""
        return 8 if self._state <= 4 else 16 * -(-self._state // 12)

    def _has_room_for(self, threads: int) -> bool:
        """Whether the data of this many threads fits in the shared memory of a block."""
        each = (SHARE + 1) * self._type.dtype.itemsize + self._state
        return threads * each <= SHARED_BYTES

    @property
    def _blocks(self) -> int:
        """Minimum number of resident blocks per multiprocessor."""
        if self._sums and self._type.is_float:
            return 4 * THREADS // self._threads
        return 2 if self._by_chunks and not self._type.is_float else 3

    @property
    def _macros(self) -> tuple[tuple[str, str | int], ...]:
        """Macros for block size, occupancy and the elements that each thread reads."""
        return (
            ("THREADS", self._threads),
            ("BLOCKS", self._blocks),
            ("AHEAD", 16 if self._type.is_float else 32),
            ("SHARING", self._sharing),
            ("SHARE", self._share),
            ("BUFFERS", 2 if self._type.is_float else 1),  # too few registers to hold waiting floats
            ("APART", LOAD_BYTES // self._type.dtype.itemsize if self._by_chunks else 1),
            ("LANES", self._lanes()),
            ("PREFETCHED", self._prefetched),
        )

    def _program(self) -> Program:
        macros: tuple[tuple[str, str | int], ...] = (
            ("INPUT", TYPES[self._type]),
            ("OUTPUT", TYPES[self._type]),
            ("EXCLUSIVE", int(self._exclusive)),
            ("STEPS", 2),
            depth_macro(self._loops),
            *self._macros,
        )
        if not self._type.is_float:
            combine, start = _COMBINE[self._sums]
            macros += (("UNSIGNED", f"u{self._type.bits}"), ("COMBINE", combine), ("START", start))
            sources: tuple[str, ...] = ("cumulative/types", "cumulative/always", "cumulative/wrapping")
        else:
            macros += (("PASS", "ONLY"), ("HALF", int(self._type is DataType.FLOAT16)))
            macros += _SUM if self._sums else ()
            product = "product_floats" if self._in_floats else "product"
            exactly: tuple[str, ...] = ("product", "cumulative/always", f"cumulative/{product}")
            if self._sums:
                plain = "plain_floats" if self._in_floats else "plain_doubles"
                exactly = ("floats", "certified", "sums", "cumulative/sum", f"cumulative/{plain}")
            sources = ("types", "rounding", *exactly)
        ways = ("lines",) if self._by_lines else ("chunk_states", "chunks") if self._by_chunks else ("block_scan",)
        parts = (f"cumulative/{each}" for each in ("running", *ways))
        return Program(("scalars", *sources, "movement/walk", *parts), macros)

    def _blocks_ahead(self, processors: int) -> int:
        """Prefetch distance in chunks; 0 without chunks or where they are not read with full-width loads."""
        item_bytes = self._type.dtype.itemsize
        if not self._by_chunks or self._lanes() * item_bytes < LOAD_BYTES:
            return 0
        return processors * PREFETCHED_BYTES // (self._threads * self._share * item_bytes)

    def _lanes(self) -> int:
        """Elements per vector load or store of a line, such that every access is aligned."""
        if (self._step, self._target_step) != (1, 1):
            return 1
        steps = (step for _, *loop in self._loops for step in loop)
        return gcd(LOAD_BYTES // self._type.dtype.itemsize, self._length, *steps)

    def _parameter(self) -> Array:
        task = np.zeros(1, _LINES)
        task["lines"], task["length"] = self._count, self._length
        # Covers neighbors, threads and chunks, where each chunk may depend on the previous one.
        depth = self._length if self._by_lines else 2 * SHARE + 64 + 16 * self._chunks
        task["terms"] = depth, self._length, 0
        task["chunks"], task["room"] = self._chunks, self._room
        task["step"], task["target_step"] = self._step % 2**32, self._target_step % 2**32
        task["begin"], task["target_begin"] = self._begin, self._target_begin
        write_walk(self._loops, task["walk"][0])
        return task

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        tensors = memory.inputs["InputTensor"], memory.outputs["OutputTensor"], memory.state, memory.undecided
        (program,) = self.programs
        if self._by_lines:
            piece = max(THREADS, PIECE // self._length // 4)
            part = SplitLaunch(program, "run_lines", self._task, self._count, THREADS, piece)
        elif self._by_chunks:
            at_once, chunks = PIECE // (self._threads * self._share), self._count * self._chunks
            part = SplitLaunch(program, "run_chunks", self._task, chunks, self._each, at_once, (self._threads, 1))
        else:
            blocks = -(-self._count // (self._threads // self._sharing))
            at_once = PIECE // (self._threads * self._share)
            part = SplitLaunch(program, "run_blocks", self._task, blocks, 1, at_once, (self._threads, 1))
        yield from part.launches(*tensors)

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.settle``; a place is the number of a line and a position in it."""
        pairs: Any = self._all_places() if places is None else sorted(map(tuple, places.tolist()))
        for line, group in groupby(pairs, key=lambda pair: pair[0]):
            here, there = self._offsets(line)
            elements = _strided(inputs["InputTensor"], here + self._begin, self._step, self._length)
            target = _strided(outputs["OutputTensor"], there + self._target_begin, self._target_step, self._length)
            exactly = self._exact_sums if self._sums else self._exact_products
            exactly(elements, target, [place for _, place in group], stop)

    def _all_places(self) -> Iterator[tuple[int, int]]:
        return ((line, place) for line in range(self._count) for place in range(self._length))

    def _offsets(self, line: int) -> tuple[int, int]:
        here = there = 0
        for size, step, out in reversed(self._loops):
            line, at = divmod(line, size)
            here, there = here + at * step, there + at * out
        return here, there

    def _exact_sums(self, elements: Array, target: Array, places: list[int], stop: Stop) -> None:
        """Writes exact sums at ascending places, extending one running sum."""
        total, end = Sum(FORMATS[self._type]), 0
        for place in places:
            last = place + 1 - self._exclusive
            for begin in range(end, last, EXACTLY):
                if stop():
                    raise Stopped
                total.add(elements[begin : min(begin + EXACTLY, last)])
            end = last
            # A sum that starts at 0 is never -0.
            target[place] = total.rounded() + 0 if self._exclusive else total.rounded()

    def _exact_products(self, elements: Array, target: Array, places: list[int], stop: Stop) -> None:
        for place in places:
            factors = elements[: place + 1 - self._exclusive]
            target[place] = multiply(Elements(factors, stop, EXACTLY), FORMATS[self._type])


def _strided(flat: Array, begin: int, step: int, length: int) -> Array:
    """Returns a view of a line's elements; ``step`` may be negative."""
    view: Array = np.lib.stride_tricks.as_strided(flat[begin:], (length,), (step * flat.itemsize,))
    return view


def _job(plan: Plan, card: Card, *, sums: bool) -> CudaJob:
    return CudaRunningJob(on_card(plan), card, sums=sums)


JOBS: dict[str, Callable[[Plan, Card], CudaJob]] = {
    "CUMULATIVE_SUMMATION": partial(_job, sums=True),
    "CUMULATIVE_PRODUCT": partial(_job, sums=False),
}
