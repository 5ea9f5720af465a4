"""JAX, compiled for the layout, as it has no strided tensors; with one thread for each core of the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opwire.tensor import Array

from ..cell import Cell
from .call import Call


def call(cell: Cell, memories: Sequence[Array], threads: int) -> Call | None:
    function = cell.jax
    if function is None:
        return None
    import jax

    orders = [() if cell.is_by_element else tensor.inverse for tensor in cell.inputs.values()]

    def whole(*given: Any) -> Any:
        return function(*(each.transpose(order) if order else each for each, order in zip(given, orders, strict=True)))

    compiled, inputs = jax.jit(whole), [jax.numpy.asarray(memory) for memory in memories]
    return Call(lambda: jax.block_until_ready(compiled(*inputs)))
