"""Anonymous shared memory between a server and its bridge, which is released when both processes end.

Blocks have few distinct sizes and are reused, since obtaining memory from the system takes longer than filling it.
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

LEAST_BLOCK = 1 << 16
"""Size of the smallest block, in bytes."""

IDLE_BYTES = 1 << 28
"""Maximum total size of idle blocks, in bytes; beyond it, blocks are released."""


def block_size(size: int) -> int:
    """Returns the size of the block for ``size`` bytes: ``LEAST_BLOCK`` or more, rounded up by at most a quarter."""
    if size <= LEAST_BLOCK:
        return LEAST_BLOCK
    step = 1 << max(0, size.bit_length() - 3)
    return -(-size // step) * step


@dataclass(frozen=True, slots=True, eq=False)
class SharedBlock:
    """A block of shared memory.

    Attributes:
        number: number by which messages refer to it.
        size: size in bytes.
        memory: its bytes.
    """

    number: int
    size: int
    memory: Array


class SharedBlocks:
    """The pool of blocks of a server.

    Args:
        on_new: called with each new block and its file descriptor, which is closed afterwards.
        on_drop: called with each block that is released.
    """

    def __init__(self, on_new: Callable[[SharedBlock, int], None], on_drop: Callable[[SharedBlock], None]) -> None:
        self._on_new = on_new
        self._on_drop = on_drop
        self._idle: dict[int, list[SharedBlock]] = {}
        self._idle_bytes = 0
        self._numbers = count(1)
        self._lock = Lock()

    def take(self, size: int) -> SharedBlock:
        """Returns a block of at least ``size`` bytes with undefined content.

        Raises:
            OSError: the system is out of memory, or the bridge is gone.
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
        """Returns a block to the pool."""
        with self._lock:
            if self._idle_bytes + block.size <= IDLE_BYTES:
                self._idle.setdefault(block.size, []).append(block)
                self._idle_bytes += block.size
                return
        self._on_drop(block)


def opened(descriptor: int, size: int) -> Array:
    """Maps the memory of a file descriptor as bytes; the mapping lives as long as the array."""
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
