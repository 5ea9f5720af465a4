"""Pooling by windows, over all elements of a channel, and back."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, lifted, lowers
from .windows import Numbers, Windows, members, numbers, paddings, planar, planar_sizes, positions, windows


def _windows(node: NodeLowering) -> Windows:
    return windows(node, node.sizes(0)[2:], node.attribute("kernel_shape"))


def _pool(
    node: NodeLowering, operator: str, dilated: str, found: Windows, sizes: Numbers, **others: Any
) -> GraphTensor:
    """Emits one of two operators: the second also takes dilations, and needs a higher level."""
    x = planar(node.tensor(0))
    given = members(found, InputTensor=x, OutputTensor=node.desc(x.data_type, planar_sizes(sizes)))
    chosen = dilated if found.is_dilated else operator
    if chosen != dilated:
        del given["Dilations"]
    return node.emit(chosen, **{**given, **others}).reshape(sizes)


def _pooled(node: NodeLowering, found: Windows) -> tuple[int, ...]:
    """Returns the sizes of the result."""
    sizes = node.sizes(0)
    return (*sizes[:2], *positions(sizes[2:], found, ceil=bool(node.attribute("ceil_mode", 0))))


@lowers("AveragePool")
def average_pool(node: NodeLowering) -> GraphTensor:
    """Lowers means of windows. Padding counts if asked; what a window reaches beyond it does not."""
    found, with_padding = _windows(node), bool(node.attribute("count_include_pad", 0))
    sizes = _pooled(node, found)
    if with_padding and _reach_beyond(node.sizes(0)[2:], sizes[2:], found):
        found, x = _padded(node, found)
        return _pool(node, *_AVERAGE, found, sizes, InputTensor=x, IncludePadding=False)
    return _pool(node, *_AVERAGE, found, sizes, IncludePadding=with_padding)


_AVERAGE = "AVERAGE_POOLING", "AVERAGE_POOLING1"


def _reach_beyond(source: Numbers, outputs: Numbers, found: Windows) -> bool:
    """Returns whether a window reaches beyond the padding, as rounding the number of windows up allows."""
    each = zip(source, outputs, found.strides, found.reaches, found.starts, found.ends, strict=True)
    return any((count - 1) * stride + span > size + start + end for size, count, stride, span, start, end in each)


def _padded(node: NodeLowering, found: Windows) -> tuple[Windows, GraphTensor]:
    """Returns the input with the padding as elements of it, and windows without padding."""
    x, given, none = planar(node.tensor(0)), found.members(), [0] * len(found.sizes)
    padded = node.emit(
        "PADDING",
        InputTensor=x,
        PaddingMode="CONSTANT",
        PaddingValue=0.0,
        StartPadding=[0, 0, *given["StartPadding"]],
        EndPadding=[0, 0, *given["EndPadding"]],
    )
    return Windows(found.sizes, found.strides, found.dilations, none, none), padded


@lowers("LpPool")
def lp_pool(node: NodeLowering) -> GraphTensor:
    found = _windows(node)
    return _pool(node, "LP_POOLING", "LP_POOLING1", found, _pooled(node, found), P=int(node.attribute("p", 2)))


@lowers("MaxPool")
def max_pool(node: NodeLowering) -> list[GraphTensor]:
    """Lowers maxima of windows, and their positions in the whole input."""
    found = _windows(node)
    sizes = _pooled(node, found)
    if not node.wants(1):
        return [_pool(node, "MAX_POOLING", "MAX_POOLING2", found, sizes)]
    if node.attribute("storage_order", 0):
        return _max_pool_by_columns(node, found, sizes)
    indices = node.desc(_INDICES, planar_sizes(sizes))
    values = _pool(node, "MAX_POOLING2", "MAX_POOLING2", found, sizes, OutputIndicesTensor=indices)
    return [values, node.cast(values["OutputIndicesTensor"], DataType.INT64).reshape(sizes)]


_INDICES = DataType.UINT32
"""The type of indices at the lowest level; those of ONNX are INT64."""


def _max_pool_by_columns(node: NodeLowering, found: Windows, pooled: Numbers) -> list[GraphTensor]:
    """Lowers maxima whose positions count along columns first, as those of the transposed input count along rows."""
    x = planar(node.tensor(0))
    axes = (0, 1, *range(len(x.sizes) - 1, 1, -1))
    sizes = [planar_sizes(pooled)[axis] for axis in axes]
    given = {name: values[::-1] for name, values in members(found).items()}
    values = node.emit(
        "MAX_POOLING2",
        InputTensor=x.transpose(axes),
        OutputTensor=node.desc(x.data_type, sizes),
        OutputIndicesTensor=node.desc(_INDICES, sizes),
        **given,
    )
    indices = node.cast(values["OutputIndicesTensor"], DataType.INT64)
    return [each.transpose(axes).reshape(pooled) for each in (values, indices)]


def _global_pool(operator: str, node: NodeLowering, **others: Any) -> GraphTensor:
    """Lowers pooling with one window of all spatial dimensions."""
    x = planar(node.tensor(0))
    spatial = x.sizes[2:]
    given = {"Strides": 1, "StartPadding": 0, "EndPadding": 0}
    arrays = {name: [value] * len(spatial) for name, value in given.items()}
    output = node.desc(x.data_type, (*x.sizes[:2], *(1,) * len(spatial)))
    return node.emit(operator, InputTensor=x, OutputTensor=output, WindowSize=list(spatial), **arrays, **others)


lowers("GlobalAveragePool")(partial(_global_pool, "AVERAGE_POOLING", IncludePadding=False))
lowers("GlobalMaxPool")(partial(_global_pool, "MAX_POOLING"))


@lowers("GlobalLpPool")
def global_lp_pool(node: NodeLowering) -> GraphTensor:
    return _global_pool("LP_POOLING", node, P=int(node.attribute("p", 2)))


@lowers("MaxUnpool")
def max_unpool(node: NodeLowering) -> GraphTensor:
    """Lowers writing elements to the places that a MaxPool found.

    These count in the input that the MaxPool is taken to have had; a larger output continues it with zeros.
    """
    sizes = node.sizes(0)
    places = (*sizes[:2], *_unpooled(node, sizes[2:]))
    x, indices = (_in_one_row(node.tensor(i)) for i in (0, 1))
    output = node.desc(x.data_type, (1, 1, 1, prod(places)))
    row = node.emit("MAX_UNPOOLING", InputTensor=x, IndicesTensor=node.cast(indices, _INDICES), OutputTensor=output)
    wanted = tuple(node.integers(2)) if node.has(2) else places
    if wanted == places:
        return row.reshape(places)
    unpooled = lifted(row.reshape(places), 4)
    added = [0] * (4 - len(places)) + [size - known for size, known in zip(wanted, places, strict=True)]
    if min(added) < 0:
        raise NotLowered(f"its output_shape {list(wanted)} is less than {list(places)}, which its indices count in")
    continued = node.emit(
        "PADDING",
        InputTensor=unpooled,
        PaddingMode="CONSTANT",
        PaddingValue=0.0,
        StartPadding=[0] * len(added),
        EndPadding=added,
    )
    return continued.reshape(wanted)


def _in_one_row(tensor: GraphTensor) -> GraphTensor:
    return tensor.reshape(1, 1, 1, -1)


def _unpooled(node: NodeLowering, source: Numbers) -> Numbers:
    """Returns the spatial sizes of the input of a MaxPool with this output."""
    count, kernel = len(source), node.attribute("kernel_shape")
    strides, (starts, ends) = numbers(node, "strides", count, 1), paddings(node, count)
    each = zip(source, strides, kernel, starts, ends, strict=True)
    return [(size - 1) * stride + window - start - end for size, stride, window, start, end in each]
