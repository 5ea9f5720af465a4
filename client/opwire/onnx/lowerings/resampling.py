"""Resizing by the nearest neighbour, linearly, or by cubic curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, prod
from typing import Any, NamedTuple

import numpy as np

from ...client.graph_tensors import GraphTensor
from ...tensor import Array
from ..errors import NotLowered
from ..lowering import NodeLowering, lifted, lowers, spread
from .products import FLOATS

_STILL = float(np.finfo(np.float32).max)
"""A scale that maps all outputs to the same coordinate."""


class _Axis(NamedTuple):
    """How one axis is resized.

    Attributes:
        size, output: the number of elements before and after.
        scale: the factor that the model gives, or the quotient of sizes.
        crop: where the part that is resized starts and ends, as fractions.
    """

    size: int
    output: int
    scale: float
    crop: tuple[float, float] = (0.0, 1.0)

    @property
    def length(self) -> float:
        """The length of the output, which the scale may make a fraction."""
        return self.scale * self.size


class _Map(NamedTuple):
    """A coordinate of the input: (output - output_offset) / scale - input_offset."""

    scale: float
    input_offset: float = 0.0
    output_offset: float = 0.0

    def coordinates(self, axis: _Axis) -> Array:
        """Returns the coordinate of each output, computed as DirectML does."""
        outputs = np.arange(axis.output, dtype=np.float32) - np.float32(self.output_offset)
        found: Array = outputs / np.float32(self.scale) - np.float32(self.input_offset)
        return found


def _half_pixel(axis: _Axis) -> _Map:
    return _Map(axis.scale, 0.5, -0.5)


def _half_pixel_symmetric(axis: _Axis) -> _Map:
    """Maps the middle of the output to that of the input, even if the scale makes the length a fraction."""
    return _Map(axis.scale, 0.5 - axis.size / 2 * (1 - axis.output / axis.length), -0.5)


def _pytorch_half_pixel(axis: _Axis) -> _Map:
    return _Map(_STILL) if axis.length == 1 else _half_pixel(axis)


def _align_corners(axis: _Axis) -> _Map:
    if axis.length == 1 or axis.size == 1:
        return _Map(_STILL)
    return _Map((axis.length - 1) / (axis.size - 1))


def _asymmetric(axis: _Axis) -> _Map:
    return _Map(axis.scale)


def _tf_half_pixel_for_nn(axis: _Axis) -> _Map:
    return _Map(axis.scale, 0.0, -0.5)


def _tf_crop_and_resize(axis: _Axis) -> _Map:
    """Maps the corners of the output to those of the crop; a single output is its middle."""
    start, end = (fraction * (axis.size - 1) for fraction in axis.crop)
    if axis.length == 1 or start == end:
        return _Map(_STILL, -(start + end) / 2 if axis.length == 1 else -start)
    return _Map((axis.length - 1) / (end - start), -start)


_MAPS: Mapping[str, Callable[[_Axis], _Map]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_half_pixel_for_nn": _tf_half_pixel_for_nn,
    "tf_crop_and_resize": _tf_crop_and_resize,
}
"""The coordinate transformations."""


class _Nearest(NamedTuple):
    """How the nearest neighbour is found: a shift of the coordinate, and then rounding up or down."""

    shift: float
    direction: str


_NEAREST = {
    "round_prefer_floor": _Nearest(0.5, "INCREASING"),
    "round_prefer_ceil": _Nearest(-0.5, "DECREASING"),
    "floor": _Nearest(0.0, "DECREASING"),
    "ceil": _Nearest(0.0, "INCREASING"),
}


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a tensor is resized.

    Attributes:
        mode: "nearest", "linear" or "cubic".
        axes: each axis.
        transformation: the name of the coordinate transformation.
        nearest: how the nearest neighbour is found.
    """

    mode: str
    axes: Sequence[_Axis]
    transformation: str
    nearest: _Nearest

    def map(self, axis: _Axis) -> _Map:
        return _MAPS[self.transformation](axis)

    def keeps(self, axis: _Axis) -> bool:
        """Returns whether an axis stays as it is."""
        return axis.size == axis.output and isclose(axis.scale, 1.0) and axis.crop == (0.0, 1.0)


@lowers("Resize", "Upsample")
def resize(node: NodeLowering) -> GraphTensor:
    """Lowers to RESAMPLE, or to products with constant matrices where that lacks the kernel."""
    plan = _plan(node)
    x = node.tensor(0)
    resized = [axis for axis, each in enumerate(plan.axes) if not plan.keeps(each)]
    if not resized:
        return x
    emit = _by_products if _is_product(node, plan) else _resampled
    found = emit(node, plan, x, resized)
    return _outside(node, plan, found.reshape([axis.output for axis in plan.axes]))


