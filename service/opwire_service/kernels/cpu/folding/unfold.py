"""UNFOLD: copies the image to the columns, and fills in zeros for the padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

import numpy as np

from opwire.check import Plan

from ....execution import Arrays, Stop, Stopped
from ...reference.folds import FoldedDimension, axes_of
from ...views.phases import constant
from ...views.view import Copy, StridedDimension, View, copy
from ..run.job import Job, KernelStep, ScratchBytes
from ..run.pool import Find, Pool
from ..views.job import KERNELS, bind_steps, steps_of
from .boxes import Box, is_inside, lines, whole

BATCH = 256
"""Copies prepared at once; those of plans with no more are kept."""

RECORD_BYTES = 1 << 10
"""Upper bound of the memory of a prepared copy, in bytes."""


class UnfoldJob(Job):
    """Makes the copies of a plan, in batches."""

    _scratch = ScratchBytes(shared=BATCH * RECORD_BYTES)

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._item = plan.outputs["OutputTensor"].data_type.bits // 8
        self._zero = np.zeros((), f"<u{self._item}")
        batches = self._batches()
        first, second = next(batches), next(batches, None)
        self._kept = None if second is not None else first
        self._kernels = KERNELS if self._kept is None else tuple(dict.fromkeys(step.kernel for step in self._kept))

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        tensors = inputs["InputTensor"], outputs["OutputTensor"], self._zero
        for steps in self._batches() if self._kept is None else (self._kept,):
            if stop():
                raise Stopped
            bind_steps(steps, tensors, find, pool)(stop)

    def _batches(self) -> Iterator[list[KernelStep]]:
        copies = _copies(self._plan)
        while batch := list(islice(copies, BATCH)):
            yield steps_of(batch, self._item)


def _copies(plan: Plan) -> Iterator[Copy]:
    image, columns = _views(plan)
    axes = axes_of(plan, plan.inputs["InputTensor"])
    inside = [[whole(axis)] if is_inside(axis) else [line.inside for line in lines(axis)] for axis in axes]
    for boxes in product(*inside):
        chosen = [box for box in boxes if box is not None]
        if len(chosen) == len(axes):
            yield copy(_in_image(image, axes, chosen), _in_columns(columns, chosen))
    for i, axis in enumerate(axes):
        if is_inside(axis):
            continue
        # Boxes inside before this dimension, whole dimensions after it: no element of the padding is written twice.
        outside = [box for line in lines(axis) for box in line.outside]
        for boxes in product(*inside[:i], outside, *([whole(after)] for after in axes[i + 1 :])):
            chosen = [box for box in boxes if box is not None]
            if len(chosen) == len(axes):
                part = _in_columns(columns, chosen)
                yield copy(constant(part), part)


def _views(plan: Plan) -> tuple[View, View]:
    """Returns the image, and the columns with dimensions for the window and the blocks of each folded dimension."""
    axes = axes_of(plan, plan.inputs["InputTensor"])
    image = View.of(0, plan.inputs["InputTensor"])
    image = image.ordered(*range(len(image.sizes) - len(axes) - 2, len(image.sizes)))
    columns = View.of(1, plan.outputs["OutputTensor"])
    columns = columns.ordered(*range(len(columns.sizes) - 3, len(columns.sizes)))
    columns = columns.split(2, *(axis.blocks for axis in axes))
    columns = columns.split(1, image.sizes[1], *(axis.window for axis in axes))
    pairs = [place for i in range(len(axes)) for place in (2 + i, 2 + len(axes) + i)]
    return image, columns.ordered(0, 1, *pairs)


def _in_columns(columns: View, boxes: Sequence[Box]) -> View:
    for i, box in enumerate(boxes):
        columns = columns.taken(2 + 2 * i, box.window, box.windows).taken(3 + 2 * i, box.block, box.blocks)
    return columns


def _in_image(image: View, axes: Sequence[FoldedDimension], boxes: Sequence[Box]) -> View:
    dimensions, offset = list(image.dimensions[:2]), image.offset
    for dimension, axis, box in zip(image.dimensions[2:], axes, boxes, strict=True):
        offset += box.position(axis) * dimension.step
        dimensions.append(StridedDimension(box.windows, axis.dilation * dimension.step))
        dimensions.append(StridedDimension(box.blocks, axis.stride * dimension.step))
    return View(image.tensor, offset, tuple(dimensions))
