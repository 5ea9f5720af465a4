"""What plans cost, in element visits: formulas that several families share."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..operator import Tensors
from ..rules import Windows

STEP = 1 << 13
"""Element visits that take as long as what is done once for a step or a tile, however small that is."""


def elements_visited(attributes: object, tensors: Tensors) -> int:
    """Each logical element of the input is visited once."""
    count: int = tensors["InputTensor"].element_count
    return count


def elements_written(attributes: object, tensors: Tensors) -> int:
    """Each element of the output is visited once."""
    count: int = tensors["OutputTensor"].element_count
    return count


def windows_visited(windows: Windows, pooled: str = "OutputTensor") -> Callable[[object, Tensors], int]:
    """Each element of what is pooled visits its window, without the padding."""

    def work(attributes: object, tensors: Tensors) -> int:
        images, channels, *counts = tensors[pooled].sizes
        values = {name: getattr(attributes, name) for name in windows.arrays} | {windows.over: tensors[windows.over]}
        visited = (each.elements_visited(count) for each, count in zip(windows.dimensions(values), counts, strict=True))
        return int(images * channels * prod(visited))

    return work