def _plan(node: NodeLowering) -> _Plan:
    mode = str(node.attribute("mode", "nearest"))
    mode = {"NN": "nearest", "bilinear": "linear"}.get(mode, mode)
    if node.operator == "Upsample" or node.since < 11:
        # Versions that name no transformation scale coordinates, and drop fractions.
        return _Plan(mode, _axes(node, "asymmetric"), "asymmetric", _NEAREST["floor"])
    transformation = str(node.attribute("coordinate_transformation_mode", "half_pixel"))
    nearest = str(node.attribute("nearest_mode", "round_prefer_floor"))
    if mode not in ("nearest", "linear", "cubic") or transformation not in _MAPS or nearest not in _NEAREST:
        raise NotLowered(f"its mode is {mode} with {transformation} and {nearest}")
    return _Plan(mode, _axes(node, transformation), transformation, _NEAREST[nearest])


def _axes(node: NodeLowering, transformation: str) -> list[_Axis]:
    """Returns how each axis is resized."""
    sizes = node.sizes(0)
    rank = len(sizes)
    given = [node.axis(axis, rank) for axis in node.attribute("axes") or range(rank)]
    scales, outputs = _wanted(node, [sizes[axis] for axis in given])
    crops = _crops(node, len(given)) if transformation == "tf_crop_and_resize" else [(0.0, 1.0)] * len(given)
    found = [_Axis(size, size, 1.0) for size in sizes]
    for axis, output, scale, crop in zip(given, outputs, scales, crops, strict=True):
        found[axis] = _Axis(sizes[axis], output, scale, crop)
    return found


def _wanted(node: NodeLowering, sizes: Sequence[int]) -> tuple[list[float], list[int]]:
    """Returns the scales and the sizes of the output along the axes that are resized."""
    scales = _scales(node)
    if scales:
        if len(scales) != len(sizes) or min(scales) <= 0:
            raise NotLowered(f"it has the scales {scales} for {len(sizes)} axes")
        return scales, [int(np.float32(size) * np.float32(scale)) for size, scale in zip(sizes, scales, strict=True)]
    outputs = node.integers(3)
    if len(outputs) != len(sizes):
        raise NotLowered(f"it has the sizes {outputs} for {len(sizes)} axes")
    scales = [output / size for output, size in zip(outputs, sizes, strict=True)]
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return scales, outputs
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [scale] * len(sizes), [int(scale * size + 0.5) for size in sizes]


def _scales(node: NodeLowering) -> list[float]:
    """Returns the scales, which were an attribute before they became an input; none if sizes are given instead."""
    if node.operator == "Upsample" and node.since < 9:
        return [float(each) for each in node.attribute("scales")]
    place = 1 if node.operator == "Upsample" or node.since < 11 else 2
    return [float(each) for each in node.constant(place).reshape(-1)] if node.has(place) else []


def _crops(node: NodeLowering, count: int) -> list[tuple[float, float]]:
    """Returns the region of interest: where it starts and ends along each axis."""
    region = [float(each) for each in node.constant(1).reshape(-1)]
    if len(region) != 2 * count:
        raise NotLowered(f"its region of interest has {len(region)} numbers for {count} axes")
    return list(zip(region[:count], region[count:], strict=True))


def _resampled(node: NodeLowering, plan: _Plan, x: GraphTensor, resized: Sequence[int]) -> GraphTensor:
    """Emits RESAMPLE1, which rounds halves up, or RESAMPLE2, after merging axes that stay as they are."""
    axes = _merged(plan.axes, resized)
    if len(axes) > 4:
        raise NotLowered(f"it resizes {len(resized)} axes among {len(plan.axes)}, and DirectML takes tensors of rank 4")
    axes = [_Axis(1, 1, 1.0)] * (4 - len(axes)) + axes
    maps = [_Map(1.0) if plan.keeps(axis) else plan.map(axis) for axis in axes]
    data = x.reshape([axis.size for axis in axes])
    output = node.desc(x.data_type, [axis.output for axis in axes])
    given = {"InputTensor": data, "OutputTensor": output, "Scales": [each.scale for each in maps]}
    if plan.mode == "linear":
        # An offset of the input within 0 to 1 does not extrapolate, and means the same as one of the output.
        maps = [_Map(each.scale, 0.0, each.output_offset + each.input_offset * each.scale) for each in maps]
        return node.emit("RESAMPLE1", InterpolationMode="LINEAR", **given, **_offsets(maps))
    kept = [plan.keeps(axis) for axis in axes]
    if x.data_type in FLOATS and (shift := _shift_of_halves_up(plan, axes, maps)) is not None:
        moved = [each if still else _moved(each, shift) for each, still in zip(maps, kept, strict=True)]
        return node.emit("RESAMPLE1", InterpolationMode="NEAREST_NEIGHBOR", **given, **_offsets(moved))
    moved = [each if still else _moved(each, plan.nearest.shift) for each, still in zip(maps, kept, strict=True)]
    direction = plan.nearest.direction
    kind = {"InterpolationMode": "NEAREST_NEIGHBOR", "RoundingDirection": direction}
    return node.emit("RESAMPLE2", **given, **kind, **_offsets(moved))


def _offsets(maps: Sequence[_Map]) -> dict[str, list[float]]:
    return {
        "InputPixelOffsets": [each.input_offset for each in maps],
        "OutputPixelOffsets": [each.output_offset for each in maps],
    }


