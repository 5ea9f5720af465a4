"""AVERAGE_POOLING and LP_POOLING: exact sums of windows, or sums within one ULP for powers above 2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.enums import ReduceFunction
from opwire.rules.dimension import Dimension
from opwire.tensor import Array, BufferTensorDesc, DataType

from ....execution import Arrays, Stop, Stopped
from ...exact import FORMATS
from ...reference.elements import Elements
from ...reference.pooling import average_of, norm_of
from ...windows import dimensions_of, slices
from ...windows import places as places_of
from ..job import (
    LOAD_BYTES,
    MOST_UNDECIDED,
    TYPES,
    Card,
    CudaJob,
    CudaMemory,
    KernelLaunch,
    Program,
    SingleProgramJob,
    device_desc,
)
from ..nests import Nest, NestLoop, coordinates_at, merged, offsets, size_of, strided, write_nest
from ..pair_source import PAIRS
from ..reduce import accumulator_of
from ..reduction import Reduction
from ..structures import constant, structure

THREADS = 128
LARGEST_WINDOW, MOST_ELEMENTS = 7, 49
"""Limits for a window computed by one thread of a specialized program: its sides and its elements."""

READS_PER_THREAD = 16
"""Elements of a large window that justify another thread."""

LARGEST_STEP = 4
WIDEST_STRIP = 20
"""Limits for strips of outputs: stride and dilation, and input columns."""

LAUNCH_READS = 2**30
"""Maximum number of elements read per launch: some milliseconds."""


SPATIAL = 3
_TENSORS = 2 + SPATIAL
_POSITIONS = 2**30
"""Limit above which positions in a padded dimension are counted in 64 bits."""


_POOLING = structure("Pooling", "nests", "pooling/windows", TENSORS=_TENSORS)
_MOST_FLOATS = constant("MOST_FLOATS", "float_sums")
"""Elements of a window that floats sum."""

_NO_DIMENSION = Dimension(1, 1, 1, 0, 0, 1)


def padded_dimensions(given: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """Prepends dummy dimensions to match the fixed number in the sources."""
    return (_NO_DIMENSION,) * (SPATIAL - len(given)) + given


def needs_64_bits(dimensions: tuple[Dimension, ...]) -> bool:
    """Returns whether positions along a dimension, including padding and steps, may overflow signed 32 bits."""
    return any(sum((row.padded, row.dilated_window, row.stride, row.dilation)) > _POSITIONS for row in dimensions)


def window_nest(source: BufferTensorDesc, target: BufferTensorDesc, *more: BufferTensorDesc | None) -> Nest:
    """Returns the loops over the target in memory order.

    Its tensors are the source without its spatial dimensions, the target, the position along each spatial dimension,
    and for each further desc the same as for the source.
    """
    strides = target.element_strides
    missing = SPATIAL - (target.rank - 2)
    axes = []
    for i in sorted(range(target.rank), key=strides.__getitem__, reverse=True):
        place = [int(i >= 2 and number == i - 2 + missing) for number in range(SPATIAL)]
        first, *others = (0 if desc is None or i >= 2 else desc.element_strides[i] for desc in (source, *more))
        axes.append(NestLoop(target.sizes[i], (first, strides[i], *place, *others)))
    return merged(axes)


class Averages(SingleProgramJob):
    """The job of an average or LP pooling plan."""

    def __init__(self, plan: Plan, card: Card) -> None:
        self._plan, self._processors = plan, card.processors
        self._source = plan.inputs["InputTensor"]
        self._target = device_desc(plan.outputs["OutputTensor"])
        self._power = getattr(plan.attributes, "P", 0)
        self._room = 0 if self._power > 2 else min(self._target.element_count, MOST_UNDECIDED)
        self._dimensions = padded_dimensions(dimensions_of(plan.attributes, self._source.sizes, self._target.sizes))
        self._nest = window_nest(self._source, self._target)
        windows = [dimension.window for dimension in self._dimensions]
        self._in_floats = card.prefers_pairs and prod(windows) <= _MOST_FLOATS and self._power <= 2
        self._is_small = max(windows) <= LARGEST_WINDOW and prod(windows) <= MOST_ELEMENTS
        self._strip = self._strip_macros() if self._is_small and self._power < 2 else {"STRIP": 0}
        self._program = self._made(windows)

    def _strip_macros(self) -> dict[str, int]:
        """Returns the macros of strips for these windows, with STRIP 0 if strips do not apply."""
        across, item_bytes = self._dimensions[-1], self._source.data_type.dtype.itemsize
        inner = self._nest[-1] if self._nest else None
        if inner is None or inner.steps != (0, 1, *(0,) * (SPATIAL - 1), 1) or self._source.element_strides[-1] != 1:
            return {"STRIP": 0}
        if across.stride > LARGEST_STEP or across.dilation > LARGEST_STEP or across.start > LARGEST_WINDOW:
            return {"STRIP": 0}
        full = LOAD_BYTES // item_bytes
        targets = [inner.size, *(axis.steps[1] for axis in self._nest[:-1])]
        sources = [self._source.sizes[-1], *self._source.element_strides[:-1]]
        strip = _dividing(full, targets)
        pack = _dividing(full, [*sources, strip * across.stride])
        if strip == 1 or (strip - 1) * across.stride + across.dilated_window > WIDEST_STRIP:
            return {"STRIP": 0}
        sizes = {"STRIDE": across.stride, "DILATION": across.dilation, "START": across.start}
        return {"STRIP": strip, "PACK": pack, **sizes}

    def _made(self, windows: list[int]) -> Program:
        kind = TYPES[self._source.data_type]
        power = self._power
        flags = {
            "HALF": self._source.data_type is DataType.FLOAT16,
            "MEAN": not power,
            "MAGNITUDE": power == 1,
            "SQUARED": power == 2,
            "ROOT": power == 2,
            "LOGARITHM": False,
            "FLOATS": self._in_floats,
        }
        macros: tuple[tuple[str, str | int], ...] = (
            ("INPUT", kind),
            ("OUTPUT", kind),
            ("PASS", "ONLY"),
            ("POWER", f"{power}u"),
            ("POSITION", "i64" if needs_64_bits(self._dimensions) else "i32"),
            ("TENSORS", _TENSORS),
            ("THREADS", THREADS),
            *((name, int(flag)) for name, flag in flags.items()),
            *self._strip.items(),
            *((f"WINDOW{i}", window if self._is_small else 0) for i, window in enumerate(windows)),
        )
        sums = "pooling/powers" if power > 2 else "sums"
        floats = ("float_sums", *PAIRS) if self._in_floats else ()
        sources = ("scalars", "floats", "certified", "types", "rounding", "nests", *floats, sums, "pooling/windows")
        return Program(sources, macros)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        whole = self._parameter(memory)
        outputs = self._target.element_count
        reads = prod(min(dimension.window, dimension.size) for dimension in self._dimensions)
        strip = max(1, self._strip["STRIP"])
        entry = "sum_strips" if strip > 1 else "sum_small_windows" if self._is_small else "sum_windows"
        piece = max(1, LAUNCH_READS // reads // strip) * strip
        sharing = min(THREADS, 1 << (max(1, reads // READS_PER_THREAD).bit_length() - 1))
        if self._is_small or min(outputs, piece) >= self._processors * THREADS * 8:
            sharing = 1
        block = (THREADS, 1) if self._is_small else (sharing, THREADS // sharing)
        for first in range(0, outputs, piece):
            part = whole.copy()
            count = min(piece, outputs - first)
            part["first"], part["outputs"] = first, count
            along = THREADS * strip if self._is_small else block[1]
            yield KernelLaunch(self._program, entry, (-(-count // along), 1), block, part)

    def _parameter(self, memory: CudaMemory) -> Array:
        (task,) = whole = np.zeros(1, _POOLING)
        task["source"], task["target"] = memory.inputs["InputTensor"], memory.outputs["OutputTensor"]
        task["undecided"], task["room"] = memory.undecided, self._room
        if getattr(self._plan.attributes, "IncludePadding", False):
            task["divisor"] = prod(dimension.window for dimension in self._dimensions)
        steps = (*(0,) * SPATIAL, *self._source.element_strides[2:])[-SPATIAL:]
        for i, (row, step) in enumerate(zip(self._dimensions, steps, strict=True)):
            task["dimension"][i] = (row.size, row.stride, row.window, row.start, row.dilation, step)
        write_nest(self._nest, task["nest"])
        return whole

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.settle``; a place is the number of an output in memory order, and 0."""
        numbers = np.arange(size_of(self._nest)) if places is None else places[:, 0]
        source = strided(self._source, inputs["InputTensor"])
        dimensions = dimensions_of(self._plan.attributes, self._source.sizes)
        to, attributes = FORMATS[self._source.data_type], self._plan.attributes
        for place in offsets(self._nest, numbers, 1).tolist():
            if stop():
                raise Stopped
            at = coordinates_at(self._target, place)
            ranges = places_of(dimensions, at[2:])
            index: tuple[int | slice, ...] = (*at[:2], *slices(ranges))
            elements = Elements(source[index], stop)
            found = (
                norm_of(elements, self._power, to)
                if self._power
                else average_of(attributes, dimensions, ranges, elements, to)
            )
            outputs["OutputTensor"][place] = found


def _dividing(most: int, numbers: Sequence[int]) -> int:
    """Returns the largest power of two, up to ``most``, that divides all numbers."""
    while any(number % most for number in numbers):
        most //= 2
    return most


FUNCTIONS = {0: ReduceFunction.AVERAGE, 1: ReduceFunction.L1, 2: ReduceFunction.L2}
"""Maps a power to the reduction that computes a window spanning the whole image."""


def job(plan: Plan, card: Card) -> CudaJob:
    """Returns the job of an average or LP pooling plan."""
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    function = FUNCTIONS.get(getattr(plan.attributes, "P", 0))
    is_whole = all(
        dimension.window == dimension.padded == dimension.size and dimension.dilation == 1
        for dimension in dimensions_of(plan.attributes, source.sizes, target.sizes)
    )
    if is_whole and function is not None:
        axes = tuple(range(2, source.rank))
        return Reduction(
            source,
            target,
            axes,
            accumulator_of(function, source.data_type, in_floats=card.prefers_pairs),
            card.processors,
        )
    return Averages(plan, card)


JOBS = dict.fromkeys(("AVERAGE_POOLING", "AVERAGE_POOLING1", "LP_POOLING", "LP_POOLING1"), job)
