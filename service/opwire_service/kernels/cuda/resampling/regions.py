"""ROI_ALIGN, ROI_ALIGN1 and ROI_POOLING."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ...reference.regions import aligned, pooled
from ...regions import RegionsOfInterest, is_average
from ...sampling import is_linear, offsets
from .. import nests
from ..job import MOST_UNDECIDED, TYPES, Card, CudaMemory, KernelLaunch, Program, SingleProgramJob, device_desc
from ..structures import structure

THREADS = 128

LAUNCH_READS = 2**29
"""Maximum number of elements read per launch: some milliseconds."""

MOST_READS = 2**31
"""Reads per output above which the host computes everything, as it can be stopped."""

READS_PER_THREAD = 64
"""Elements of an output that justify another thread."""


_TENSORS = 5

_TASK = structure("Task", "nests", "resampling/regions", TENSORS=_TENSORS)


class RegionsJob(SingleProgramJob):
    """The job of a region-of-interest plan."""

    def __init__(self, plan: Plan, card: Card) -> None:
        self._plan, self._source = plan, plan.inputs["InputTensor"]
        self._target = device_desc(plan.outputs["OutputTensor"])
        self._room = min(self._target.element_count, MOST_UNDECIDED)
        self._pools = plan.operator.name == "ROI_POOLING"
        self._reads = self._most_reads()
        self._nest = self._made_nest()
        attributes = plan.attributes
        macros: tuple[tuple[str, str | int], ...] = (
            ("ELEMENT", TYPES[self._source.data_type]),
            ("INDEX", "u32" if self._pools else TYPES[plan.inputs["BatchIndicesTensor"].data_type]),
            ("TENSORS", _TENSORS),
            ("THREADS", THREADS),
            ("POOLS", int(self._pools)),
            ("AVERAGE", int(not self._pools and is_average(attributes))),
            ("LINEAR", int(not self._pools and is_linear(attributes))),
        )
        sources = ("scalars", "rounding", "nests", "resampling/weighted", "resampling/regions")
        self._program = Program(sources, macros)

    def _most_reads(self) -> int:
        """Returns the maximum reads of an output; adaptive samples are at least half an element apart."""
        image, attributes = self._source.sizes[2:], self._plan.attributes
        if self._pools:
            return prod(image)
        least, most = attributes.MinimumSamplesPerOutput, attributes.MaximumSamplesPerOutput
        return 4 * prod(max(1, least, min(most, 2 * size + 4)) for size in image)

    def _made_nest(self) -> nests.Nest:
        strides = self._target.element_strides
        axes = []
        for i in sorted(range(4), key=strides.__getitem__, reverse=True):
            channel = self._source.element_strides[1] if i == 1 else 0
            places = (int(i == 0), int(i == 2), int(i == 3))
            axes.append(nests.NestLoop(self._target.sizes[i], (channel, strides[i], *places)))
        return nests.merged(axes)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        whole, outputs = self._parameter(memory), self._target.element_count
        if self._reads > MOST_READS:
            yield KernelLaunch(self._program, "leave_all", (1, 1), (1, 1), whole)
            return
        sharing = 1 if self._pools else min(THREADS, 1 << (max(1, self._shared // READS_PER_THREAD).bit_length() - 1))
        block = (THREADS, 1) if self._pools else (sharing, THREADS // sharing)
        along, entry = (THREADS, "pool_regions") if self._pools else (block[1], "align_regions")
        piece = max(1, LAUNCH_READS // self._shared)
        for first in range(0, outputs, piece):
            part = whole.copy()
            count = min(piece, outputs - first)
            part["first"], part["outputs"] = first, count
            yield KernelLaunch(self._program, entry, (-(-count // along), 1), block, part)

    @property
    def _shared(self) -> int:
        """The average reads of an output within its region; over all outputs hardly any element is read twice."""
        attributes, crops = self._plan.attributes, self._target.sizes[2:]
        pairs = [-(-(2 * size + 4) // crop) for size, crop in zip(self._source.sizes[2:], crops, strict=True)]
        if self._pools:
            return prod(pairs)
        least, most = attributes.MinimumSamplesPerOutput, attributes.MaximumSamplesPerOutput
        return 4 * prod(max(1, least, min(most, pair)) for pair in pairs)

    def _parameter(self, memory: CudaMemory) -> Array:
        (task,) = whole = np.zeros(1, _TASK)
        attributes, regions = self._plan.attributes, self._plan.inputs["ROITensor"]
        task["source"], task["regions"] = memory.inputs["InputTensor"], memory.inputs["ROITensor"]
        task["target"], task["undecided"] = memory.outputs["OutputTensor"], memory.undecided
        task["room"] = self._room
        task["image_count"], task["image_step"] = self._source.sizes[0], self._source.element_strides[0]
        task["region_step"], task["corner_step"] = regions.element_strides[-2:]
        scales = [attributes.SpatialScale] * 2 if self._pools else [attributes.SpatialScaleY, attributes.SpatialScaleX]
        for i, scale in enumerate(scales):
            size, step = self._source.sizes[2 + i], self._source.element_strides[2 + i]
            task["extent"][i] = (size, step, self._target.sizes[2 + i], 0, scale)
        if not self._pools:
            task["images"] = memory.inputs["BatchIndicesTensor"]
            task["number_step"] = self._plan.inputs["BatchIndicesTensor"].element_strides[-1]
            task["least"], task["most"] = attributes.MinimumSamplesPerOutput, attributes.MaximumSamplesPerOutput
            task["input_offset"], task["output_offset"], task["to_corners"] = offsets(attributes)
            task["outside"] = attributes.OutOfBoundsInputValue
        nests.write_nest(self._nest, task["nest"])
        return whole

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.settle``; a place is the number of an output in memory order, and 0."""
        numbers = np.arange(nests.size_of(self._nest)) if places is None else places[:, 0]
        views = {name: nests.strided(desc, inputs[name]) for name, desc in self._plan.inputs.items()}
        source, target = views["InputTensor"], outputs["OutputTensor"]
        regions = None if self._pools else RegionsOfInterest(self._plan, views, source.shape, self._target.sizes)
        for place in nests.offsets(self._nest, numbers, 1).tolist():
            if stop():
                raise Stopped
            at = nests.coordinates_at(self._target, place)
            if regions is None:
                target[place] = pooled(self._plan, source, views["ROITensor"], at, self._target.sizes, stop)
            else:
                target[place] = aligned(self._plan, source, regions, stop, at)


JOBS = dict.fromkeys(("ROI_ALIGN", "ROI_ALIGN1", "ROI_POOLING"), RegionsJob)
