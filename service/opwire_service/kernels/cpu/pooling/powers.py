"""LP_POOLING with P above 2, in float64 with NumPy; windows are scaled by their greatest element before taking powers.

A quotient has one rounding error, its power P of them, and the root divides the error by P again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.rules.dimension import Dimension
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ...windows import dimensions_of
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from ..run.reference import ReferenceJob

_PLANE = 1 << 18
"""Maximum number of outputs in a plane, which is computed at once."""

_AT_ONCE = 1 << 13
"""Outputs of small planes computed at once, to amortize the overhead of NumPy calls."""

_WINDOW = 1 << 12
"""Maximum number of elements in a window."""

POWER_VISITS, CALL_VISITS = 64, 1 << 14
"""Costs of a power, and of the NumPy calls for each window tap, in element visits."""


class PowersJob(Job):
    """Computes planes of outputs, one window tap at a time."""

    def __init__(self, plan: Plan) -> None:
        self._power = float(plan.attributes.P)
        self._dimensions = dimensions_of(plan.attributes, plan.inputs["InputTensor"].sizes)
        self._sizes = plan.outputs["OutputTensor"].sizes
        images, channels, *plane = self._sizes
        self._channels = min(channels, max(1, _AT_ONCE // prod(plane)))
        self._images = min(images, max(1, _AT_ONCE // (channels * prod(plane))))
        self._parts = -(-channels // self._channels)
        self._units = -(-images // self._images) * self._parts
        calls = self._units * prod(each.window for each in self._dimensions)
        self._scratch = ScratchBytes(thread=64 * self._images * self._channels * prod(plane), shared=1 << 18)
        self._visits = POWER_VISITS * plan.work + CALL_VISITS * calls

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        at_once = self._images, self._channels

        def piece(unit: int) -> None:
            image, channel = (i * size for i, size in zip(divmod(unit, self._parts), at_once, strict=True))
            place = slice(image, image + self._images), slice(channel, channel + self._channels)
            with np.errstate(all="ignore"):
                target[place] = self._norms(source[place], stop)

        pool.each(piece, self._units, stop)

    def _norms(self, planes: Array, stop: Stop) -> Array:
        sizes = *planes.shape[:2], *self._sizes[2:]
        greatest = np.zeros(sizes)
        for outputs, elements in self._taps(planes, stop):
            np.maximum(greatest[outputs], elements, out=greatest[outputs])
        total = np.zeros(sizes)
        divisor = np.where(greatest > 0, greatest, 1.0)
        for outputs, elements in self._taps(planes, stop):
            total[outputs] += (elements / divisor[outputs]) ** self._power
        norms: Array = np.where(np.isfinite(greatest), total ** (1 / self._power) * greatest, greatest)
        return norms

    def _taps(self, planes: Array, stop: Stop) -> Iterator[tuple[Any, Array]]:
        """Yields, for each window tap, the outputs that have it and the magnitudes of its elements."""
        axes = [
            list(_slices(dimension, size)) for dimension, size in zip(self._dimensions, self._sizes[2:], strict=True)
        ]
        for taps in product(*axes):
            if stop():
                raise Stopped
            outputs, elements = ((slice(None), slice(None), *(tap[i] for tap in taps)) for i in range(2))
            yield outputs, np.abs(planes[elements].astype(np.float64))


def _slices(dimension: Dimension, outputs: int) -> Iterator[tuple[slice, slice]]:
    """Yields, for each window tap along a dimension, the slices of its outputs and of its input positions."""
    for tap in range(dimension.window):
        offset = tap * dimension.dilation - dimension.start
        first = max(0, -(offset // dimension.stride))
        end = min(outputs, (dimension.size - 1 - offset) // dimension.stride + 1)
        if first < end:
            positions = slice(
                offset + first * dimension.stride, offset + (end - 1) * dimension.stride + 1, dimension.stride
            )
            yield slice(first, end), positions


def prepare(plan: Plan) -> Job:
    """Computes small windows of small planes; the reference computes all others."""
    window, plane = prod(plan.attributes.WindowSize), prod(plan.outputs["OutputTensor"].sizes[2:])
    return PowersJob(plan) if window <= _WINDOW and plane <= _PLANE else ReferenceJob(plan)
