"""TOP_K and TOP_K1: sorts short sequences in one block and long ones by digits; for small K it selects first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array, DataType

from ..job import TYPES, BaseJob, Card, CudaJob, CudaMemory, KernelLaunch, Program
from ..structures import constant, structure
from .view import UNITS
from .walk import PIECE, THREADS, SplitLaunch, depth_macro, merged, on_card, write_walk

SORTED_BYTES = 32 * 1024
"""Maximum size of the entries that one block sorts."""

SHARE = constant("SHARE", "movement/search")
"""Elements per thread when counting digits."""

SELECTED_SHARE = 4
"""The best are selected before sorting if they make up at most 1/SELECTED_SHARE of a sequence."""

ENTRY_BYTES = {False: 8, True: 16}
"""Bytes of a key and a position, by whether the key has 64 bits."""

DIGIT_BITS = 11
"""Bits of a digit in the selection."""

SORTED_BITS = 8
"""Bits of a digit in the sort."""

TILE_BYTES, WARPS = 32 * 1024, THREADS // 32
"""Bytes of entries that a block sorts by a digit, and its number of warps; see ``digits.cu``."""

SEARCH_BYTES, COUNTS_BYTES = 32, 4 << DIGIT_BITS
"""Memory of the selection per sequence."""

INFINITIES = {DataType.FLOAT16: "0x7c00", DataType.FLOAT32: "0x7f800000u", DataType.FLOAT64: "0x7ff0000000000000ull"}

_ADDRESSES = ("source", "values", "indices", "entries", "moved", "searches", "counts")
_NUMBERS = (
    *("first", "count", "sequences", "length", "wanted", "size", "pieces", "from_entries", "to_entries"),
    *("upper", "shift", "bits", "step", "value_step", "index_step", "unused"),
)
_TOP = structure("Top", "movement/walk", "movement/top", STEPS=3)


def _power_above(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _digits(bits: int) -> list[tuple[int, int]]:
    """Returns the digits of a ``bits``-bit number, most significant first, as ``(lowest bit, number of bits)``."""
    ends = [*range(0, bits, DIGIT_BITS), bits]
    return [(low, high - low) for low, high in pairwise(ends)][::-1]


class CudaTopJob(BaseJob):
    """The best elements of each sequence along an axis."""

    def __init__(self, plan: Plan) -> None:
        source, axis = plan.inputs["InputTensor"], plan.attributes.Axis
        values, indices = plan.outputs["OutputValueTensor"], plan.outputs["OutputIndexTensor"]
        self._bits = source.data_type.bits
        self._length: int = source.sizes[axis]
        self._wanted: int = plan.attributes.K
        others = [i for i in range(source.rank) if i != axis]
        self._sequences: int = prod(source.sizes[i] for i in others)
        strides = source.element_strides, values.element_strides, indices.element_strides
        loops = merged(((source.sizes[i], *(each[i] for each in strides)) for i in others), 3)
        self._task = np.zeros(1, _TOP)
        self._task["sequences"], self._task["length"] = self._sequences, self._length
        self._task["wanted"] = self._wanted
        for name, each in zip(("step", "value_step", "index_step"), strides, strict=True):
            self._task[name] = each[axis]
        write_walk(loops, self._task["walk"][0])
        self._entry: int = ENTRY_BYTES[self._bits == 64]
        most = SORTED_BYTES // self._entry
        self._selects = self._length > most and SELECTED_SHARE * self._wanted <= self._length
        self._size: int = self._wanted if self._selects else self._length
        self._segment = _power_above(min(self._size, most))
        self._sorted = max(self._segment, most // 4)
        self._digits = list(self._sorted_digits()) if self._size > most else []
        self._tiles = -(-self._size // (TILE_BYTES // self._entry))
        direction = getattr(plan.attributes, "AxisDirection", AxisDirection.DECREASING)
        macros: tuple[tuple[str, str | int], ...] = (
            ("STEPS", 3),
            depth_macro(loops),
            ("UNIT", UNITS[self._bits // 8]),
            ("POSITION", TYPES[indices.data_type]),
            ("Key", "u64" if self._bits == 64 else "u32"),
            ("WIDE", int(self._bits == 64)),
            ("REAL", int(source.data_type.is_float)),
            ("SIGNED", int(source.data_type.is_signed)),
            ("INFINITY_BITS", INFINITIES.get(source.data_type, 0)),
            ("GREATEST", int(direction is AxisDirection.DECREASING)),
        )
        best = min(self._segment, _power_above(self._wanted))
        sizes = ("SEGMENT", self._segment), ("SORTED", self._sorted), ("BEST", best)
        self._searching = _program("search", macros)
        self._sorting = _program("digits", macros) if self._digits else _program("segments", (*macros, *sizes))
        self.programs = (*((self._searching,) if self._selects else ()), self._sorting)
        self._parts = tuple(self._prepared())
        self.scratch_bytes = self._buffers * self._buffer + self._tally_bytes
        self.state_bytes = self._sequences * (SEARCH_BYTES + COUNTS_BYTES) if self._selects else 0

    @property
    def _buffer(self) -> int:
        return self._sequences * self._size * self._entry

    @property
    def _buffers(self) -> int:
        """Number of entry buffers: for selected entries, and for those between two digits."""
        return min(2, int(self._selects) + max(0, len(self._digits) - 1))

    @property
    def _tally_bytes(self) -> int:
        """Bytes for the counts of all digits in each tile, and for their sums."""
        return 4 * self._sequences * (self._tiles + 1) << SORTED_BITS if self._digits else 0

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        tensors = (
            memory.inputs["InputTensor"],
            memory.outputs["OutputValueTensor"],
            memory.outputs["OutputIndexTensor"],
        )
        searches = memory.state, memory.state + self._sequences * SEARCH_BYTES
        tallies = memory.state, memory.scratch + self._buffers * self._buffer
        buffers = memory.scratch, memory.scratch + self._buffer
        for part, turned in self._parts:
            counts = tallies if self._digits and part.program is self._sorting else searches
            yield from part.launches(*tensors, *(reversed(buffers) if turned else buffers), *counts)

    def _prepared(self) -> Iterator[tuple[SplitLaunch, bool]]:
        """Yields the kernels, and whether the two buffers are swapped."""
        if self._selects:
            for part in self._search():
                yield part, False
        if self._digits:
            yield from self._sort()
        else:
            blocks = -(-self._sequences // (self._sorted // self._segment))
            at_once = PIECE // self._sorted // 2
            flags = {"size": self._size, "from_entries": int(self._selects)}
            yield self._part(self._sorting, "sort_segments", blocks, 1, at_once, **flags), False

    def _sorted_digits(self) -> Iterator[tuple[int, int]]:
        """Yields whether a digit is part of the key, and its lowest bit; selected entries sort by position first."""
        places = (self._length - 1).bit_length() if self._selects else 0
        for upper, bits in enumerate((places, self._bits)):
            yield from ((upper, shift) for shift in range(0, bits, SORTED_BITS))

    def _sort(self) -> Iterator[tuple[SplitLaunch, bool]]:
        """Yields the radix sort, alternating buffers; the first pass may read the source, the last writes results."""
        at_once = PIECE * self._entry // TILE_BYTES // 4
        last = len(self._digits) - 1
        for number, (upper, shift) in enumerate(self._digits):
            turned = (number + self._selects) % 2 == 0
            flags = {"from_entries": int(self._selects or number > 0), "to_entries": int(number < last)}
            numbers = {"size": self._size, "pieces": self._tiles, "upper": upper, "shift": shift, **flags}
            tiles, rows = self._sequences * self._tiles, self._sequences << SORTED_BITS
            yield self._part(self._sorting, "tally_digits", tiles, 1, at_once, **numbers), turned
            yield self._part(self._sorting, "add_tallies", rows, WARPS, **numbers), turned
            yield self._part(self._sorting, "move_entries", tiles, 1, at_once, **numbers), turned

    def _search(self) -> Iterator[SplitLaunch]:
        """Yields the selection: finds the last of the best, digit by digit of key and position, then collects all."""
        parts = -(-self._length // (THREADS * SHARE))
        blocks, at_once = self._sequences * parts, PIECE // (THREADS * SHARE)
        places = (self._length - 1).bit_length()
        for upper, digits in ((1, _digits(self._bits)), (0, _digits(places))):
            for shift, bits in digits:
                numbers = {"upper": upper, "shift": shift, "bits": bits}
                yield self._part(self._searching, "count_digits", blocks, 1, at_once, pieces=parts, **numbers)
                yield self._part(self._searching, "choose_digit", self._sequences, 1, **numbers)
        yield self._part(self._searching, "collect", blocks, 1, at_once, pieces=parts, size=self._size)

    def _part(
        self, program: Program, entry: str, count: int, per_block: int, piece: int = PIECE, **numbers: int
    ) -> SplitLaunch:
        task: Array = self._task.copy()
        for name, number in numbers.items():
            task[name] = number
        return SplitLaunch(program, entry, task, count, per_block, piece)


def _program(name: str, macros: tuple[tuple[str, str | int], ...]) -> Program:
    return Program(("scalars", "movement/walk", "movement/plain", "movement/top", f"movement/{name}"), macros)


def job(plan: Plan, card: Card) -> CudaJob:
    """Returns the job of a TOP_K plan."""
    return CudaTopJob(on_card(plan))


JOBS = dict.fromkeys(("TOP_K", "TOP_K1"), job)
