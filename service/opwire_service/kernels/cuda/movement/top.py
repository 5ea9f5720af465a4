"""TOP_K and TOP_K1: short sequences are sorted, of long ones the best are found first, or sorted pieces merged."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array, DataType

from ..job import TYPES, CudaJob, CudaMemory, KernelLaunch, Program
from .view import UNITS
from .walk import PIECE, THREADS, CertainJob, Part, depth_macro, merged, on_card, walk_type, write_walk

SORTED_BYTES = 16 * 1024
"""Of the entries that a block sorts, or twice that where no sequence has more."""

SHARE = 32
"""Elements of a thread that counts digits, as in the kernel."""

FEW = 4
"""The best are found before they are sorted where they are at most such a part of a sequence."""

ENTRY_BYTES = {False: 8, True: 16}
"""Of a key and a place, by whether the key has 64 bits."""

DIGIT_BITS = 11
"""Of a digit that is counted at once."""

SEARCH_BYTES, COUNTS_BYTES = 32, 4 << DIGIT_BITS
"""What the search takes for each sequence."""

INFINITIES = {DataType.FLOAT16: "0x7c00", DataType.FLOAT32: "0x7f800000u", DataType.FLOAT64: "0x7ff0000000000000ull"}

_ADDRESSES = ("source", "values", "indices", "entries", "merged", "searches", "counts")
_NUMBERS = (
    *("first", "count", "sequences", "length", "wanted", "size", "pieces", "from_entries", "to_entries"),
    *("width", "upper", "shift", "bits", "step", "value_step", "index_step"),
)
_TOP = np.dtype(
    [
        *((name, "<u8") for name in _ADDRESSES),
        *((name, "<u4") for name in _NUMBERS),
        ("walk", walk_type(3)),
    ]
)


def _power_above(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _digits(bits: int) -> list[tuple[int, int]]:
    """The digits of a number of so many bits, the first one first: their lowest bits, and how many they have."""
    ends = [*range(0, bits, DIGIT_BITS), bits]
    return [(low, high - low) for low, high in pairwise(ends)][::-1]


class TopJob(CertainJob):
    """The best of each sequence along an axis."""

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
        most = 2 * SORTED_BYTES // self._entry
        self._is_short = self._length <= most
        self._selects = not self._is_short and FEW * self._wanted <= self._length
        self._size: int = self._wanted if self._selects else self._length
        self._segment = min(_power_above(self._size), most if self._is_short else most // 2)
        self._sorted = max(self._segment, most // 4)
        self._pieces = -(-self._size // self._segment)
        # A piece that is merged keeps all of its entries, of which a search has found the best.
        self._best = min(self._segment, _power_above(self._wanted)) if self._pieces == 1 else self._segment
        direction = getattr(plan.attributes, "AxisDirection", AxisDirection.DECREASING)
        self.programs = (
            Program(
                ("scalars", "movement/walk", "movement/plain", "movement/top"),
                (
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
                    ("SEGMENT", self._segment),
                    ("SORTED", self._sorted),
                    ("BEST", self._best),
                ),
            ),
        )
        self._parts = tuple(self._prepared())
        buffers = 0 if self._is_short else 1 if self._pieces == 1 else 2
        self.scratch_bytes = buffers * self._buffer
        self.state_bytes = self._sequences * (SEARCH_BYTES + COUNTS_BYTES) if self._selects else 0

    @property
    def _buffer(self) -> int:
        return self._sequences * self._size * self._entry

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        tensors = (
            memory.inputs["InputTensor"],
            memory.outputs["OutputValueTensor"],
            memory.outputs["OutputIndexTensor"],
        )
        searches = memory.state, memory.state + self._sequences * SEARCH_BYTES
        buffers = memory.scratch, memory.scratch + self._buffer
        for part, turned in self._parts:
            yield from part.launches(*tensors, *(reversed(buffers) if turned else buffers), *searches)

    def _prepared(self) -> Iterator[tuple[Part, bool]]:
        """The kernels, and whether the two buffers have changed places."""
        if self._selects:
            for part in self._search():
                yield part, False
        is_merged = self._pieces > 1
        blocks = -(-self._sequences * self._pieces // (self._sorted // self._segment))
        numbers = {"size": self._size, "pieces": self._pieces}
        flags = {"from_entries": int(self._selects), "to_entries": int(is_merged)}
        yield self._part("sort_pieces", blocks, 1, PIECE // self._sorted // 2, **numbers, **flags), False
        if is_merged:
            yield from self._merges()

    def _merges(self) -> Iterator[tuple[Part, bool]]:
        """Runs that grow to twice their width each time, from one buffer to the other."""
        width, turned, entries = self._segment, False, self._sequences * self._size
        while width < self._size:
            yield self._part("merge_runs", entries, THREADS, PIECE // 4, size=self._size, width=width), turned
            turned, width = not turned, 2 * width
        yield self._part("write_best", self._sequences * self._wanted, THREADS, size=self._size), turned

    def _search(self) -> Iterator[Part]:
        """What finds the last of the best, digit by digit of its key and then of its place, and collects them all."""
        parts = -(-self._length // (THREADS * SHARE))
        blocks, at_once = self._sequences * parts, PIECE // (THREADS * SHARE)
        places = (self._length - 1).bit_length()
        for upper, digits in ((1, _digits(self._bits)), (0, _digits(places))):
            for shift, bits in digits:
                numbers = {"upper": upper, "shift": shift, "bits": bits}
                yield self._part("count_digits", blocks, 1, at_once, pieces=parts, **numbers)
                yield self._part("choose_digit", self._sequences, 1, **numbers)
        yield self._part("collect", blocks, 1, at_once, pieces=parts, size=self._size)

    def _part(self, entry: str, count: int, per_block: int, piece: int = PIECE, **numbers: int) -> Part:
        task: Array = self._task.copy()
        for name, number in numbers.items():
            task[name] = number
        return Part(self.programs[0], entry, task, count, per_block, piece)


def job(plan: Plan, processors: int) -> CudaJob:
    """The job of a plan of TOP_K."""
    return TopJob(on_card(plan))


JOBS = dict.fromkeys(("TOP_K", "TOP_K1"), job)
