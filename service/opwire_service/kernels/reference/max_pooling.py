"""Max pooling, unpooling and the gradient: each window is a view of the input elements it covers."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.rules.dimension import Dimension
from opwire.tensor import Array, packed_strides

from ...execution import Arrays, Stop, Stopped
from ..exact import FORMATS, Float, FloatFormat, exact_sum
from ..layout import coordinates
from ..windows import covering, dimensions_of, places, slices
from .elements import CHUNK, Elements
from .extreme import FIRST_GREATEST

_LEAST = np.finfo(np.float32).min

_KEPT = 1 << 12
"""Cache size of window winners."""


def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, values, positions = inputs["InputTensor"], outputs["OutputTensor"], outputs.get("OutputIndicesTensor")
    dimensions = dimensions_of(plan.attributes, source.shape)
    for coordinate in coordinates(values.shape):
        ranges = places(dimensions, coordinate[2:])
        position, winner = _winner(source[coordinate[:2]], ranges, stop)
        values[coordinate] = started(winner)
        if positions is not None:
            positions[coordinate] = _flat((*coordinate[:2], *position), source.shape)


def started(winner: Any) -> Any:
    """Returns the maximum of a window with this winner.

    As in DirectML, it starts from the lowest finite FLOAT32, which a window of NaN or -infinity alone does not exceed.
    """
    if winner.dtype.kind != "f":
        return winner
    least = winner.dtype.type(-np.inf if winner.dtype == np.float16 else _LEAST)
    return winner if winner > least else least


def _winner(image: Array, ranges: tuple[range, ...], stop: Stop) -> tuple[tuple[int, ...], Any]:
    """Returns the position in the image and the value of a window's winner."""
    elements = image[slices(ranges)]
    position, value = FIRST_GREATEST.winner(Elements(elements, stop))
    within = np.unravel_index(position, elements.shape)
    return tuple(part[int(i)] for part, i in zip(ranges, within, strict=True)), value


def _unpool(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, indices, target = inputs["InputTensor"], inputs["IndicesTensor"], outputs["OutputTensor"]
    for place in coordinates(target.shape[:-1]):
        for start in range(0, target.shape[-1], CHUNK):
            if stop():
                raise Stopped
            target[place][start : start + CHUNK] = 0
    steps = packed_strides(target.shape)
    for start in range(0, source.size, CHUNK):
        if stop():
            raise Stopped
        piece = slice(start, start + CHUNK)
        for value, index in zip(source.flat[piece], indices.flat[piece].tolist(), strict=True):
            if index < target.size:
                target[tuple(index // step % size for step, size in zip(steps, target.shape, strict=True))] = value


class WindowWinners:
    """The winner positions of windows; recent ones are cached for overlapping windows.

    Attributes:
        dimensions: the dimensions that the windows slide along.
    """

    def __init__(self, source: Array, dimensions: tuple[Dimension, ...], stop: Stop) -> None:
        self._source = source
        self.dimensions = dimensions
        self._stop = stop
        self._found: dict[tuple[int, ...], tuple[int, ...]] = {}

    def __getitem__(self, window: tuple[int, ...]) -> tuple[int, ...]:
        found = self._found.get(window)
        if found is None:
            ranges = places(self.dimensions, window[2:])
            found, _ = _winner(self._source[window[:2]], ranges, self._stop)
            if len(self._found) == _KEPT:
                del self._found[next(iter(self._found))]
            self._found[window] = found
        return found


def max_gradient_of(winners: WindowWinners, gradient: Array, coordinate: tuple[int, ...], to: FloatFormat) -> Float:
    """Returns the sum of the gradients of the windows that an element wins."""
    image, place = coordinate[:2], coordinate[2:]
    having = (
        covering(dimension, count, at)
        for dimension, count, at in zip(winners.dimensions, gradient.shape[2:], place, strict=True)
    )
    won = [(*image, *window) for window in product(*having) if winners[(*image, *window)] == place]
    # The sum starts with +0, so it is never -0.
    return exact_sum([np.array([0, *(gradient[window] for window in won)], to.dtype)], to)


def _gradient(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    """Gathers, for each element, the gradients of the windows it wins."""
    source, gradient, target = inputs["InputTensor"], inputs["InputGradientTensor"], outputs["OutputGradientTensor"]
    winners = WindowWinners(source, dimensions_of(plan.attributes, source.shape), stop)
    to = FORMATS[plan.inputs["InputTensor"].data_type]
    for coordinate in coordinates(target.shape):
        if stop():
            raise Stopped
        target[coordinate] = max_gradient_of(winners, gradient, coordinate, to)


def _flat(coordinate: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    """Returns the row-major position in the whole tensor."""
    return sum(i * step for i, step in zip(coordinate, packed_strides(sizes), strict=True))


KERNELS = {
    **dict.fromkeys(("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"), run),
    "MAX_UNPOOLING": _unpool,
    "MAX_POOLING_GRAD": _gradient,
}

TURNS = {_unpool: lambda plan: plan.inputs["InputTensor"].element_count}
