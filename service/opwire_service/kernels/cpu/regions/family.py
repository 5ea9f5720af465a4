"""ROI_POOLING, and the averages of ROI_ALIGN and ROI_ALIGN1."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop, Stopped
from ...reference.regions import aligned
from ...regions import RegionsOfInterest, all_corners, bins_of, is_average
from ..jit.compiler import Kernel
from ..jit.element import FLOAT32, HALF
from ..resampling import rows
from ..resampling.boxes import CAPACITY, TILE, BoxDimension, OutputBox, settle_places
from ..resampling.tables import WeightTable
from ..run.job import Job, KernelStep, ScratchBytes
from ..run.pool import Find, Pool
from ..run.reference import ReferenceJob
from . import pooling
from .tables import SAMPLES, region_table

FLOATS = {DataType.FLOAT32: FLOAT32, DataType.FLOAT16: HALF}

KERNELS = tuple(Kernel(pooling.bins, element) for element in FLOATS.values())

AT_ONCE = 1 << 8
"""Maximum number of regions whose tables are made at once."""

BINS = 1 << 16
"""Maximum number of bins, along a dimension, of the regions whose tables are made at once."""

VISITS = 1 << 24
"""Maximum number of elements that a tile reads."""

BIN_VISITS, REGION_VISITS = 8, 1 << 10
"""Overhead of a bin and of a region, in visits."""


class RoiPoolingJob(Job):
    """Finds the greatest elements of bins, some regions at a time."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._source, self._target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        self._kernel = Kernel(pooling.bins, FLOATS[self._source.data_type])
        self._kernels = (self._kernel,)
        bins = self._target.sizes[2:]
        self._at_once = max(1, min(AT_ONCE, BINS // max(bins)))
        self._scratch = ScratchBytes(shared=64 * self._at_once * (2 + sum(bins)))
        self._visits = plan.work + BIN_VISITS * self._target.element_count + REGION_VISITS * self._target.sizes[0]

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        corners = inputs["ROITensor"][0, 0]
        for begin in range(0, target.shape[0], self._at_once):
            if stop():
                raise Stopped
            part = corners[begin : begin + self._at_once]
            images, tops, lefts = self._bins(part, source.shape)
            here = target[begin:]
            _, channels, rows_of_bins, columns = target.shape
            geometry = pooling.Bins(
                channels=channels,
                rows=rows_of_bins,
                columns=columns,
                images=images.ctypes.data,
                tops=tops.ctypes.data,
                lefts=lefts.ctypes.data,
                source=self._source.element_strides,
                target=self._target.element_strides,
            )
            visits = prod(target.shape[2:]) + int(
                (np.diff(tops, axis=2).sum(1) * np.diff(lefts, axis=2).sum(1)).max(initial=0)
            )
            step = KernelStep(self._kernel, geometry, len(part) * target.shape[1], visits)
            kept = source, target, images, tops, lefts
            step.bind(source.ctypes.data, here.ctypes.data, 0, find, pool, kept)(stop)

    def _bins(self, corners: Array, sizes: tuple[int, ...]) -> tuple[Array, Array, Array]:
        """Returns the images of regions, and the ranges of their bins along both dimensions."""
        images, left, top, right, bottom = all_corners(corners, self._plan.attributes.SpatialScale, sizes[0]).T
        down, across = self._target.sizes[2:]
        rows, columns = bins_of(top, bottom, down, sizes[2]), bins_of(left, right, across, sizes[3])
        return np.ascontiguousarray(images), rows, columns


class AlignJob(Job):
    """Computes averages of samples as weighted sums of the elements they read."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._source, self._target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        self._kernel = Kernel(rows.weighted, FLOATS[self._source.data_type])
        self._kernels = (self._kernel,)
        regions, _, *bins = self._target.sizes
        samples = min(regions, AT_ONCE) * max(bins) * plan.attributes.MaximumSamplesPerOutput
        tables = 400 * min(SAMPLES, samples) + 32 * self._source.sizes[1] + 8 * CAPACITY
        self._scratch = ScratchBytes(thread=8 * (self._source.sizes[3] + 5 * TILE), shared=tables)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        corners, batch = inputs["ROITensor"], inputs["BatchIndicesTensor"]
        corners = corners[(0,) * (corners.ndim - 2)]
        images = batch[(0,) * (batch.ndim - 1)]
        regions = RegionsOfInterest(self._plan, inputs, source.shape, target.shape)
        settle = partial(aligned, self._plan, source, regions, stop)
        for begin in range(0, target.shape[0], AT_ONCE):
            if stop():
                raise Stopped
            part = slice(begin, begin + AT_ONCE)
            box = self._box(corners[part], images[part], source.shape)
            left = None
            if box is not None:
                left = box.bind(self._kernel, source.ctypes.data, target[begin:].ctypes.data, find, pool)(stop)
            if left is None:
                ReferenceJob(self._plan).run(inputs, outputs, find, pool, stop)
                return
            settle_places([(place[1] + begin, *place[2:]) for place in left], target, settle, stop)

    def _box(self, corners: Array, images: Array, sizes: tuple[int, ...]) -> OutputBox | None:
        made = [
            region_table(self._plan, corners, axis, sizes[2 + axis], self._target.sizes[2 + axis]) for axis in (0, 1)
        ]
        if made[0] is None or made[1] is None or self._target.sizes[3] > TILE:
            return None
        (down, all_down), (across, all_across) = made[0], made[1]
        outside = self._plan.attributes.OutOfBoundsInputValue
        if outside != 0.0 and not (all_down & all_across).all():
            return None
        ones = np.ones(images.size, np.int64)
        last = np.asarray(sizes[0] - 1, images.dtype)
        of_image = WeightTable(np.minimum(images, last).astype(np.int64), ones, ones * 0, np.ones(3), True)
        channels = np.arange(sizes[1])
        of_channel = WeightTable(channels, channels * 0 + 1, channels * 0, np.ones(3), True)
        box = OutputBox(
            [
                BoxDimension(table, source, target)
                for table, source, target in zip(
                    (of_image, of_channel, down, across),
                    self._source.element_strides,
                    self._target.element_strides,
                    strict=True,
                )
            ],
            regions=True,
        )
        return box if box.visits <= VISITS else None


def prepare(plan: Plan) -> Job:
    return AlignJob(plan) if is_average(plan.attributes) else ReferenceJob(plan)


PREPARE = {"ROI_POOLING": RoiPoolingJob, "ROI_ALIGN": prepare, "ROI_ALIGN1": prepare}
