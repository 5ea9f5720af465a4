"""Slices, padding, and other operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, broadcast, lifted, lowers, relabelled, spread


@dataclass(frozen=True, slots=True)
class _Range:
    """The elements that are taken along one dimension: every ``step``-th from ``start`` on."""

    start: int
    count: int
    step: int

    @property
    def window(self) -> tuple[int, int]:
        """The first index of the elements, and the length from there to the last."""
        last = self.start + (self.count - 1) * self.step
        return min(self.start, last), abs(last - self.start) + 1


def _taken(start: int, end: int, step: int, size: int) -> _Range:
    """Returns what a slice takes, by the rules of Python."""
    taken = range(size)[start:end:step]
    return _Range(taken.start, len(taken), step)


def _sliced(node: NodeLowering, tensor: GraphTensor, ranges: Sequence[_Range]) -> GraphTensor:
    """Adds a slice: SLICE, or SLICE1 where a step is negative."""
    x = lifted(tensor, 4)
    every = [_Range(0, 1, 1)] * (len(x.sizes) - len(ranges)) + [*ranges]
    sizes = [each.count for each in every]
    if 0 in sizes:
        raise NotLowered(f"its output has the sizes {sizes}, and DirectML has no tensors without elements")
    output = node.desc(x.data_type, sizes)
    windows = {
        "InputWindowOffsets": [each.window[0] for each in every],
        "InputWindowSizes": [each.window[1] for each in every],
        "InputWindowStrides": [each.step for each in every],
    }
    window = ("SLICE1", {"InputTensor": x, "OutputTensor": output, **windows})
    if any(each.step < 0 for each in every):
        made = node.emit_lowest(window)
    else:
        members = {"Offsets": windows["InputWindowOffsets"], "Sizes": sizes, "Strides": windows["InputWindowStrides"]}
        made = node.emit_lowest(("SLICE", {"InputTensor": x, "OutputTensor": output, **members}), window)
    return made.reshape(sizes[len(sizes) - len(ranges) :])


@lowers("Slice")
def slice_(node: NodeLowering) -> GraphTensor:
    """Lowers a slice with constant starts, ends and steps: attributes or, in later versions, inputs."""
    sizes, rank = node.sizes(0), node.rank(0)
    starts, ends, axes, steps = _slices(node)
    ranges = [_Range(0, size, 1) for size in sizes]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        at = node.axis(axis, rank)
        ranges[at] = _taken(start, end, step, sizes[at])
    return _sliced(node, node.tensor(0), ranges)


def _slices(node: NodeLowering) -> tuple[list[int], ...]:
    """Returns starts, ends, axes and steps, as many of each."""
    if node.since < 10:
        starts, ends = list(node.attribute("starts")), list(node.attribute("ends"))
        return starts, ends, list(node.attribute("axes") or range(len(starts))), [1] * len(starts)
    starts, ends = node.integers(1), node.integers(2)
    axes = node.integers(3) if node.has(3) else list(range(len(starts)))
    steps = node.integers(4) if node.has(4) else [1] * len(starts)
    return starts, ends, axes, steps


@lowers("Crop")
def crop(node: NodeLowering) -> GraphTensor:
    """Cuts borders off, an operator of early versions of ONNX: left, top, right, bottom, or to given sizes."""
    batch, channels, height, width = node.sizes(0)
    left, top, right, bottom = node.attribute("border")
    rows, columns = node.attribute("scale") or (height - top - bottom, width - left - right)
    ranges = [_Range(0, batch, 1), _Range(0, channels, 1), _Range(top, rows, 1), _Range(left, columns, 1)]
    return _sliced(node, node.tensor(0), ranges)


_PADDING_MODES = {"constant": "CONSTANT", "edge": "EDGE", "reflect": "REFLECTION", "wrap": "WRAP"}


@lowers("Pad")
def pad(node: NodeLowering) -> GraphTensor:
    """Lowers padding; negative padding takes elements away before the rest is added."""
    x, rank = node.tensor(0), max(node.rank(0), 1)
    starts, ends = _pads(node, rank)
    if min(*starts, *ends) < 0:
        cut = zip(x.sizes, starts, ends, strict=True)
        ranges = [_Range(max(-start, 0), size - max(-start, 0) - max(-end, 0), 1) for size, start, end in cut]
        if any(each.count <= 0 for each in ranges):
            raise NotLowered("it takes all elements away, and DirectML has no tensors without elements")
        x = _sliced(node, x, ranges)
    starts, ends = ([max(each, 0) for each in pads] for pads in (starts, ends))
    return _padded(node, x, starts, ends) if any(starts) or any(ends) else x


def _pads(node: NodeLowering, rank: int) -> tuple[list[int], list[int]]:
    """Returns the padding at the start and the end of every dimension."""
    pads = node.integers(1) if node.since >= 11 else list(node.attribute("pads"))
    axes = [node.axis(axis, rank) for axis in node.integers(3)] if node.has(3) else list(range(rank))
    starts, ends = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        starts[axis], ends[axis] = pads[i], pads[len(axes) + i]
    return starts, ends


def _padded(node: NodeLowering, tensor: GraphTensor, starts: list[int], ends: list[int]) -> GraphTensor:
    mode = node.attribute("mode", "constant")
    if mode not in _PADDING_MODES:
        raise NotLowered(f"its mode is {mode}, which DirectML lacks")
    x = lifted(tensor, 4)
    added = len(x.sizes) - len(starts)
    pads = {"StartPadding": [0] * added + starts, "EndPadding": [0] * added + ends}
    sizes = [sum(each) for each in zip(x.sizes, *pads.values(), strict=True)]
    value = _padding_value(node, x.data_type)
    members = {
        "InputTensor": x,
        "OutputTensor": node.desc(x.data_type, sizes),
        "PaddingMode": _PADDING_MODES[mode],
        **pads,
    }
    plain = ("PADDING", {**members, "PaddingValue": float(value)})
    typed = ("PADDING1", {**members, "PaddingValueDataType": x.data_type.name, "PaddingValue": value})
    is_exact = x.data_type.is_float or abs(value) <= _EXACT
    made = node.emit_lowest(plain, typed) if is_exact else node.emit_lowest(typed)
    return made.reshape(sizes[added:])


_EXACT = 2**24
"""The greatest integer up to which every integer is a FLOAT32."""


def _padding_value(node: NodeLowering, data_type: DataType) -> Any:
    if node.since < 11:
        return float(node.attribute("value", 0.0))
    value = node.constant(2).reshape(-1) if node.has(2) else np.zeros(0)
    return value[0].item() if value.size else 0.0 if data_type.is_float else 0


@lowers("ReverseSequence")
def reverse_sequence(node: NodeLowering) -> GraphTensor:
    """Reverses the first elements of every sequence, as many as its length says."""
    x, rank = node.lifted(0), node.rank(0)
    added = len(x.sizes) - rank
    time = added + node.axis(node.attribute("time_axis", 0), rank)
    batch = added + node.axis(node.attribute("batch_axis", 1), rank)
    sizes = tuple(size if axis == batch else 1 for axis, size in enumerate(x.sizes))
    lengths = _lengths(node, x.data_type).reshape(sizes)
    spread_to = tuple(1 if axis == time else size for axis, size in enumerate(x.sizes))
    return node.emit("REVERSE_SUBSEQUENCES", InputTensor=x, SequenceLengthsTensor=spread(lengths, spread_to), Axis=time)


def _lengths(node: NodeLowering, data_type: DataType) -> GraphTensor:
    """Returns the lengths without sign, in 32 bits unless the elements need the level of 64 bits anyway."""
    if node.is_constant(1):
        return node.graph.constant(node.constant(1).astype("u4"))
    if data_type.bits == 64:
        return relabelled(node.tensor(1), DataType.UINT64)
    return node.cast(node.lifted(1), DataType.UINT32)


@lowers("Col2Im")
def col2im(node: NodeLowering) -> GraphTensor:
    """Adds columns up to an image, with constant sizes of the image and of its blocks."""
    image, block = node.integers(1), node.integers(2)
    count = len(block)
    columns = node.lifted(0, 3)
    pads = node.attribute("pads") or [0] * 2 * count
    channels = columns.sizes[1] // int(np.prod(block))
    return node.emit(
        "FOLD",
        InputTensor=columns,
        OutputTensor=node.desc(columns.data_type, [columns.sizes[0], channels, *image]),
        WindowSizes=block,
        Strides=node.attribute("strides") or [1] * count,
        Dilations=node.attribute("dilations") or [1] * count,
        StartPadding=pads[:count],
        EndPadding=pads[count:],
    )


@lowers("Trilu")
def trilu(node: NodeLowering) -> GraphTensor:
    """Selects the elements of a triangle by a constant mask, which lower levels have than DIAGONAL_MATRIX1."""
    x = node.lifted(0)
    k = node.integers(1)[0] if node.has(1) else 0
    ones = np.ones(x.sizes[-2:], np.uint8)
    mask = np.triu(ones, k) if node.attribute("upper", 1) else np.tril(ones, k)
    zeros = node.filled(0, x.data_type, x.sizes)
    condition, a, b = broadcast([node.graph.constant(mask), x, zeros])
    return node.emit("ELEMENT_WISE_IF", ConditionTensor=condition, ATensor=a, BTensor=b)
