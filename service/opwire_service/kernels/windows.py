"""Pooling windows: the elements each window covers, and the windows that cover an element.

Every pooling operator and gradient on every device iterates its windows with these ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, prod
from typing import Any

from opwire.rules.dimension import Dimension


def dimensions_of(attributes: Any, sizes: Sequence[int], pooled: Sequence[int] = ()) -> tuple[Dimension, ...]:
    """Returns the spatial dimensions that the windows slide over, outermost first.

    Args:
        attributes: attributes of a pooling operator; missing dilations default to 1.
        sizes: sizes of the whole tensor, whose first two dimensions are not spatial.
        pooled: sizes of the pooled tensor; the padding at the end is made to end with the last of its windows.
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
    dimensions = tuple(Dimension(*member) for member in members)
    return tuple(map(_holding, dimensions, pooled[2:])) if pooled else dimensions


def _holding(dimension: Dimension, windows: int) -> Dimension:
    """Returns a dimension with just as much padding at the end as a number of windows need."""
    end = (windows - 1) * dimension.stride + dimension.dilated_window - dimension.size - dimension.start
    return replace(dimension, end=max(end, 0))


def covered(dimension: Dimension, window: int) -> range:
    """Returns the input positions under a window along one dimension; empty if it lies in the padding."""
    begin = window * dimension.stride - dimension.start
    first = begin + max(0, -(begin // dimension.dilation)) * dimension.dilation
    return range(first, max(first, min(begin + dimension.dilated_window, dimension.size)), dimension.dilation)


def covering(dimension: Dimension, count: int, position: int) -> range:
    """Returns the windows, out of ``count``, that cover an input position."""
    reach = position + dimension.start
    first = max(0, -((dimension.dilated_window - 1 - reach) // dimension.stride))
    end = min(count, reach // dimension.stride + 1)
    common = gcd(dimension.stride, dimension.dilation)
    if reach % common:
        return range(0)
    # Windows whose start differs from the position by a multiple of the dilation recur at this interval.
    apart = dimension.dilation // common
    phase = reach // common * pow(dimension.stride // common, -1, apart) % apart if apart > 1 else 0
    first += (phase - first) % apart
    return range(first, max(first, end), apart)


def places(dimensions: Sequence[Dimension], coordinate: Sequence[int]) -> tuple[range, ...]:
    """Returns the input positions under the window of an output's spatial coordinate, for each dimension."""
    return tuple(covered(dimension, at) for dimension, at in zip(dimensions, coordinate, strict=True))


def slices(ranges: Sequence[range]) -> tuple[slice, ...]:
    """Converts ranges to the slices that select them in an array."""
    return tuple(slice(part.start, part.stop, part.step) for part in ranges)


def divisor(attributes: Any, dimensions: Sequence[Dimension], ranges: Sequence[range]) -> int:
    """Returns the divisor for the mean of a window; 0 if the window is empty."""
    if attributes.IncludePadding:
        return prod(dimension.window for dimension in dimensions)
    return prod(map(len, ranges))
