"""Bounded memory for one card: blocks on the card, and pinned staging buffers on the host."""

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
"""Alignment of tensors on the card, in bytes."""

_SMALLEST = 64 * 1024
_PATIENCE = 0.01


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def block_size(size: int) -> int:
    """Returns the size of the block for ``size`` bytes, rounded up by at most an eighth to make blocks reusable."""
    size = max(size, _SMALLEST)
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step


class MemoryPool:
    """A pool of blocks of the card's memory. Released blocks are kept for reuse.

    Args:
        runtime: CuPy's CUDA runtime.
        budget: maximum total size in bytes.
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
        """Bytes reserved for accepted plans, running or queued."""
        return self._promised

    @property
    def reserved(self) -> int:
        """Bytes allocated on the card, in use or kept for reuse."""
        return self._in_use + self._kept_bytes

    def admit(self, size: int) -> None:
        """Refuses a size that never fits.

        Raises:
            LimitExceededError: the block exceeds the budget.
        """
        if block_size(size) > self.budget:
            raise LimitExceededError(
                ProblemCode.TENSOR_TOO_LARGE,
                f"the operator needs {size} bytes of the card's memory; its budget is {self.budget}",
                limit=self.budget,
                size=size,
            )

    @contextmanager
    def promise(self, size: int) -> Generator[None]:
        """Reserves budget for a block for the duration of the context, without allocating it.

        Raises:
            LimitExceededError: the block exceeds the budget.
            OverloadedError: too much of the budget is reserved by others.
        """
        self.admit(size)
        block = block_size(size)
        with self._changed:
            if self._promised + block > self.budget:
                raise OverloadedError(
                    ProblemCode.MEMORY_FULL,
                    f"the operator needs {size} bytes of the card's memory; {self._promised} of {self.budget} are held",
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
        """Provides the address of a block for the duration of the context, waiting while the budget is in use.

        Raises:
            LimitExceededError: the block exceeds the budget.
            OverloadedError: the card has less free memory than the budget allows.
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
            f"the card has no {size} bytes of free memory; other programs are using it",
            limit=self.budget,
            size=size,
            retry_after=1,
        )

    def _release(self, until: int) -> None:
        """Frees kept blocks, largest first, until at most ``until`` bytes are reserved."""
        for size in sorted(self._kept, reverse=True):
            blocks = self._kept[size]
            while blocks and self.reserved > until:
                self._runtime.free(blocks.pop())
                self._kept_bytes -= size

    def close(self) -> None:
        """Frees all kept blocks."""
        with self._changed:
            self._release(until=0)


class Staging:
    """A pool of pinned buffers of one size, which the card reads asynchronously.

    Args:
        cuda: CuPy's ``cuda`` module.
        size: size of a buffer in bytes.
        count: number of buffers; they are allocated on first use.
    """

    def __init__(self, cuda: Any, size: int, count: int) -> None:
        self._cuda = cuda
        self.size = size
        self._unmade = count
        self._free: list[Array] = []
        self._changed = threading.Condition()

    @contextmanager
    def buffers(self, count: int, stop: Stop) -> Generator[list[Array]]:
        """Provides ``count`` buffers as byte arrays for the duration of the context.

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