def _moved(given: _Map, shift: float) -> _Map:
    return given._replace(input_offset=given.input_offset + shift)


def _shift_of_halves_up(plan: _Plan, axes: Sequence[_Axis], maps: Sequence[_Map]) -> float | None:
    """Returns the shift with which rounding halves up finds the nearest neighbours, or None if nothing does.

    Rounding down is rounding halves up of 0.5 less. Rounding up and halves down differ from it only in ties.
    """
    if plan.nearest.direction == "DECREASING":
        return plan.nearest.shift + 0.5
    shift = plan.nearest.shift - 0.5
    for axis, each in zip(axes, maps, strict=True):
        fractions = (_moved(each, shift).coordinates(axis) - np.float32(0.5)) % 1
        if not plan.keeps(axis) and (fractions == 0).any():
            return None
    return shift


def _merged(axes: Sequence[_Axis], resized: Sequence[int]) -> list[_Axis]:
    """Returns axes with those next to each other that stay as they are merged into one."""
    found: list[_Axis] = []
    joins = False
    for i, axis in enumerate(axes):
        if i not in resized and joins:
            size = found.pop().size * axis.size
            axis = _Axis(size, size, 1.0)
        found.append(axis)
        joins = i not in resized
    return found


def _is_product(node: NodeLowering, plan: _Plan) -> bool:
    """Returns whether the kernel is one that RESAMPLE lacks."""
    antialias = bool(node.attribute("antialias", 0)) and any(axis.scale < 1 for axis in plan.axes)
    return plan.mode == "cubic" or (antialias and plan.mode == "linear")


def _by_products(node: NodeLowering, plan: _Plan, x: GraphTensor, resized: Sequence[int]) -> GraphTensor:
    """Emits a product with a matrix of weights for each axis: as many rows as outputs, as many columns as inputs."""
    if x.data_type not in FLOATS:
        raise NotLowered(f"its kernel is one that DirectML has no operator for, and {x.data_type.name} no product")
    sizes = [axis.size for axis in plan.axes]
    for i in resized:
        axis = plan.axes[i]
        weights = node.graph.constant(_weights(node, plan, axis).astype(x.data_type.dtype))
        outer, inner = prod(sizes[:i]), prod(sizes[i + 1 :])
        a = spread(lifted(weights, 4), (1, outer, axis.output, axis.size))
        members: dict[str, Any] = {"TransA": "NONE", "TransB": "NONE", "Alpha": 1.0, "Beta": 0.0}
        x = node.emit("GEMM", ATensor=a, BTensor=x.reshape(1, outer, axis.size, inner), **members)
        sizes[i] = axis.output
    return x


def _weights(node: NodeLowering, plan: _Plan, axis: _Axis) -> Array:
    """Returns the weight of each element for each output."""
    given = plan.map(axis)
    outputs = np.arange(axis.output, dtype=np.float64)
    coordinates = (outputs - given.output_offset) / given.scale - given.input_offset
    kernel, reach = (_cubic(float(node.attribute("cubic_coeff_a", -0.75))), 2) if plan.mode == "cubic" else (_linear, 1)
    squeeze = min(axis.scale, 1.0) if node.attribute("antialias", 0) else 1.0
    width = int(np.ceil(reach / squeeze)) + 1
    places = np.floor(coordinates)[:, None] + np.arange(-width, width + 1)
    weights = kernel(np.abs(places - coordinates[:, None]) * squeeze)
    inside = (places >= 0) & (places < axis.size)
    if node.attribute("exclude_outside", 0):
        weights = np.where(inside, weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    found = np.zeros((axis.output, axis.size))
    columns = np.clip(places, 0, axis.size - 1).astype(int)
    np.add.at(found, (np.arange(axis.output)[:, None], columns), weights)
    return found


def _linear(distance: Array) -> Array:
    found: Array = np.clip(1 - distance, 0, 1)
    return found


def _cubic(a: float) -> Callable[[Array], Array]:
    """Returns the cubic convolution kernel with a coefficient."""

    def kernel(distance: Array) -> Array:
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        found: Array = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
        return found

    return kernel


def _outside(node: NodeLowering, plan: _Plan, resized: GraphTensor) -> GraphTensor:
    """Returns the result with the extrapolation value where a crop reaches beyond the input."""
    if plan.transformation != "tf_crop_and_resize":
        return resized
    beyond = np.zeros((1,) * len(plan.axes), bool)
    for i, axis in enumerate(plan.axes):
        if not plan.keeps(axis):
            found = plan.map(axis).coordinates(axis)
            along = (found < 0) | (found > axis.size - 1)
            beyond = beyond | along.reshape([-1 if j == i else 1 for j in range(len(plan.axes))])
    if not beyond.any():
        return resized
    condition = spread(node.graph.constant(beyond.view(np.uint8)), resized.sizes)
    value = node.filled(float(node.attribute("extrapolation_value", 0.0)), resized.data_type, resized.sizes)
    a, b, c = (lifted(each, 4) for each in (condition, value, resized))
    return node.emit("ELEMENT_WISE_IF", ConditionTensor=a, ATensor=b, BTensor=c)
