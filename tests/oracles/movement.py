"""Operators that move elements, by NumPy's own functions on their bits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import oracle

from . import Answer

Inputs = Mapping[str, Array]
Coordinate = tuple[int, ...]


def raw(array: Array) -> Array:
    """Returns the bits of elements, which NumPy moves without interpreting them."""
    return np.ascontiguousarray(array).view(f"<u{array.dtype.itemsize}")


def _answer(plan: Plan, moved: Array, name: str = "OutputTensor") -> dict[str, Answer]:
    desc = plan.outputs[name]
    return {name: np.ascontiguousarray(moved).view(desc.data_type.dtype).reshape(desc.sizes)}


def number_as(number: float, dtype: np.dtype[Any]) -> Any:
    """Converts a number to an element: to the nearest float, or truncated and saturated to an integer."""
    if dtype.kind == "f":
        if number == 0 or not math.isfinite(number):
            return dtype.type(number)
        return oracle.rounded(Fraction(number), dtype)
    limits = np.iinfo(dtype)
    least, greatest = int(limits.min), int(limits.max)
    if isinstance(number, int):
        return dtype.type((number - least) % 2 ** (8 * dtype.itemsize) + least)
    if number != number:
        return dtype.type(0)
    return dtype.type(sorted((least, math.trunc(max(min(number, 1e30), -1e30)), greatest))[1])


def attribute_as(number: float, dtype: np.dtype[Any]) -> Any:
    """Converts an attribute as x86 processors do: floats that do not fit in 32 or 64 bits give the least integer."""
    if dtype.kind == "f" or isinstance(number, int):
        return number_as(number, dtype)
    bits = 32 if dtype.itemsize < 4 or dtype == np.int32 else 64
    places = range(-(2 ** (bits - 1)), 2**64 if dtype == np.uint64 else 2 ** (bits - 1))
    fits = math.isfinite(number) and math.trunc(number) in places
    return number_as(math.trunc(number) if fits else places[0], dtype)


def cast_to(number: float, dtype: np.dtype[Any]) -> Any:
    """Casts a number: integers to 8 bits are those of 32 bits, saturated."""
    if isinstance(number, int) and dtype in (np.int8, np.uint8):
        number = float(number_as(number, np.dtype(f"{dtype.kind}4")))
    return number_as(number, dtype)


def _cast(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    source, dtype = inputs["InputTensor"], plan.outputs["OutputTensor"].data_type.dtype
    if source.dtype == dtype:
        return _answer(plan, raw(source))
    result = np.array([cast_to(each, dtype) for each in source.ravel().tolist()], dtype)
    return {"OutputTensor": result.reshape(source.shape)}


def _split(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    axis = plan.attributes.Axis
    ends = np.cumsum([desc.sizes[axis] for desc in plan.outputs.values()])
    parts = np.split(raw(inputs["InputTensor"]), ends[:-1], axis)
    answers: dict[str, Answer] = {}
    for name, part in zip(plan.outputs, parts, strict=True):
        answers |= _answer(plan, part, name)
    return answers


def _join(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    return _answer(plan, np.concatenate([raw(inputs[name]) for name in plan.inputs], plan.attributes.Axis))


def _padding(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    source = raw(inputs["InputTensor"])
    widths = list(zip(plan.attributes.StartPadding, plan.attributes.EndPadding, strict=True))
    mode = plan.attributes.PaddingMode.name
    if mode == "CONSTANT":
        value = attribute_as(plan.attributes.PaddingValue, inputs["InputTensor"].dtype)
        return _answer(plan, np.pad(source, widths, constant_values=raw(np.array([value]))[0]))
    names: dict[str, Any] = {"EDGE": "edge", "REFLECTION": "reflect", "SYMMETRIC": "symmetric", "WRAP": "wrap"}
    for axis, width in enumerate(widths):
        # NumPy reflects a single element onto itself.
        source = np.pad(source, [width if i == axis else (0, 0) for i in range(source.ndim)], names[mode])
    return _answer(plan, source)


def _tile(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    return _answer(plan, np.tile(raw(inputs["InputTensor"]), plan.attributes.Repeats))


def _slice(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    attributes = plan.attributes
    parts = zip(attributes.Offsets, attributes.Sizes, attributes.Strides, strict=True)
    taken = tuple(slice(offset, offset + (size - 1) * stride + 1, stride) for offset, size, stride in parts)
    return _answer(plan, raw(inputs["InputTensor"])[taken])


def _window(plan: Plan, whole: Array, sizes: Coordinate) -> Array:
    """Returns a view of the elements that a slice takes."""
    attributes = plan.attributes
    parts = zip(attributes.InputWindowOffsets, attributes.InputWindowSizes, attributes.InputWindowStrides, strict=True)
    for axis, (offset, size, stride) in enumerate(parts):
        whole = whole[(slice(None),) * axis + (slice(offset, offset + size),)]
        whole = whole[(slice(None),) * axis + (slice(None, None, stride),)]
        whole = whole[(slice(None),) * axis + (slice(sizes[axis]),)]
    return whole


def _slice1(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    return _answer(plan, _window(plan, raw(inputs["InputTensor"]), plan.outputs["OutputTensor"].sizes))


def _slice_grad(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    gradient = raw(inputs["InputGradientTensor"])
    whole = np.zeros(plan.outputs["OutputGradientTensor"].sizes, gradient.dtype)
    _window(plan, whole, gradient.shape)[...] = gradient
    return _answer(plan, whole, "OutputGradientTensor")


def _depth_first(plan: Plan) -> bool:
    order = getattr(plan.attributes, "Order", None)
    return order is None or order.name == "DEPTH_COLUMN_ROW"


def _space_to_depth(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    source, b = raw(inputs["InputTensor"]), plan.attributes.BlockSize
    n, c, h, w = source.shape
    blocks = source.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if _depth_first(plan) else (0, 1, 3, 5, 2, 4)
    return _answer(plan, blocks.transpose(order))


def _depth_to_space(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    source, b = raw(inputs["InputTensor"]), plan.attributes.BlockSize
    n, c, h, w = source.shape
    if _depth_first(plan):
        moved = source.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = source.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return _answer(plan, moved)


def _reverse(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    axis = plan.attributes.Axis
    result = np.moveaxis(raw(inputs["InputTensor"]).copy(), axis, -1)
    lengths = np.moveaxis(inputs["SequenceLengthsTensor"], axis, -1)[..., 0]
    for coordinate in np.ndindex(lengths.shape):
        sequence = result[coordinate].tolist()
        length = int(lengths[coordinate])
        result[coordinate] = sequence[:length][::-1] + sequence[length:]
    return _answer(plan, np.moveaxis(result, -1, axis))


def _blocks(plan: Plan, image: Coordinate) -> list[list[Coordinate]]:
    """Returns the positions of each block's elements in the image, including padding."""
    attributes, count = plan.attributes, len(plan.attributes.WindowSizes)
    begins, offsets = [], []
    for i, size in enumerate(image[-count:]):
        window, stride, dilation = (getattr(attributes, name)[i] for name in ("WindowSizes", "Strides", "Dilations"))
        first, last = -attributes.StartPadding[i], size + attributes.EndPadding[i]
        reach = dilation * (window - 1)
        begins.append([at for at in range(first, last, stride) if at + reach < last])
        offsets.append([k * dilation for k in range(window)])
    return [
        [tuple(map(sum, zip(begin, offset, strict=True))) for offset in itertools.product(*offsets)]
        for begin in itertools.product(*begins)
    ]


