"""UNFOLD copies the blocks of an image into columns; FOLD adds the columns back at the positions of their blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, BufferTensorDesc, DataType

from ...execution import Arrays, Stop, Stopped
from ..exact import FORMATS, Float, FloatFormat, round_ratio
from ..layout import coordinates
from .moves import Coordinate, move, view_at

DOUBLE = FloatFormat(DataType.FLOAT64, 52)

CHUNK = 1024
"""Elements added between polls of ``stop``."""

_UNIT = 1074
"""Every float is a multiple of 2**-1074."""


class FoldedDimension(NamedTuple):
    """A folded dimension: its size, its blocks, and how a block steps through it."""

    size: int
    blocks: int
    window: int
    stride: int
    dilation: int
    start: int

    def position(self, block: int, offset: int) -> int | None:
        """Returns the image position of a block's element, or None if it is in the padding."""
        at = block * self.stride - self.start + offset * self.dilation
        return at if 0 <= at < self.size else None

    def blocks_at(self, position: int) -> list[tuple[int, int]]:
        """Returns the blocks that cover a position, with the offset of the position in each."""
        at = position + self.start
        first = max(0, -((self.dilation * (self.window - 1) - at) // self.stride))
        found = []
        for block in range(first, min(at // self.stride + 1, self.blocks)):
            offset, rest = divmod(at - block * self.stride, self.dilation)
            if not rest and offset < self.window:
                found.append((block, offset))
        return found


def axes_of(plan: Plan, image: BufferTensorDesc) -> list[FoldedDimension]:
    """Returns the folded dimensions of an image."""
    attributes, axes = plan.attributes, []
    sizes = image.sizes[image.rank - len(attributes.WindowSizes) :]
    for i, size in enumerate(sizes):
        window, stride, dilation = (getattr(attributes, name)[i] for name in ("WindowSizes", "Strides", "Dilations"))
        start, end = attributes.StartPadding[i], attributes.EndPadding[i]
        blocks = (size + start + end - dilation * (window - 1) - 1) // stride + 1
        axes.append(FoldedDimension(size, blocks, window, stride, dilation, start))
    return axes


def run_unfold(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    axes = axes_of(plan, plan.inputs["InputTensor"])
    windows, blocks = [axis.window for axis in axes], [axis.blocks for axis in axes]
    outer = (0,) * (source.ndim - len(axes) - 2)

    def place(coordinate: Coordinate) -> Coordinate | None:
        image, row, column = coordinate[-3:]
        channel, *offsets = _unravelled(row, [0, *windows])
        _, *chosen = _unravelled(column, [0, *blocks])
        found = [axis.position(*each) for axis, each in zip(axes, zip(chosen, offsets, strict=True), strict=True)]
        inside = tuple(at for at in found if at is not None)
        return (*outer, image, channel, *inside) if len(inside) == len(found) else None

    move(source, target, place, stop)


def run_fold(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputTensor"], outputs["OutputTensor"]
    axes = axes_of(plan, plan.outputs["OutputTensor"])
    columns = view_at(source, (0,) * (source.ndim - 3))
    data_type = plan.outputs["OutputTensor"].data_type
    for coordinate in coordinates(target.shape):
        target[coordinate] = element_at(columns, data_type, axes, coordinate[-2 - len(axes) :], stop)


def element_at(
    columns: Array, data_type: DataType, axes: Sequence[FoldedDimension], at: Coordinate, stop: Stop
) -> Array:
    """Returns the sum of the columns for an image element, given its batch, channel and position."""
    image, channel, *position = at
    if stop():
        raise Stopped
    return _sum(data_type, columns, ((image, *place) for place in _places(axes, channel, position, stop)))


def _places(
    axes: Sequence[FoldedDimension], channel: int, position: Sequence[int], stop: Stop
) -> Iterator[tuple[int, int]]:
    """Yields the rows and columns of the elements that contribute to an image element."""
    pairs = [axis.blocks_at(at) for axis, at in zip(axes, position, strict=True)]
    for count, chosen in enumerate(coordinates([len(each) for each in pairs])):
        if count % CHUNK == CHUNK - 1 and stop():
            raise Stopped
        row, column = channel, 0
        for axis, each, i in zip(axes, pairs, chosen, strict=True):
            block, offset = each[i]
            row, column = row * axis.window + offset, column * axis.blocks + block
        yield row, column


def _sum(data_type: DataType, source: Array, places: Iterator[Coordinate]) -> Array:
    """Returns the exact sum of some elements, rounded once; integers wrap around. An empty sum is 0."""
    if not data_type.is_float:
        total = sum(int(source[place]) for place in places) % (1 << data_type.bits)
        return np.array(total, f"<u{data_type.bits // 8}").view(data_type.dtype)
    return np.array(_float_sum(map(source.__getitem__, places), FORMATS.get(data_type, DOUBLE)), data_type.dtype)


def _float_sum(elements: Iterator[Float], of: FloatFormat) -> Float:
    """Returns the sum of floats, rounded once; the sum is -0 if all elements are."""
    units, special, has_positive, count = 0, 0.0, False, 0
    for element in elements:
        number = float(element)
        count += 1
        has_positive |= math.copysign(1, number) > 0
        if math.isfinite(number):
            numerator, denominator = number.as_integer_ratio()
            units += numerator << (_UNIT - denominator.bit_length() + 1)
        else:
            special += number
    if special or not units:
        return of.of(special or (0.0 if has_positive or not count else -0.0))
    return round_ratio(units, 1 << _UNIT, of)


def _unravelled(index: int, sizes: list[int]) -> list[int]:
    """Returns the coordinate of a row-major index; the first size is irrelevant."""
    found = []
    for size in reversed(sizes[1:]):
        index, at = divmod(index, size)
        found.append(at)
    return [index, *reversed(found)]


KERNELS = {"FOLD": run_fold, "UNFOLD": run_unfold}
