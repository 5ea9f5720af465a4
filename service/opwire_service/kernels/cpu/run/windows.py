"""Windows of a pooling: three spatial dimensions; missing outer ones have size 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from opwire.rules.dimension import Dimension
from opwire.tensor import BufferTensorDesc

from ..jit.compiler import inlined, inner
from ..jit.records import Record
from .walk import split


class Axis(Record):
    """A dimension that windows slide along, and ``out``, the number of windows."""

    size: int
    stride: int
    window: int
    start: int
    dilation: int
    out: int
    common: int  # in gradients of averages


class TensorSteps(Record):
    """TensorSteps of a tensor, in elements."""

    image: int
    channel: int
    depth: int
    height: int
    across: int


class Windows(Record):
    """Windows along three dimensions, and the steps of the input, the output, and a second output."""

    channels: int
    source: TensorSteps
    value: TensorSteps
    index: TensorSteps
    line: int  # padded positions that the windows of a tile cover along the innermost dimension
    tile: int  # outputs in a tile, and tiles in a row of outputs
    tiles: int
    depth: Axis
    height: Axis
    across: Axis


W = TypeVar("W", bound=Windows)

_FLAT = Dimension(size=1, stride=1, window=1, start=0, end=0, dilation=1)
"""A dimension of size 1, in place of missing ones."""


def encode(
    windows: type[W],
    tensors: tuple[BufferTensorDesc, BufferTensorDesc, BufferTensorDesc],
    dimensions: Sequence[Dimension],
    outputs: Sequence[int],
    **fields: int,
) -> W:
    """Encodes a pooling.

    Args:
        windows: the class of the geometry.
        tensors: the input, the output, and a second output.
        dimensions: the dimensions that windows slide along.
        outputs: sizes of the output.
        fields: its other fields.
    """
    missing = 3 - len(dimensions)
    source, value, index = ([*steps[:2], *(0,) * missing, *steps[2:]] for steps in (t.element_strides for t in tensors))
    depth, height, across = (
        (each.size, each.stride, each.window, each.start, each.dilation, out, 0)
        for each, out in zip((*(_FLAT,) * missing, *dimensions), (*(1,) * missing, *outputs[2:]), strict=True)
    )
    steps = {"source": source, "value": value, "index": index}
    return windows(channels=outputs[1], depth=depth, height=height, across=across, **steps, **fields)


@inner
def first_tap(axis: Axis, out: int) -> int:
    """Returns the first tap of a window along a dimension that is not in the padding before the input."""
    begin = out * axis.stride - axis.start
    return 0 if begin >= 0 else (axis.dilation - 1 - begin) // axis.dilation


@inner
def taps_end(axis: Axis, out: int) -> int:
    """Returns the end of the taps of a window along a dimension that are not in the padding after the input."""
    begin = out * axis.stride - axis.start
    return min(axis.window, (axis.size - 1 - begin) // axis.dilation + 1)


@inner
def position(axis: Axis, out: int, tap: int) -> int:
    """Returns the input position of a window's tap along a dimension."""
    return out * axis.stride - axis.start + tap * axis.dilation


@inner
def place_of(geometry: Windows, steps: TensorSteps, plane: int, depth: int, height: int) -> int:
    """Returns the offset, in elements, of a row in a tensor, with its channel counted over all images."""
    image, channel = split(plane, geometry.channels)
    return image * steps.image + channel * steps.channel + depth * steps.depth + height * steps.height


@inlined
def tile_of(geometry: Windows, unit: int) -> tuple[int, int, int, int]:
    """Returns a tile's channel, counted over all images, its depth and its height, and its first output."""
    rest, first = unit, 0
    if geometry.tiles != 1:
        rest, first = split(unit, geometry.tiles)
    rest, height = split(rest, geometry.height.out)
    plane, depth = split(rest, geometry.depth.out)
    return plane, depth, height, first * geometry.tile


@inner
def width_of(geometry: Windows, first: int) -> int:
    """Returns the number of outputs in a tile."""
    return min(geometry.tile, geometry.across.out - first)
