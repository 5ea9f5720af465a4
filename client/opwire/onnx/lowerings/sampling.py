"""Samples at the places of a grid, gathered and weighted, which DirectML has no operator for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod
from operator import add, mul
from typing import NamedTuple

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, lowers, spread
from .products import FLOATS

_EXACT = 2**24
"""The integers up to which FLOAT32 has all."""

_LINEAR = {0: (0.0, 0.0, -1.0, 1.0), 1: (0.0, 0.0, 1.0, 0.0)}
_CUBIC = {
    -1: (-0.75, 1.5, -0.75, 0.0),
    0: (1.25, -2.25, 0.0, 1.0),
    1: (-1.25, 1.5, 0.75, 0.0),
    2: (0.75, -0.75, 0.0, 0.0),
}
_KERNELS = {"linear": _LINEAR, "cubic": _CUBIC}
"""The weights of the elements at a distance from the one before the place: polynomials of the fraction of the place."""


class _Tap(NamedTuple):
    """An element along one axis that a sample takes.

    Attributes:
        place: its index in FLOAT32, within the input.
        weight: its weight, or None for 1.
    """

    place: GraphTensor
    weight: GraphTensor | None


class _Axis(NamedTuple):
    """An axis of the input.

    Attributes:
        size: its number of elements.
        aligned: whether -1 and 1 are the middles of the corners, rather than their outer edges.
        mode, padding: as in ONNX.
    """

    size: int
    aligned: bool
    mode: str
    padding: str

    @property
    def borders(self) -> tuple[float, float]:
        return (0.0, self.size - 1.0) if self.aligned else (-0.5, self.size - 0.5)


@lowers("GridSample")
def grid_sample(node: NodeLowering) -> GraphTensor:
    """Lowers the sum, over the elements around each place, of elements times weights."""
    sizes, outputs = node.sizes(0), node.sizes(1)[1:-1]
    batch, channels, *spatial = sizes
    if node.data_type(0) not in FLOATS or prod(spatial) > _EXACT:
        raise NotLowered(f"it samples {node.value(0)}; sums of products, and indices, are FLOAT32")
    x = node.cast(node.tensor(0).reshape(batch, channels, 1, prod(spatial)), DataType.FLOAT32)
    mode = node.attribute("mode", "linear").removeprefix("bi")
    padding, aligned = node.attribute("padding_mode", "zeros"), bool(node.attribute("align_corners", 0))
    axes = [_Axis(size, aligned, mode, padding) for size in spatial]
    taps = [_taps(node, axis, place) for axis, place in zip(axes, _places(node, len(axes)), strict=True)]
    found = reduce(add, (_weighted(node, x, spatial, chosen) for chosen in product(*taps)))
    return node.cast(found, node.data_type(0)).reshape(batch, channels, *outputs)


def _places(node: NodeLowering, count: int) -> list[GraphTensor]:
    """Returns the coordinates of the grid along each axis, which it has in reverse order."""
    batch, *outputs, _ = node.sizes(1)
    grid = node.cast(node.tensor(1).reshape(batch, 1, prod(outputs), count), DataType.FLOAT32)
    shape = [batch, 1, prod(outputs), 1]
    sliced = [
        node.emit("SLICE", InputTensor=grid, Offsets=[0, 0, 0, i], Sizes=shape, Strides=[1, 1, 1, 1])
        for i in reversed(range(count))
    ]
    return [each.reshape(batch, 1, 1, prod(outputs)) for each in sliced]


def _line(node: NodeLowering, x: GraphTensor, scale: float, bias: float) -> GraphTensor:
    return node.emit("ELEMENT_WISE_IDENTITY", InputTensor=x, ScaleBias={"Scale": scale, "Bias": bias})


def _taps(node: NodeLowering, axis: _Axis, place: GraphTensor) -> list[_Tap]:
    """Returns the elements along an axis that samples take, for places from -1 to 1."""
    half = (axis.size - 1) / 2
    place = _line(node, place, half if axis.aligned else axis.size / 2, half)
    if axis.mode == "nearest":
        rounded = node.emit("ELEMENT_WISE_ROUND", InputTensor=place, RoundingMode="HALVES_TO_NEAREST_EVEN")
        return [_tap(node, axis, _brought_in(node, axis, rounded), None)]
    if axis.mode not in _KERNELS:
        raise NotLowered(f"its mode is {axis.mode}")
    place = _brought_in(node, axis, place)
    first = node.emit("ELEMENT_WISE_FLOOR", InputTensor=place)
    fraction = place - first
    weights = {at: _polynomial(node, fraction, terms) for at, terms in _KERNELS[axis.mode].items()}
    return [_tap(node, axis, _line(node, first, 1.0, at), weight) for at, weight in weights.items()]


def _polynomial(node: NodeLowering, x: GraphTensor, terms: Sequence[float]) -> GraphTensor:
    """Returns a polynomial of the given factors, that of the highest power first."""
    known = [*terms]
    while known[0] == 0:
        known.pop(0)
    found = _line(node, x, known[0], known[1])
    for term in known[2:]:
        found = _line(node, found * x, 1.0, term)
    return found


def _brought_in(node: NodeLowering, axis: _Axis, place: GraphTensor) -> GraphTensor:
    """Returns places beyond the borders as the padding has them."""
    if axis.padding == "reflection":
        return _reflected(node, axis, place)
    if axis.padding == "zeros":
        return place
    clipped = _clipped(node, axis, place)
    if axis.mode != "cubic" or axis.aligned:
        return clipped
    # Between the middle and the edge of the first or last element, a place stays as it is.
    middle = _line(node, place, 1.0, -(axis.size - 1) / 2)
    distance = node.emit("ELEMENT_WISE_ABS", InputTensor=middle)
    limit = node.filled(axis.size / 2, DataType.FLOAT32, place.sizes)
    booleans = node.desc(DataType.UINT8, place.sizes)
    beyond = node.emit("ELEMENT_WISE_LOGICAL_GREATER_THAN", ATensor=distance, BTensor=limit, OutputTensor=booleans)
    return node.emit("ELEMENT_WISE_IF", ConditionTensor=beyond, ATensor=clipped, BTensor=place)


def _clipped(node: NodeLowering, axis: _Axis, place: GraphTensor) -> GraphTensor:
    return node.emit("ELEMENT_WISE_CLIP", InputTensor=place, Min=0.0, Max=float(axis.size - 1))


def _reflected(node: NodeLowering, axis: _Axis, place: GraphTensor) -> GraphTensor:
    """Returns min + range - |(place - min) mod (2 range) - range|: places reflected until they are within borders."""
    least, greatest = axis.borders
    span = greatest - least
    if span == 0:
        return _clipped(node, axis, place)
    period = node.filled(2 * span, DataType.FLOAT32, place.sizes)
    within = node.emit("ELEMENT_WISE_MODULUS_FLOOR", ATensor=_line(node, place, 1.0, -least), BTensor=period)
    distance = node.emit("ELEMENT_WISE_ABS", InputTensor=_line(node, within, 1.0, -span))
    return _line(node, distance, -1.0, greatest)


def _tap(node: NodeLowering, axis: _Axis, index: GraphTensor, weight: GraphTensor | None) -> _Tap:
    """Returns an element, with its index within the input and the weight 0 if it was outside of zeros."""
    moved = _reflected(node, axis, index) if axis.padding == "reflection" else index
    inside = _clipped(node, axis, moved)
    if axis.padding != "zeros":
        return _Tap(inside, weight)
    booleans = node.desc(DataType.UINT8, index.sizes)
    same = node.emit("ELEMENT_WISE_LOGICAL_EQUALS", ATensor=index, BTensor=inside, OutputTensor=booleans)
    counts = node.cast(same, DataType.FLOAT32)
    return _Tap(inside, counts if weight is None else counts * weight)


def _weighted(node: NodeLowering, x: GraphTensor, spatial: Sequence[int], taps: Sequence[_Tap]) -> GraphTensor:
    """Returns the elements at one index along each axis, times their weights."""
    strides = [prod(spatial[i + 1 :]) for i in range(len(spatial))]
    scaled = [_line(node, tap.place, stride, 0.0) for tap, stride in zip(taps, strides, strict=True)]
    places = node.cast(reduce(add, scaled), DataType.UINT32)
    sizes = (*x.sizes[:3], places.sizes[3])
    values = node.emit(
        "GATHER_ELEMENTS",
        InputTensor=x,
        IndicesTensor=spread(places, sizes),
        OutputTensor=node.desc(x.data_type, sizes),
        Axis=3,
    )
    weights = [tap.weight for tap in taps if tap.weight is not None]
    return values * reduce(mul, weights) if weights else values
