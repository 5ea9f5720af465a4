"""TOP_K and TOP_K1 of long sequences, in chunks whose best are sorted together, and of wide elements."""

from __future__ import annotations

import numpy as np

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ...layout import coordinates
from ..jit.compiler import Kernel
from ..jit.element import INT64
from ..run.blocks import Blocks
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from .entries import Entries, cuts, joined
from .kernels import MOST_KEPT, KeyRows, best
from .keys import Order

CHUNK = 1 << 17
"""Elements sorted at once: some milliseconds."""

TILE = 1 << 15
"""Elements of short sequences processed at once."""

Tensors = tuple[Array, Array, Array]
"""The input, the values and the indices."""

BEST = Kernel(best, INT64)

ENTRY = 64
"""Memory per element while sorting, in bytes: key, position and order."""

SORTED_VISITS = 4
"""Cost of a comparison in a sort, in visits."""


class TopJob(Job):
    """Selects the best of each sequence along an axis."""

    def __init__(self, plan: Plan) -> None:
        direction = getattr(plan.attributes, "AxisDirection", AxisDirection.DECREASING)
        source = plan.inputs["InputTensor"]
        self._axis, self._count = plan.attributes.Axis, plan.attributes.K
        self._kernels = (BEST,) if self._count <= MOST_KEPT else ()
        self._length = source.sizes[self._axis]
        self._visits = SORTED_VISITS * source.element_count * self._length.bit_length()
        kept = -(-self._length // CHUNK) * min(self._count, CHUNK)
        self._scratch = ScratchBytes(thread=3 * ENTRY * CHUNK, shared=16 * kept)
        if self._length <= CHUNK:
            self._scratch = ScratchBytes(thread=ENTRY * max(TILE, self._length))
        self._order = Order(source.data_type, direction == AxisDirection.DECREASING)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        tensors = inputs["InputTensor"], outputs["OutputValueTensor"], outputs["OutputIndexTensor"]
        source, values, indices = (np.moveaxis(tensor, self._axis, -1) for tensor in tensors)
        if self._length <= CHUNK:
            self._run_short((source, values, indices), find, pool, stop)
            return
        for place in coordinates(source.shape[:-1]):
            self._run_long((source[place], values[place], indices[place]), find, pool, stop)

    def _run_short(self, tensors: Tensors, find: Find, pool: Pool, stop: Stop) -> None:
        source, values, indices = tensors
        if source.ndim == 1:
            source, values, indices = source[None], values[None], indices[None]
        blocks = Blocks.of(source.shape, TILE, kept=1)

        def piece(number: int) -> None:
            part = blocks.part(number)
            entries = self._best(source[part], 0, find)
            self._write(source[part], values[part], indices[part], entries.found())

        pool.each(piece, blocks.number, stop)

    def _best(self, elements: Array, start: int, find: Find) -> Entries:
        """Returns the entries of the best of consecutive elements, up to the number wanted."""
        with np.errstate(all="ignore"):
            keys = self._order.keys(elements)
        count = min(self._count, elements.shape[-1])
        if count > MOST_KEPT or count == elements.shape[-1]:
            return Entries.of(keys, start).first(count)
        if keys.dtype.itemsize < 4:
            keys = keys.astype(np.uint32)
        found, places = (np.empty((*keys.shape[:-1], count), np.uint64) for _ in range(2))
        geometry = KeyRows(count=count, length=keys.shape[-1], is_wide=keys.dtype.itemsize == 8)
        addresses = keys.ctypes.data, found.ctypes.data, places.ctypes.data, geometry.buffer_info()[0]
        find(BEST).call(0, *addresses, 0, found.size // count)
        places += np.uint64(start)
        return Entries.chosen(found, places, is_wide=keys.dtype.itemsize == 8)

    def _write(self, source: Array, values: Array, indices: Array, places: Array) -> None:
        unsigned = f"<u{source.dtype.itemsize}"
        values.view(unsigned)[...] = np.take_along_axis(source.view(unsigned), places.astype(np.int64), -1)
        indices[...] = places

    def _run_long(self, tensors: Tensors, find: Find, pool: Pool, stop: Stop) -> None:
        """Selects the best of each chunk, then sorts those of all chunks in intervals until there are enough."""
        source, values, indices = tensors
        chunks = -(-self._length // CHUNK)
        parts: list[Entries | None] = [None] * chunks

        def choose(chunk: int) -> None:
            start = chunk * CHUNK
            entries = self._best(source[start : start + CHUNK], start, find)
            parts[chunk] = Entries(*(None if each is None else each.copy() for each in entries))  # type: ignore[arg-type]

        pool.each(choose, chunks, stop)
        sorted_parts = [part for part in parts if part is not None]
        total = sum(part.keys.size for part in sorted_parts)
        intervals = cuts(sorted_parts, max(1, total // CHUNK))
        starts = [sum(cut) for cut in intervals]

        def merge(begin: int, end: int) -> None:
            for i in range(begin, end):
                first, last = starts[i], min(starts[i + 1], self._count)
                if first >= last:
                    continue
                ends = zip(sorted_parts, intervals[i], intervals[i + 1], strict=True)
                entries = joined([part.slice(*between) for part, *between in ends])
                places = entries.first(entries.keys.size).found()[: last - first]
                self._write(source, values[first:last], indices[first:last], places)

        if stop():
            raise Stopped
        pool.run(merge, len(intervals) - 1, 1, stop)
