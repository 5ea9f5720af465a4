"""Memory for one card, all of it bounded: blocks on the card, and pinned buffers that data passes on its way there."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from opwire.errors import LimitExceededError, OverloadedError, ProblemCode
from opwire.tensor import Array

from ...execution import Stop, Stopped

ALIGNMENT = 256
"""Of every tensor on the card, in bytes."""

_SMALLEST = 64 * 1024
_PATIENCE = 0.01


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def block_size(size: int) -> int:
    """The size of the block that so many bytes get: at most an eighth more, so that blocks fit other requests too."""
    size = max(size, _SMALLEST)
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step


class MemoryPool:
    """Blocks of the card's memory, at most so many bytes of them; those given back are kept for the next request.

    Args:
        runtime: CuPy's CUDA runtime.
        budget: bytes.
    """

    def __init__(self, runtime: Any, budget: int) -> None:
        self._runtime = runtime
        self.budget = budget
        self._in_use = 0
        self._promised = 0
        self._kept: dict[int, list[int]] = {}
        self._kept_bytes = 0
        self._changed = threading.Condition()

    @property
    def in_use(self) -> int:
        return self._in_use

    @property
    def promised(self) -> int:
        """Bytes for plans that were accepted, whether they run or wait."""
        return self._promised

    @property
    def reserved(self) -> int:
        """Bytes taken from the card, in use or kept."""
        return self._in_use + self._kept_bytes

    def admit(self, size: int) -> None:
        """Refuses what will never fit.

        Raises:
            LimitExceededError: the budget is smaller than the block.
        """
        if block_size(size) > self.budget:
            raise LimitExceededError(
                ProblemCode.TENSOR_TOO_LARGE,
                f"the operator takes {size} bytes of the card's memory; its budget is {self.budget}",
                limit=self.budget,
                size=size,
            )

    @contextmanager
    def promise(self, size: int) -> Generator[None]:
        """Keeps room for a block, for as long as the context lasts; nothing is allocated yet.

        Raises:
            LimitExceededError: the budget is smaller than the block.
            OverloadedError: others were promised too much of it.
        """
        self.admit(size)
        block = block_size(size)
        with self._changed:
            if self._promised + block > self.budget:
                raise OverloadedError(
                    ProblemCode.MEMORY_FULL,
                    f"the operator takes {size} bytes of the card's memory; {self._promised} of {self.budget} are held",
                    limit=self.budget,
                    size=size,
                    retry_after=1,
                )
            self._promised += block
        try:
            yield
        finally:
            with self._changed:
                self._promised -= block

    @contextmanager
    def block(self, size: int, stop: Stop) -> Generator[int]:
        """The address of a block, for as long as the context lasts; waits while others use up the budget.

        Raises:
            LimitExceededError: the budget is smaller than the block.
            OverloadedError: the card has less memory left than the budget promises.
            Stopped: ``stop()`` returned True.
        """
        self.admit(size)
        size = block_size(size)
        address = self._take(size, stop)
        try:
            yield address
        finally:
            with self._changed:
                self._in_use -= size
                self._kept.setdefault(size, []).append(address)
                self._kept_bytes += size
                self._changed.notify_all()

    def _take(self, size: int, stop: Stop) -> int:
        with self._changed:
            while self._in_use + size > self.budget:
                if not self._changed.wait(_PATIENCE) and stop():
                    raise Stopped
            blocks = self._kept.get(size)
            if blocks:
                self._kept_bytes -= size
                address = blocks.pop()
            else:
                self._release(until=self.budget - size)
                address = self._allocate(size)
            self._in_use += size
            return address

    def _allocate(self, size: int) -> int:
        for kept in (True, False):
            try:
                return int(self._runtime.malloc(size))
            except self._runtime.CUDARuntimeError as error:
                if error.status != self._runtime.errorMemoryAllocation:
                    raise
                if kept:
                    self._release(until=0)
        raise OverloadedError(
            ProblemCode.MEMORY_FULL,
            f"the card has no {size} bytes left; other programs use its memory",
            limit=self.budget,
            size=size,
            retry_after=1,
        )

    def _release(self, until: int) -> None:
        """Gives kept blocks back to the card until so many bytes are reserved, or none is kept."""
        for size in sorted(self._kept, reverse=True):
            blocks = self._kept[size]
            while blocks and self.reserved > until:
                self._runtime.free(blocks.pop())
                self._kept_bytes -= size

    def close(self) -> None:
        """Gives all kept blocks back to the card."""
        with self._changed:
            self._release(until=0)


class Staging:
    """Pinned buffers of one size: from them the card copies while the host goes on.

    Args:
        cuda: CuPy's ``cuda`` module.
        size: bytes of a buffer.
        count: of buffers; they are made when first needed.
    """

    def __init__(self, cuda: Any, size: int, count: int) -> None:
        self._cuda = cuda
        self.size = size
        self._unmade = count
        self._free: list[Array] = []
        self._changed = threading.Condition()

    @contextmanager
    def buffers(self, count: int, stop: Stop) -> Generator[list[Array]]:
        """So many buffers at once, as arrays of bytes.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        taken = self._take(count, stop)
        try:
            yield taken
        finally:
            with self._changed:
                self._free.extend(taken)
                self._changed.notify_all()

    def _take(self, count: int, stop: Stop) -> list[Array]:
        with self._changed:
            while len(self._free) + self._unmade < count:
                if not self._changed.wait(_PATIENCE) and stop():
                    raise Stopped
            taken = [self._free.pop() for _ in range(min(count, len(self._free)))]
            while len(taken) < count:
                taken.append(np.frombuffer(self._cuda.alloc_pinned_memory(self.size), np.uint8, self.size))
                self._unmade -= 1
            return taken

    def close(self) -> None:
        """Drops the buffers."""
        self._free.clear()
