"""CONVOLUTION: filters times the columns under the windows, or direct sums for groups of few filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from opwire.check import Plan
from opwire.tensor import BufferTensorDesc

from ...convolutions import ConvolutionGeometry, PhaseDimension
from ...formulas.resolve import as_fused
from ...gaps import Gaps
from ..job import BaseJob, Card, CudaMemory, Launch, Program, device_desc
from .batches import Batch, Batches
from .gaps import GapFilling
from .launching import ACTIVATED, ROUNDED, Launching, float_program
from .tiles import NOWHERE, SPATIAL, TENSORS, WINDOW, BatchedProduct, ProductTiling, Scratch, Strides
from .window_remainders import MOST_PHASES, WindowRemainderLaunching, suits

MOST_DIRECT_FILTERS = 8
"""Maximum number of filters per group for direct sums."""

SHALLOW = 1 << 12
"""Maximum number of products of a direct sum."""


class Convolution(BaseJob):
    """The job of a convolution, phase by phase."""

    def __init__(self, plan: Plan, card: Card) -> None:
        geometry = ConvolutionGeometry(plan)
        fused = as_fused(plan.attributes.FusedActivation)
        finish = ROUNDED if fused is None else ACTIVATED
        target = device_desc(plan.outputs["OutputTensor"])
        program = float_program(target.data_type, has_window=True, finish=finish, activation=fused)
        item_bytes: dict[str, int] = dict.fromkeys(TENSORS, target.data_type.dtype.itemsize)
        self._has_bias = "BiasTensor" in plan.inputs
        depth = prod(plan.inputs["FilterTensor"].sizes[2:]) * geometry.channels
        self._is_direct = geometry.filters <= MOST_DIRECT_FILTERS and depth <= SHALLOW
        self._plan, self._geometry, self._target = plan, geometry, target
        self._launching = Launching(program, item_bytes, card.processors, has_window=True)
        # Phases differ little in size, and there may be many: plan for the largest.
        most = _largest(geometry)
        self._tiling = ProductTiling.of(most, is_direct=self._is_direct)
        self._batches = Batches(self._recorded)
        inner = tuple(slice(size) for size in geometry.inner)
        self._fill = None if geometry.is_whole else _outputs_alone(plan, geometry, target, inner)
        margins = (_outputs_alone(plan, geometry, target, margin) for margin in geometry.margins)
        self._margins = [replace(margin, addend=NOWHERE) for margin in margins]
        self._margin_batches = Batches(self._recorded_margins)
        alone = [*self._margins, *([] if self._fill is None else [self._fill])]
        self._by_remainders: WindowRemainderLaunching | None = None
        phases = list(self._phases()) if geometry.phases <= MOST_PHASES else []
        if suits(phases, target.data_type, card):
            self._by_remainders = WindowRemainderLaunching(program, item_bytes, card, target.data_type, phases)
            self._launching = self._by_remainders
        self._gaps = GapFilling(plan, geometry, target) if Gaps(geometry).may_exist else None
        whole = (
            [Scratch.of(most, self._tiling, is_direct=self._is_direct)]
            if self._by_remainders is None
            else map(self._by_remainders.scratch, phases)
        )
        self.scratch_bytes = max(
            *(scratch.size for scratch in whole),
            *(Scratch.of(each, ProductTiling.of(each, is_direct=True), is_direct=True).size for each in alone),
            0,
        )

    @property
    def programs(self) -> tuple[Program, ...]:
        gaps = () if self._gaps is None else (self._gaps.program,)
        return (self._launching.program, *gaps)

    def launches(self, memory: CudaMemory) -> Iterator[Launch]:
        """See ``CudaJob.launches``."""
        addresses = {
            "left": memory.inputs["FilterTensor"],
            "right": memory.inputs["InputTensor"],
            "target": memory.outputs["OutputTensor"],
        }
        for batch in self._margin_batches:
            yield from batch.placed(self._launching.program, addresses, memory.scratch)
        if self._has_bias:
            addresses["addend"] = memory.inputs["BiasTensor"]
        for batch in self._batches:
            yield from batch.placed(self._launching.program, addresses, memory.scratch)
        if self._gaps is not None:
            yield self._gaps.launch(memory)

    def _recorded_margins(self) -> Iterator[Batch]:
        for margin in self._margins:
            yield from self._launching.computed(margin, ProductTiling.of(margin, is_direct=True))

    def _recorded(self) -> Iterator[Batch]:
        if self._fill is not None:
            yield from self._launching.computed(self._fill, ProductTiling.of(self._fill, is_direct=True))
        for products in self._phases():
            if self._by_remainders is not None:
                yield from self._by_remainders.by_remainders(products)
            elif self._is_direct:
                yield from self._launching.computed(products, self._tiling)
            else:
                yield from self._launching.multiplied(products, self._tiling)

    def _phases(self) -> Iterator[BatchedProduct]:
        """Yields the products of each phase that has outputs."""
        for number in range(self._geometry.phases):
            lines = self._geometry.phase(number)
            if lines is not None:
                yield phase_products(self._plan, self._geometry, self._target, lines)


def _largest(geometry: ConvolutionGeometry) -> BatchedProduct:
    """Returns products as large as those of any phase, without addresses."""
    columns = geometry.images * prod(outputs for _, outputs in geometry.longest)
    depth = geometry.channels * prod(taps for taps, _ in geometry.longest)
    return BatchedProduct(1, geometry.groups, geometry.filters, columns, depth, NOWHERE, NOWHERE, NOWHERE, NOWHERE)


def phase_products(
    plan: Plan, geometry: ConvolutionGeometry, target: BufferTensorDesc, lines: tuple[PhaseDimension, ...]
) -> BatchedProduct:
    """Returns the products of a phase: filters, and the columns of all images and positions."""
    source, kernel = plan.inputs["InputTensor"], plan.inputs["FilterTensor"]
    memory = np.zeros(1, np.uint8)  # never read: with 1-byte items, byte strides are element strides
    weights = geometry.filters_of(as_strided(memory, kernel.sizes, kernel.element_strides), lines)
    taps, channels = weights.shape[2:-1], weights.shape[-1]
    group, filter_, *weight, weight_channel = weights.strides
    window = np.zeros((), WINDOW)
    window["channel"], window["image"] = source.element_strides[1], source.element_strides[0]
    window["weight_channel"], window["target_image"] = weight_channel, target.element_strides[0]
    spatial = {
        "space": source.element_strides[2:],
        "base": [line.base for line in lines],
        "move": [line.step for line in lines],
        "turn": [line.turn for line in lines],
        "weight": weight,
        "target": [step * line.stride for step, line in zip(target.element_strides[2:], lines, strict=True)],
    }
    for name, values in spatial.items():
        window[name] = _filled(values, 0)
    for name, sizes in (("size", source.sizes[2:]), ("taps", taps), ("places", [line.length for line in lines])):
        window[name] = _filled(sizes, 1)
    step = _plain_step((channels, *taps), (weight_channel, *weight))
    window["is_plain"] = step is not None
    begin = sum(step * line.first for step, line in zip(target.element_strides[2:], lines, strict=True))
    return BatchedProduct(
        outer=1,
        inner=geometry.groups,
        rows=geometry.filters,
        columns=geometry.images * prod(line.length for line in lines),
        depth=channels * prod(taps),
        left=Strides(0, group, filter_, step or 0),
        right=Strides(0, source.element_strides[1] * geometry.channels, 0, 0),
        addend=_bias(plan, geometry),
        target=Strides(0, target.element_strides[1] * geometry.filters, target.element_strides[1], 0),
        begin=(weights.__array_interface__["data"][0] - memory.__array_interface__["data"][0], begin),
        window=window,
    )


def _outputs_alone(
    plan: Plan, geometry: ConvolutionGeometry, target: BufferTensorDesc, place: tuple[slice, ...]
) -> BatchedProduct:
    """Returns empty sums for a box of the output, as no input element reaches some of its elements."""
    starts = (part.start or 0 for part in place)
    lines = tuple(
        PhaseDimension(1, start, 1, part.stop - start, 0, 1, 1, 0, 0, 0)
        for start, part in zip(starts, place, strict=True)
    )
    whole = phase_products(plan, geometry, target, lines)
    return BatchedProduct(
        outer=1,
        inner=whole.inner,
        rows=whole.rows,
        columns=whole.columns,
        depth=0,
        left=NOWHERE,
        right=NOWHERE,
        addend=whole.addend,
        target=whole.target,
        begin=(0, whole.begin[1]),
        window=whole.window,
    )


def _bias(plan: Plan, geometry: ConvolutionGeometry) -> Strides:
    if "BiasTensor" not in plan.inputs:
        return NOWHERE
    step = plan.inputs["BiasTensor"].element_strides[1]
    return Strides(0, step * geometry.filters, step, 0)


def _filled(values: Sequence[int], value: int) -> list[int]:
    """Pads values to the maximum number of spatial dimensions; the missing ones are outermost."""
    return [*(value,) * (SPATIAL - len(values)), *values]


def _plain_step(sizes: Sequence[int], steps: Sequence[int]) -> int | None:
    """Returns the step between adjacent elements if all dimensions collapse to a single stride, or None."""
    dimensions = [(size, step) for size, step in zip(sizes, steps, strict=True) if size > 1]
    if not dimensions:
        return 1
    for (_, outer), (size, inner) in pairwise(dimensions):
        if outer != inner * size:
            return None
    return dimensions[-1][1]


JOBS = {"CONVOLUTION": Convolution}
