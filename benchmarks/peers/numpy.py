"""NumPy, with one thread but for products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opwire.tensor import Array

from ..cell import Cell
from .call import Call


def call(cell: Cell, memories: Sequence[Array], threads: int) -> Call | None:
    function = cell.numpy
    if function is None:
        return None
    inputs = [tensor.view(memory) for tensor, memory in zip(cell.inputs.values(), memories, strict=True)]
    if not cell.writes:
        return Call(lambda: function(*inputs))
    output = np.empty(inputs[0].shape, bool if "LOGICAL" in cell.operator else inputs[0].dtype)
    return Call(lambda: function(*inputs, out=output), lambda: output)
