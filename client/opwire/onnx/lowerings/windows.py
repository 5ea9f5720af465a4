"""Windows that move over the spatial dimensions of a tensor: of convolutions and of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ...client.graph_tensors import GraphTensor
from ..errors import NotLowered
from ..lowering import NodeLowering

Numbers = Sequence[int]

_FEWEST = 2
"""Spatial dimensions that operators take at their lowest level."""


@dataclass(frozen=True, slots=True)
class Windows:
    """How windows move over spatial dimensions, with a number for each dimension.

    Attributes:
        sizes: how many elements a window has.
        strides: how far windows are apart.
        dilations: how far the elements of a window are apart.
        starts, ends: the padding before and after the input.
    """

    sizes: Numbers
    strides: Numbers
    dilations: Numbers
    starts: Numbers
    ends: Numbers

    @property
    def reaches(self) -> Numbers:
        """How many positions a window spans."""
        return [reach(size, dilation) for size, dilation in zip(self.sizes, self.dilations, strict=True)]

    @property
    def is_dilated(self) -> bool:
        return any(dilation != 1 for dilation in self.dilations)

    def members(self) -> dict[str, list[int]]:
        """Returns the members of a desc struct for at least two dimensions; those that are missing come first."""
        missing = _FEWEST - len(self.sizes)
        return {
            "Strides": [1] * missing + list(self.strides),
            "Dilations": [1] * missing + list(self.dilations),
            "StartPadding": [0] * missing + list(self.starts),
            "EndPadding": [0] * missing + list(self.ends),
        }


def reach(size: int, dilation: int) -> int:
    """Returns the number of positions that the elements of a window span."""
    return (size - 1) * dilation + 1


def planar(tensor: GraphTensor, most: int = 5) -> GraphTensor:
    """Returns a view with at least two spatial dimensions, after the batch and the channels: ``[N, C, W]`` becomes
    ``[N, C, 1, W]``. Those beyond the greatest rank are merged, for operators that treat them alike."""
    sizes = tensor.sizes
    if len(sizes) > most:
        return tensor.reshape(*sizes[: most - 1], prod(sizes[most - 1 :]))
    return tensor.reshape(planar_sizes(sizes)) if len(sizes) < 2 + _FEWEST else tensor


def planar_sizes(sizes: Numbers) -> tuple[int, ...]:
    """Returns sizes with at least two spatial dimensions."""
    sizes = (*sizes, *(1,) * (2 - len(sizes)))
    return (*sizes[:2], *(1,) * (2 + _FEWEST - len(sizes)), *sizes[2:])


def per_channel(tensor: GraphTensor, rank: int) -> GraphTensor:
    """Returns a view of one element, or of one for each channel, as ``[1, C, 1, ...]``."""
    return tensor.reshape(1, -1, *(1,) * (rank - 2))


def numbers(node: NodeLowering, attribute: str, count: int, default: int) -> Numbers:
    """Returns an attribute with a number for each spatial dimension.

    Raises:
        NotLowered: it has another number of them.
    """
    given = node.attribute(attribute) or [default] * count
    if len(given) != count:
        raise NotLowered(f"its {attribute} are {given}, and it has {count} spatial dimensions")
    return [int(each) for each in given]


def paddings(node: NodeLowering, count: int) -> tuple[Numbers, Numbers]:
    """Returns the padding before and after that the attribute ``pads`` gives."""
    pads = numbers(node, "pads", 2 * count, 0)
    return pads[:count], pads[count:]


def windows(node: NodeLowering, source: Numbers, sizes: Numbers) -> Windows:
    """Returns the windows of a node.

    Args:
        node: the node.
        source: the spatial sizes of its input.
        sizes: the sizes of the window.
    """
    count = len(source)
    if len(sizes) != count:
        raise NotLowered(f"its window has the sizes {list(sizes)}, and its input {count} spatial dimensions")
    strides, dilations = numbers(node, "strides", count, 1), numbers(node, "dilations", count, 1)
    starts, ends = paddings(node, count)
    kind = node.attribute("auto_pad", "NOTSET")
    if kind.startswith("SAME"):
        counts = [-(-size // stride) for size, stride in zip(source, strides, strict=True)]
        spans = [reach(*each) for each in zip(sizes, dilations, strict=True)]
        each = zip(counts, strides, spans, source, strict=True)
        totals = [(count - 1) * stride + span - size for count, stride, span, size in each]
        starts, ends = halves(totals, upper=kind == "SAME_UPPER")
    elif kind == "VALID":
        starts = ends = [0] * count
    return Windows(sizes, strides, dilations, starts, ends)


def halves(totals: Numbers, *, upper: bool) -> tuple[Numbers, Numbers]:
    """Returns padding split between start and end; what is odd goes to the end if ``upper``."""
    known = [max(total, 0) for total in totals]
    less, more = [total // 2 for total in known], [(total + 1) // 2 for total in known]
    return (less, more) if upper else (more, less)


def positions(source: Numbers, found: Windows, *, ceil: bool) -> Numbers:
    """Returns how many windows there are along each dimension.

    Args:
        source: the spatial sizes of the input.
        found: the windows.
        ceil: whether windows may reach beyond the padding, as long as they do not start there.
    """
    each = zip(source, found.starts, found.ends, found.reaches, found.strides, strict=True)
    return [_positions(*given, ceil=ceil) for given in each]


def _positions(size: int, start: int, end: int, span: int, stride: int, *, ceil: bool) -> int:
    left = size + start + end - span
    if not ceil:
        return left // stride + 1
    count = -(-left // stride) + 1
    return count - 1 if (count - 1) * stride >= size + start else count


def members(found: Windows, **others: Any) -> dict[str, Any]:
    """Returns the members of a desc struct of pooling."""
    missing = _FEWEST - len(found.sizes)
    return {**found.members(), "WindowSize": [1] * missing + list(found.sizes), **others}
