"""MAX_POOLING, MAX_POOLING1 and MAX_POOLING2: each window is a view of the elements that it has in the input."""

from __future__ import annotations

import numpy as np

from opwire.check import Plan
from opwire.rules.dimension import Dimension
from opwire.tensor import packed_strides

from ...execution import Arrays, Stop
from ..layout import coordinates
from .elements import Elements
from .extreme import FIRST_GREATEST


def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, values, positions = inputs["InputTensor"], outputs["OutputTensor"], outputs.get("OutputIndicesTensor")
    dimensions = tuple(plan.attributes.dimensions(source.shape))
    for coordinate in coordinates(values.shape):
        image, window = coordinate[:2], coordinate[2:]
        covered = tuple(_covered(dimension, at) for dimension, at in zip(dimensions, window, strict=True))
        elements = source[(*image, *covered)]
        position, values[coordinate] = FIRST_GREATEST.winner(Elements(elements, stop))
        if positions is not None:
            within = np.unravel_index(position, elements.shape)
            spatial = (part.start + int(i) * part.step for part, i in zip(covered, within, strict=True))
            positions[coordinate] = _flat((*image, *spatial), source.shape)


def _covered(dimension: Dimension, window: int) -> slice:
    """What a window reads along one dimension, without the padding: a checked plan leaves at least one element."""
    begin = window * dimension.stride - dimension.start
    skipped = max(0, -(begin // dimension.dilation))
    first = begin + skipped * dimension.dilation
    end = begin + dimension.dilated_window
    return slice(first, min(end, dimension.size), dimension.dilation)


def _flat(coordinate: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    """The row-major position in the whole tensor."""
    return sum(i * step for i, step in zip(coordinate, packed_strides(sizes), strict=True))


KERNELS = dict.fromkeys(("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"), run)
