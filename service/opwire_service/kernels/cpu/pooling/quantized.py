"""QUANTIZED_LINEAR_AVERAGE_POOLING: integer sums of windows, and a single rounding of their quotients.

Sums, their products with a scale, and products of counts with the other scale are exact in float64; so is the test on
which side of the midpoint between two integers a quotient is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
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

_TILE = 1 << 15
"""Input elements summed at once, unless a single output needs more."""

_LARGEST = 1 << 18
"""Maximum number of elements in a window for which products of counts and scales are exact."""

_WIDEST = 1 << 21
"""Maximum number of input elements that a tile of outputs may need."""

_MOST_ADDED = 8
"""Maximum number of taps that are added one by one; longer windows are differences of running sums."""

_RUNNING, _FINISHED, _CALLS = 4, 64, 1 << 17
"""Costs in visits: of running sums per element, of finishing an output, and of the NumPy calls for a tile."""


class QuantizedJob(Job):
    """Sums tiles of outputs with NumPy, one dimension after the other."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._dimensions = dimensions_of(plan.attributes, plan.inputs["InputTensor"].sizes)
        self._images, self._channels, *sizes = plan.outputs["OutputTensor"].sizes
        self._sizes = tuple(sizes)
        tile = list(sizes)
        # Outer dimensions are cut first.
        for axis in range(len(tile)):
            while tile[axis] > 1 and self._needed(tile) > _TILE:
                tile[axis] = -(-tile[axis] // 2)
        self._tile = tuple(tile)
        self._planes = max(1, min(self._channels, _TILE // self._needed(tile))) if tile == sizes else 1
        self._scratch = ScratchBytes(thread=240 * max(self._planes * self._needed(tile), _TILE))
        pieces = (-(-size // part) for size, part in zip(sizes, tile, strict=True))
        self._counts = (self._images, -(-self._channels // self._planes), *pieces)

    def _needed(self, tile: list[int]) -> int:
        """Returns the maximum number of input elements that a tile needs."""
        return prod(self._needed_sizes(tile))

    def _needed_sizes(self, tile: list[int]) -> Iterator[int]:
        for each, count in zip(self._dimensions, tile, strict=True):
            yield min(each.size, (count - 1) * each.stride + each.dilated_window)

    @property
    def is_small(self) -> bool:
        """Whether tiles and windows are small enough to be summed at once."""
        window = prod(each.window for each in self._dimensions)
        return window <= _LARGEST and self._needed(list(self._tile)) <= _WIDEST

    @property
    def visits(self) -> int:
        sizes, total = list(self._needed_sizes(list(self._tile))), 0
        for axis in range(len(sizes) - 1, -1, -1):
            taps = self._dimensions[axis].window
            passes = taps if taps <= _MOST_ADDED or self._dimensions[axis].dilation > 1 else _RUNNING
            sizes[axis] = max(sizes[axis], self._tile[axis]) if passes == _RUNNING else self._tile[axis]
            total += (passes + 1) * prod(sizes)
            sizes[axis] = self._tile[axis]
        finishing = _FINISHED * prod(self._tile)
        return prod(self._counts) * (_CALLS + self._planes * (total + finishing))

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        rank = source.ndim - 2
        names = ("InputScaleTensor", "OutputScaleTensor", "InputZeroPointTensor", "OutputZeroPointTensor")
        given = [_by_channel(inputs.get(name), self._channels, rank) for name in names]
        if not (np.isfinite(given[0]).all() and np.isfinite(given[1]).all() and given[1].all()):
            ReferenceJob(self._plan).run(inputs, outputs, find, pool, stop)
            return

        def piece(unit: int) -> None:
            image, planes, *place = (int(i) for i in np.unravel_index(unit, self._counts))
            channels = slice(planes * self._planes, (planes + 1) * self._planes)
            begins = [at * part for at, part in zip(place, self._tile, strict=True)]
            parts = [slice(at, at + part) for at, part in zip(begins, self._tile, strict=True)]
            scale, out_scale, zero, out_zero = (each[channels] for each in given)
            index: tuple[Any, ...] = (image, channels, *parts)
            there = target[index]
            total, elements, count = self._sums(source[image, channels], begins, there.shape[1:], stop)
            total = (total - elements * zero) * scale
            limits = np.iinfo(there.dtype)
            there[...] = np.clip(_rounded(total, count * out_scale) + out_zero, limits.min, limits.max)

        pool.each(piece, prod(self._counts), stop)

    def _sums(self, images: Array, begins: list[int], shape: tuple[int, ...], stop: Stop) -> tuple[Array, Array, Array]:
        """Returns the window sums of some outputs as float64, the number of elements in each, and the divisor."""
        total, counts = images, []
        for axis in range(len(shape), 0, -1):
            dimension, begin, size = self._dimensions[axis - 1], begins[axis - 1], shape[axis - 1]
            total = _along(total, axis, dimension, begin, size, stop)
            ones = np.ones(dimension.size if dimension.size <= _WIDEST else 1, np.int8)
            sizes = _along(np.broadcast_to(ones, (dimension.size,)), 0, dimension, begin, size, stop)
            counts.append(sizes.reshape(-1, *(1,) * (len(shape) - axis)).astype(np.float64))
        elements: Array = reduce(np.multiply, counts)
        whole = np.array(float(prod(each.window for each in self._dimensions)))
        return total.astype(np.float64), elements, whole if self._plan.attributes.IncludePadding else elements


def _by_channel(given: Array | None, channels: int, rank: int) -> Array:
    """Returns a parameter as float64, broadcast to the channels."""
    if given is None:
        values = np.zeros(1)
    else:
        values = given[tuple(slice(None) if size > 1 else 0 for size in given.shape)].reshape(-1).astype(np.float64)
    return np.broadcast_to(values, (channels,)).reshape(channels, *(1,) * rank)


def _along(values: Array, axis: int, dimension: Dimension, begin: int, size: int, stop: Stop) -> Array:
    """Returns the sums, in int32, of windows ``begin`` to ``begin + size`` along one axis of an array."""
    first = np.arange(begin, begin + size) * dimension.stride - dimension.start
    low, high = max(0, int(first[0])), min(dimension.size, int(first[-1]) + dimension.dilated_window)
    if dimension.dilation == 1 and dimension.window > _MOST_ADDED and low < high:
        part = values[_at(axis, slice(low, high))]
        running = np.zeros([count + (i == axis) for i, count in enumerate(part.shape)], np.int32)
        np.cumsum(part, axis=axis, dtype=np.int32, out=running[_at(axis, slice(1, None))])
        ends = np.clip(first + dimension.window, low, high) - low
        return running.take(ends, axis) - running.take(np.clip(first, low, high) - low, axis)
    total = np.zeros([size if i == axis else count for i, count in enumerate(values.shape)], np.int32)
    for tap in range(dimension.window):
        if stop():
            raise Stopped
        places = first + tap * dimension.dilation
        least, most = (int(np.searchsorted(places, bound)) for bound in (0, dimension.size))
        if least < most:
            positions = slice(int(places[least]), int(places[most - 1]) + 1, dimension.stride)
            total[_at(axis, slice(least, most))] += values[_at(axis, positions)]
    return total


def _at(axis: int, part: slice) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, part)


def _rounded(numerator: Array, denominator: Array) -> Array:
    """Rounds quotients, clamped to about 1000 in magnitude, to integers, ties to even; 0 for zero denominators."""
    with np.errstate(all="ignore"):
        below = np.floor(np.clip(np.nan_to_num(numerator / denominator), -1000, 1000))
    middle = (below + 0.5) * denominator
    above = np.where(denominator < 0, middle - numerator, numerator - middle)
    up = (above > 0) | ((above == 0) & (below % 2 == 1))
    return np.where(denominator == 0, 0.0, below + up)


def prepare(plan: Plan) -> Job:
    job = QuantizedJob(plan)
    return job if job.is_small else ReferenceJob(plan)