def _columns(plan: Plan, image: Coordinate) -> list[tuple[Coordinate, Coordinate]]:
    """Pairs places in the columns with places in the image, as coordinates of batch, channel and position."""
    folded = len(plan.attributes.WindowSizes)
    batch, channels, *sizes = image[-folded - 2 :]
    pairs: list[tuple[Coordinate, Coordinate]] = []
    for column, block in enumerate(_blocks(plan, image)):
        for row, position in enumerate(block):
            if all(0 <= at < size for at, size in zip(position, sizes, strict=True)):
                pairs += [
                    ((n, c * len(block) + row, column), (n, c, *position))
                    for n in range(batch)
                    for c in range(channels)
                ]
    return pairs


def _unfold(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    source = raw(inputs["InputTensor"])
    folded = len(plan.attributes.WindowSizes)
    image = source.reshape(source.shape[-folded - 2 :])
    result = np.zeros(plan.outputs["OutputTensor"].sizes[-3:], source.dtype)
    for place, position in _columns(plan, source.shape):
        result[place] = image[position]
    return _answer(plan, result)


def _fold(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    source, desc = inputs["InputTensor"], plan.outputs["OutputTensor"]
    columns = source.reshape(source.shape[-3:])
    groups: dict[Coordinate, list[Any]] = {}
    for place, position in _columns(plan, desc.sizes):
        groups.setdefault(position, []).append(columns[place])
    result = np.zeros(desc.sizes[-len(plan.attributes.WindowSizes) - 2 :], desc.data_type.dtype)
    for position, group in groups.items():
        result[position] = _added(group, desc.data_type.dtype)
    return {"OutputTensor": result.reshape(desc.sizes)}


def _added(group: list[Any], dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return oracle.FLOATS["SUM"]([float(each) for each in group], dtype)
    return number_as(sum(map(int, group)), dtype)


def draw_lengths(draw: Any, plan: Plan) -> dict[str, Array]:
    """Draws lengths, some of them greater than the size."""
    desc = plan.inputs["SequenceLengthsTensor"]
    most = plan.inputs["InputTensor"].sizes[plan.attributes.Axis] + 2
    count = desc.element_count
    lengths = draw(st.lists(st.integers(0, most) | st.just(2**32 - 1), min_size=count, max_size=count))
    return {"SequenceLengthsTensor": np.array(lengths, desc.data_type.dtype).reshape(desc.sizes)}


EXPECTED = {
    "CAST": _cast,
    "SPLIT": _split,
    "JOIN": _join,
    "PADDING": _padding,
    "PADDING1": _padding,
    "TILE": _tile,
    "SLICE": _slice,
    "SLICE1": _slice1,
    "SLICE_GRAD": _slice_grad,
    "SPACE_TO_DEPTH": _space_to_depth,
    "SPACE_TO_DEPTH1": _space_to_depth,
    "DEPTH_TO_SPACE": _depth_to_space,
    "DEPTH_TO_SPACE1": _depth_to_space,
    "REVERSE_SUBSEQUENCES": _reverse,
    "FOLD": _fold,
    "UNFOLD": _unfold,
}

INPUTS = {"REVERSE_SUBSEQUENCES": draw_lengths}
