"""The RESAMPLE operators and UPSAMPLE_2D."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ...reference.resampling import interpolated
from ...sampling import ResampledAxis, is_linear, resampled_axes, rounding_of
from ..job import (
    LOAD_BYTES,
    MOST_UNDECIDED,
    TYPES,
    Card,
    CudaMemory,
    KernelLaunch,
    Program,
    SingleProgramJob,
    device_desc,
)
from ..nests import Nest, NestLoop, coordinates_at, in_packs, merged, offsets, size_of, strided, write_nest
from ..pair_source import PAIRS
from ..structures import structure

THREADS = 256
RANK = 4
"""Maximum number of dimensions that are resampled."""

LONGEST_LOOKED_AT = 2**16
"""Maximum outputs along a dimension for which it is checked whether each equals an input element."""

LAUNCH_READS = 2**29
"""Maximum number of elements read per launch: some milliseconds."""


_MOST_WEIGHT_BITS = 4
"""Bits of weights that leave enough bits of a pair of floats for the elements."""

_TENSORS = 2 + RANK

_TASK = structure("Task", "nests", "resampling/coordinates", "resampling/resample", TENSORS=_TENSORS)
_UNSIGNED = {1: "u8", 2: "u16", 4: "u32"}
"""Types of elements that are only moved, by size in bytes."""


def is_plain(axis: ResampledAxis) -> bool:
    """Returns whether each output is the input element at its own position; False for dimensions too long to check."""
    if axis.outputs > min(axis.size, LONGEST_LOOKED_AT) or not axis.is_usual:
        return False
    places = np.arange(axis.outputs)
    return bool((axis.coordinates(places) == places).all())


def weight_bits(axis: ResampledAxis) -> int | None:
    """Returns how many bits the weights along a dimension have after the point; None if they have or may have many."""
    if axis.outputs > LONGEST_LOOKED_AT or not axis.is_usual:
        return None
    inside = np.maximum(axis.coordinates(np.arange(axis.outputs)), 0).astype(np.float64)
    weights = np.where(inside < axis.size - 1, inside % 1, 0)
    return next((bits for bits in range(_MOST_WEIGHT_BITS + 1) if not (weights * 2.0**bits % 1).any()), None)


class Resampling(SingleProgramJob):
    """The job of a resampling plan."""

    def __init__(self, plan: Plan, card: Card) -> None:
        self._plan = plan
        self._source, self._target = plan.inputs["InputTensor"], device_desc(plan.outputs["OutputTensor"])
        self._axes = resampled_axes(plan, self._source.sizes, self._target.sizes)
        self._resampled = [i for i, axis in enumerate(self._axes) if not is_plain(axis)]
        self._linear = is_linear(plan.attributes) and bool(self._resampled)
        self._room = min(self._target.element_count, MOST_UNDECIDED) if self._linear else 0
        is_antialiased = self._linear and getattr(plan.attributes, "Antialiased", False)
        triangles = [is_antialiased and self._axes[i].scale < 0.5 for i in self._resampled]
        self._triangles = sum(1 << number for number, is_triangle in enumerate(triangles) if is_triangle)
        self._taps = prod(self._taps_of(self._axes[i]) for i in self._resampled)
        self._nest = self._made_nest()
        self._lanes = 1 if self._triangles else self._lanes_of(self._nest)
        self._in_pairs = self._linear and not self._triangles and self._source.data_type.is_float and card.prefers_pairs
        self._program = self._made()

    def _weight_bits(self) -> int:
        """Returns the bits after the point of the product of all weights, or -1 if they have or may have many."""
        bits = [weight_bits(self._axes[i]) for i in self._resampled]
        known = [each for each in bits if each is not None]
        return sum(known) if len(known) == len(bits) else -1

    def _taps_of(self, axis: ResampledAxis) -> int:
        if not self._linear:
            return 1
        return min(axis.size, ceil(2 / axis.scale) + 2) if self._triangles and axis.scale < 0.5 else 2

    def _made_nest(self) -> Nest:
        strides = self._target.element_strides
        axes = []
        for i in sorted(range(self._target.rank), key=strides.__getitem__, reverse=True):
            places = [int(i in self._resampled and self._resampled[number] == i) for number in range(self._count)]
            places += [0] * (RANK - self._count)
            step = 0 if i in self._resampled else self._source.element_strides[i]
            axes.append(NestLoop(self._target.sizes[i], (step, strides[i], *places)))
        return merged(axes)

    @property
    def _count(self) -> int:
        return len(self._resampled)

    def _lanes_of(self, nest: Nest) -> int:
        """Returns the outputs stored at once; every output row is a multiple of them."""
        if not nest or nest[-1].steps[1] != 1:
            return 1
        full = min(8, LOAD_BYTES // self._target.data_type.dtype.itemsize)
        sizes = [nest[-1].size, *(axis.steps[1] for axis in nest[:-1])]
        return next((lanes for lanes in (8, 4, 2) if lanes <= full and not any(size % lanes for size in sizes)), 1)

    def _made(self) -> Program:
        data_type = self._source.data_type
        kind = TYPES[data_type] if self._linear else _UNSIGNED[data_type.dtype.itemsize]
        places = self._nest[-1].steps[2:] if self._nest else ()
        macros: tuple[tuple[str, str | int], ...] = (
            ("ELEMENT", kind),
            ("TENSORS", _TENSORS),
            ("RESAMPLED", self._count),
            ("INNER", places.index(1) if any(places) else -1),
            ("LANES", self._lanes),
            ("LINEAR", int(self._linear)),
            ("TRIANGLES", self._triangles),
            ("PAIRS", int(self._in_pairs)),
            ("WEIGHT_BITS", self._weight_bits() if self._in_pairs else -1),
            ("ROUNDING", rounding_of(self._plan).name),
        )
        sources = (
            "scalars",
            "rounding",
            "nests",
            *(PAIRS if self._in_pairs else ()),
            "resampling/coordinates",
            "resampling/weighted",
            "resampling/in_pairs",
            "resampling/resample",
        )
        return Program(sources, macros)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (task,) = whole = np.zeros(1, _TASK)
        task["source"], task["target"] = memory.inputs["InputTensor"], memory.outputs["OutputTensor"]
        task["undecided"], task["room"] = memory.undecided, self._room
        task["step"] = self._nest[-1].steps if self._nest else 0
        for number, i in enumerate(self._resampled):
            axis, step = self._axes[i], self._source.element_strides[i]
            offsets_ = (axis.scale, axis.input_offset, axis.output_offset)
            task["axis"][number] = (axis.size, step, *offsets_, int(axis.is_usual))
        write_nest(in_packs(self._nest, self._lanes), task["nest"])
        packs = self._target.element_count // self._lanes
        sharing = min(THREADS, 1 << (max(1, self._taps // 32).bit_length() - 1)) if self._triangles else 1
        block = (sharing, THREADS // sharing) if self._triangles else (THREADS, 1)
        along = block[1] if self._triangles else THREADS
        piece = max(1, LAUNCH_READS // (self._taps * self._lanes))
        for first in range(0, packs, piece):
            part = whole.copy()
            count = min(piece, packs - first)
            part["first"], part["packs"] = first, count
            entry = "resample_triangles" if self._triangles else "resample"
            yield KernelLaunch(self._program, entry, (-(-count // along), 1), block, part)

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.settle``; a place is the number of an output in memory order, and 0."""
        numbers = np.arange(size_of(self._nest)) if places is None else places[:, 0]
        flat, target = inputs["InputTensor"], outputs["OutputTensor"]
        source = strided(self._source, flat)
        for place in offsets(self._nest, numbers, 1).tolist():
            if stop():
                raise Stopped
            at = coordinates_at(self._target, place)
            target[place] = interpolated(self._plan, self._axes, source, stop, at, target)


JOBS = dict.fromkeys(("UPSAMPLE_2D", "RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3"), Resampling)
