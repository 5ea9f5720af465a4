"""PyTorch in eager mode, with strided tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opwire.tensor import Array

from ..cell import Cell
from .call import Call


def call(cell: Cell, memories: Sequence[Array], threads: int) -> Call | None:
    if cell.torch is None:
        return None
    import torch

    torch.set_num_threads(threads)
    return of_tensors(cell, tensors(cell, memories))


def tensors(cell: Cell, memories: Sequence[Array], device: str = "cpu") -> list[Any]:
    """Returns the inputs as PyTorch's."""
    import torch

    found = []
    for tensor, memory in zip(cell.inputs.values(), memories, strict=True):
        made = torch.from_numpy(memory).to(device)
        found.append((made.permute(tensor.inverse) if tensor.order else made).expand(tensor.sizes))
    return found


def of_tensors(cell: Cell, inputs: list[Any]) -> Call | None:
    """Returns the call for given inputs; None if PyTorch has no such kernel."""
    import torch

    function = cell.torch
    assert function is not None
    if cell.writes:
        kind = torch.bool if "LOGICAL" in cell.operator else inputs[0].dtype
        output = torch.empty(cell.inputs[next(iter(cell.inputs))].sizes, dtype=kind, device=inputs[0].device)
        made = Call(lambda: function(*inputs, out=output), lambda: output)
    else:
        made = Call(lambda: function(*inputs))
    try:
        made.run()
    except (RuntimeError, NotImplementedError):  # PyTorch lacks the function for this type
        return None
    return made
