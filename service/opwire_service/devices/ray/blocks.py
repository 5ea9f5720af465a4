"""Memory that a server shares with its bridge: blocks without a name, which end with the two processes.

They are of few sizes and used again: to get new memory from the system takes longer than to fill it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from threading import Lock

import numpy as np

from opwire.tensor import Array

LEAST = 1 << 16
"""Bytes of the smallest block."""

IDLE_BYTES = 1 << 28
"""Of blocks that nobody uses; beyond that they are given back to the system."""


def block_size(size: int) -> int:
    """Bytes of the block for so many bytes: at most a quarter more."""
    if size <= LEAST:
        return LEAST
    step = 1 << max(0, size.bit_length() - 3)
    return -(-size // step) * step


@dataclass(frozen=True, slots=True, eq=False)
class SharedBlock:
    """Shared memory, as bytes."""

    number: int
    size: int
    memory: Array


class SharedBlocks:
    """The blocks of a server.

    Args:
        on_new: told of each new block, with its descriptor, which is closed behind it.
        on_drop: told of each that is given back to the system.
    """

    def __init__(self, on_new: Callable[[SharedBlock, int], None], on_drop: Callable[[SharedBlock], None]) -> None:
        self._on_new = on_new
        self._on_drop = on_drop
        self._idle: dict[int, list[SharedBlock]] = {}
        self._idle_bytes = 0
        self._numbers = count(1)
        self._lock = Lock()

    def take(self, size: int) -> SharedBlock:
        """A block of at least so many bytes; what is in it is of no meaning.

        Raises:
            OSError: the system has no memory for it, or the bridge is gone.
        """
        size = block_size(size)
        with self._lock:
            kept = self._idle.get(size)
            if kept:
                self._idle_bytes -= size
                return kept.pop()
            number = next(self._numbers)
        descriptor = os.memfd_create(f"opwire-{number}")
        try:
            os.ftruncate(descriptor, size)
            block = SharedBlock(number, size, opened(descriptor, size))
            self._on_new(block, descriptor)
        finally:
            os.close(descriptor)
        return block

    def give_back(self, block: SharedBlock) -> None:
        """Nobody uses a block any more."""
        with self._lock:
            if self._idle_bytes + block.size <= IDLE_BYTES:
                self._idle.setdefault(block.size, []).append(block)
                self._idle_bytes += block.size
                return
        self._on_drop(block)


def opened(descriptor: int, size: int) -> Array:
    """The memory behind a descriptor, as bytes; it lasts as long as the array."""
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
