"""What plans cost, in element visits: formulas that several families share."""

from __future__ import annotations

from ..operator import Tensors


def elements_visited(attributes: object, tensors: Tensors) -> int:
    """Each logical element of the input is visited once."""
    count: int = tensors["InputTensor"].element_count
    return count


def elements_written(attributes: object, tensors: Tensors) -> int:
    """Each element of the output is visited once."""
    count: int = tensors["OutputTensor"].element_count
    return count
