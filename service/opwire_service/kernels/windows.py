"""The windows of a pooling: which elements each has, and which windows have an element.

Every pooling and every gradient of one, on any device, walks its windows by these ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

from opwire.rules.dimension import Dimension


def dimensions_of(attributes: Any, sizes: Sequence[int]) -> tuple[Dimension, ...]:
    """The spatial dimensions of what windows slide over, outermost first.

    Args:
        attributes: of a pooling; without dilations they are all 1.
        sizes: of the whole tensor, whose first two dimensions are not spatial.
    """
    spatial = sizes[2:]
    members = zip(
        spatial,
        attributes.Strides,
        attributes.WindowSize,
        attributes.StartPadding,
        attributes.EndPadding,
        getattr(attributes, "Dilations", (1,) * len(spatial)),
        strict=True,
    )
    return tuple(Dimension(*member) for member in members)


def covered(dimension: Dimension, window: int) -> range:
    """The positions of the input that a window has along one dimension; none if it lies in the padding."""
    begin = window * dimension.stride - dimension.start
    first = begin + max(0, -(begin // dimension.dilation)) * dimension.dilation
    return range(first, max(first, min(begin + dimension.dilated_window, dimension.size)), dimension.dilation)


def covering(dimension: Dimension, count: int, position: int) -> range:
    """The windows, of ``count``, that have a position of the input."""
    reach = position + dimension.start
    first = max(0, -((dimension.dilated_window - 1 - reach) // dimension.stride))
    end = min(count, reach // dimension.stride + 1)
    common = gcd(dimension.stride, dimension.dilation)
    if reach % common:
        return range(0)
    # Windows that begin a multiple of the dilation before the position are so many apart.
    apart = dimension.dilation // common
    phase = reach // common * pow(dimension.stride // common, -1, apart) % apart if apart > 1 else 0
    first += (phase - first) % apart
    return range(first, max(first, end), apart)


def places(dimensions: Sequence[Dimension], coordinate: Sequence[int]) -> tuple[range, ...]:
    """The positions of the input that the window of an output's spatial coordinate has, dimension by dimension."""
    return tuple(covered(dimension, at) for dimension, at in zip(dimensions, coordinate, strict=True))


def slices(ranges: Sequence[range]) -> tuple[slice, ...]:
    """What an array is indexed with to have just the elements of some ranges."""
    return tuple(slice(part.start, part.stop, part.step) for part in ranges)


def divisor(attributes: Any, dimensions: Sequence[Dimension], ranges: Sequence[range]) -> int:
    """What the sum of a window is divided by for the mean: 0 where it has no element."""
    if attributes.IncludePadding:
        return prod(dimension.window for dimension in dimensions)
    return prod(map(len, ranges))
