"""Memory that the steps of a graph share for their scratch data, since they run one after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opwire.tensor import Array

LINE = 8
"""Numbers of float64 in a cache line."""

_BLOCK = 3 << 20
"""Numbers in a block: most workspaces need fewer. Only what is used of it takes memory."""

Take = Callable[[int], Array]
"""Returns a buffer of that many float64, aligned to a cache line, so that vectors span as few lines as possible."""


def lined(count: int) -> Array:
    """See ``Take``; the buffer is a new one."""
    memory = np.empty(count + LINE)
    first = -(memory.ctypes.data // 8) % LINE
    return memory[first : first + count]


class Scratch:
    """One block of memory per thread."""

    def __init__(self) -> None:
        self._blocks: list[Array] = []

    def take(self, number: int) -> Take:
        """Returns a function that cuts buffers from a block, from its beginning; those that no longer fit are new."""
        while number >= len(self._blocks):
            self._blocks.append(lined(_BLOCK))
        block, taken = self._blocks[number], 0

        def take(count: int) -> Array:
            nonlocal taken
            begin, size = taken, -(-count // LINE) * LINE
            if begin + size > _BLOCK:
                return lined(count)
            taken += size
            return block[begin : begin + count]

        return take
