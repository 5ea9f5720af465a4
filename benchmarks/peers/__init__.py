"""The libraries that opwire is compared with, each in its fastest documented form: one module for each.

A peer turns a cell and the memory of its inputs into a call without arguments, or into None if it does not support the
cell. All setup happens outside of the call, including the allocation of the result where the library allows that.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from opwire.tensor import Array

from ..cell import Cell
from . import jax, numpy, onnxruntime, torch
from .call import Call, Make, arrays

__all__ = ["PEERS", "Call", "Cell", "arrays", "peers_of"]

PEERS: dict[str, Make] = {"numpy": numpy.call, "onnxruntime": onnxruntime.call, "torch": torch.call, "jax": jax.call}
"""What makes the calls of each peer, by package."""


def peers_of(cell: Cell, memories: Sequence[Array], threads: int) -> dict[str, Call]:
    """Returns the calls of the installed peers that support a cell."""
    found = {}
    for name, make in PEERS.items():
        if find_spec(name) is None:
            continue
        call = make(cell, memories, threads)
        if call is not None:
            found[name] = call
    return found
