"""The cost of plans in element visits: formulas shared by several families."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..operator import Tensors
from ..rules import Windows

STEP = 1 << 13
"""Fixed cost of a step or tile, in element visits."""


def elements_visited(attributes: object, tensors: Tensors) -> int:
    """Counts each logical element of the input once."""
    count: int = tensors["InputTensor"].element_count
    return count


def elements_written(attributes: object, tensors: Tensors) -> int:
    """Counts each element of the output once."""
    count: int = tensors["OutputTensor"].element_count
    return count


def windows_visited(windows: Windows, pooled: str = "OutputTensor") -> Callable[[object, Tensors], int]:
    """Returns a function that counts the elements in the window of each output element, without padding."""

    def work(attributes: object, tensors: Tensors) -> int:
        images, channels, *counts = tensors[pooled].sizes
        values = {name: getattr(attributes, name) for name in windows.arrays} | {windows.over: tensors[windows.over]}
        visited = (each.elements_visited(count) for each, count in zip(windows.dimensions(values), counts, strict=True))
        return int(images * channels * prod(visited))

    return work
