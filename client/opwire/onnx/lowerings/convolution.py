"""Convolutions, also of quantized tensors."""

from __future__ import annotations

from typing import Any

from ...client.graph_tensors import GraphTensor
from ..lowering import NodeLowering, lowers
from .windows import Numbers, Windows, halves, numbers, paddings, per_channel, planar, planar_sizes, reach, windows


def _of(node: NodeLowering, data: int, filters: int) -> dict[str, Any]:
    """Returns the members that every forward convolution has, given the places of its tensors."""
    source, kernel = node.sizes(data)[2:], node.sizes(filters)[2:]
    return {
        "InputTensor": planar(node.tensor(data)),
        "FilterTensor": planar(node.tensor(filters)),
        **windows(node, source, kernel).members(),
        "GroupCount": node.attribute("group", 1),
    }


def _per_channel(node: NodeLowering, i: int, rank: int) -> GraphTensor | None:
    given = node.optional(i)
    return None if given is None else per_channel(given, rank)


@lowers("Conv")
def conv(node: NodeLowering) -> GraphTensor:
    given = _of(node, 0, 1)
    bias = _per_channel(node, 2, len(given["InputTensor"].sizes))
    return node.emit("CONVOLUTION", **given, BiasTensor=bias, **_floats("FORWARD", given["Strides"]))


def _floats(direction: str, strides: Numbers) -> dict[str, Any]:
    """Returns the members that only CONVOLUTION has. Sizes that are declared make up for OutputPadding."""
    return {"Mode": "CROSS_CORRELATION", "Direction": direction, "OutputPadding": [0] * len(strides)}


@lowers("ConvTranspose")
def conv_transpose(node: NodeLowering) -> GraphTensor:
    source, kernel = node.sizes(0)[2:], node.sizes(1)[2:]
    x, w = planar(node.tensor(0)), planar(node.tensor(1))
    found, outputs = _transposed(node, source, kernel)
    given, group = found.members(), node.attribute("group", 1)
    sizes = (x.sizes[0], w.sizes[1] * group, *outputs)
    made = node.emit(
        "CONVOLUTION",
        InputTensor=x,
        FilterTensor=w,
        BiasTensor=_per_channel(node, 2, len(x.sizes)),
        OutputTensor=node.desc(x.data_type, planar_sizes(sizes)),
        GroupCount=group,
        **given,
        **_floats("BACKWARD", given["Strides"]),
    )
    return made.reshape(sizes)


def _transposed(node: NodeLowering, source: Numbers, kernel: Numbers) -> tuple[Windows, Numbers]:
    """Returns the windows of a transposed convolution, and the spatial sizes of its output.

    An output has (in - 1) * stride + reach + output_padding elements, less the padding. Its sizes are given; or padding
    takes what is more than the input times the strides; or the padding is given.
    """
    count, kind = len(source), node.attribute("auto_pad", "NOTSET")
    strides, dilations = numbers(node, "strides", count, 1), numbers(node, "dilations", count, 1)
    extra = numbers(node, "output_padding", count, 0)
    each = zip(source, strides, kernel, dilations, extra, strict=True)
    whole = [(size - 1) * stride + reach(k, dilation) + more for size, stride, k, dilation, more in each]
    wanted = list(node.attribute("output_shape") or ())[-count:]
    if wanted or kind.startswith("SAME"):
        least = wanted or [size * stride for size, stride in zip(source, strides, strict=True)]
        totals = [max(size - output, 0) for size, output in zip(whole, least, strict=True)]
        starts, ends = halves(totals, upper=kind == "SAME_UPPER")
    else:
        starts, ends = paddings(node, count) if kind == "NOTSET" else ([0] * count, [0] * count)
    left = [size - start - end for size, start, end in zip(whole, starts, ends, strict=True)]
    return Windows(kernel, strides, dilations, starts, ends), wanted or left


@lowers("ConvInteger")
def conv_integer(node: NodeLowering) -> GraphTensor:
    given = _of(node, 0, 1)
    rank = len(given["InputTensor"].sizes)
    zero_points = {
        "InputZeroPointTensor": _per_channel(node, 2, rank),
        "FilterZeroPointTensor": _per_channel(node, 3, rank),
    }
    return node.emit("CONVOLUTION_INTEGER", **given, **zero_points)


@lowers("QLinearConv")
def qlinear_conv(node: NodeLowering) -> GraphTensor:
    """Lowers a convolution of x, with scale and zero point, and w, with those of its filters, to those of y."""
    given = _of(node, 0, 3)
    rank, count = len(given["InputTensor"].sizes), node.sizes(3)[0]
    parameters = {name: _per_channel(node, i, rank) for name, i in _PARAMETERS.items()}
    if max(node.tensor(4).desc.element_count, node.tensor(5).desc.element_count) > 1:
        for name in ("FilterScaleTensor", "FilterZeroPointTensor"):
            found = parameters[name]
            assert found is not None  # both are required
            parameters[name] = found.broadcast_to((1, count, *found.sizes[2:]))
    output = node.desc(node.data_type(7), planar_sizes(node.output_sizes()))
    return node.emit("QUANTIZED_LINEAR_CONVOLUTION", **given, **parameters, OutputTensor=output)


_PARAMETERS = {
    "InputScaleTensor": 1,
    "InputZeroPointTensor": 2,
    "FilterScaleTensor": 4,
    "FilterZeroPointTensor": 5,
    "OutputScaleTensor": 6,
    "OutputZeroPointTensor": 7,
    "BiasTensor": 8,
}
"""The tensors of QLinearConv that have one element, or one for each channel of the output."""
