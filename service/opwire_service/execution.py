"""Types shared by devices and kernels: the arrays of a plan, and cancellation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

import numpy as np

from opwire.tensor import Array

Stop = Callable[[], bool]
"""Polled between pieces of work; returns True once the result is no longer wanted."""

Arrays = Mapping[str, Array]
"""The tensors of a plan by name, each with the shape and layout of its desc."""

Bound = Callable[[Stop], None]
"""Runs a plan on the arrays it was bound to. Raises Stopped if it is told to stop."""


class Stopped(Exception):
    """Work was abandoned because ``stop()`` returned True. The content of the outputs is undefined."""


class FixedMemory:
    """Bytes that nobody changes any more.

    Arrays that cannot be written to may still change, by another view of their memory. Only those on fixed memory are
    known not to, so what follows from their elements can be kept.
    """

    def __init__(self, data: memoryview) -> None:
        self._data = np.frombuffer(data, np.uint8)
        address, _ = self._data.__array_interface__["data"]
        self.__array_interface__ = {**self._data.__array_interface__, "data": (address, True)}

    @classmethod
    def fix(cls, data: memoryview) -> memoryview:
        """Returns a view of bytes that the caller promises never to change again."""
        return np.asarray(cls(data)).data if data.nbytes else data

    @classmethod
    def under(cls, array: Array) -> Self | None:
        """Returns the fixed memory that an array lies in, or None."""
        owner = _beneath(array)
        while owner is not None and not isinstance(owner, cls):
            owner = _beneath(owner)
        return owner


def _beneath(memory: object) -> object:
    """Returns the owner of the memory of an array or a view; None if that is itself."""
    if isinstance(memory, np.ndarray):
        return memory.base
    return memory.obj if isinstance(memory, memoryview) else None
