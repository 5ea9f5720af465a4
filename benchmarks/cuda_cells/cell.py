"""A request on tensors in GPU memory, and its PyTorch equivalent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Tensors = Sequence[torch.Tensor]

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """A request and its peer.

    Attributes:
        family, name: identify the cell.
        operator, fields: the request.
        inputs: returns new tensors by name, those of an array as ``Name[0]``, ``Name[1]``; called several times.
        peer: the PyTorch equivalent, called with the inputs in order.
        is_bound_by_memory: whether only the bytes moved matter.
        moved: minimum bytes read and written; by default all inputs and outputs.
        compares: returns whether the outputs, in order, match the peer's result; by default bit for bit.
    """

    family: str
    name: str
    operator: str
    inputs: Callable[[], Mapping[str, torch.Tensor]]
    peer: Function
    fields: Mapping[str, Any] = field(default_factory=dict)
    is_bound_by_memory: bool = True
    moved: int | None = None
    compares: Callable[[Tensors, Any], bool] | None = None


Cells = Callable[[], Iterator[Cell]]


def same_bits(outputs: Tensors, result: Any) -> bool:
    """Returns whether the outputs equal the peer's, bit for bit."""
    results = result if isinstance(result, tuple | list) else [result]
    pairs = zip(outputs, results, strict=False)
    return all(torch.equal(_bits(one.reshape(-1)), _bits(other.reshape(-1).to(one.dtype))) for one, other in pairs)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    types = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(types[tensor.element_size()])
