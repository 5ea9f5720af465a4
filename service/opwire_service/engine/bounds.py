"""What bounds a request from outside of it: the limits that it exceeds, and the batch that it is part of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from opwire.errors import LimitExceededError, ProblemCode

from .progress import Ran

Guard = Callable[[Coroutine[Any, Any, Ran]], Awaitable[Ran]]
"""Awaits work, and cancels it once nobody wants the answer any more."""


class Allowance:
    """For the outputs of a batch, which all exist until its answer is sent."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0

    def take(self, size: int) -> None:
        """
        Raises:
            LimitExceededError: so many bytes are not left.
        """
        if self._taken + size > self._limit:
            what = "bytes of output in one batch"
            raise exceeded(ProblemCode.TENSOR_TOO_LARGE, what, self._taken + size, self._limit)
        self._taken += size


def few_at_a_time(most: int) -> Guard:
    """Keeps the work of a batch from filling the queue, where that of others has to wait for it."""
    gate = asyncio.Semaphore(most)

    async def guard(work: Coroutine[Any, Any, Ran]) -> Ran:
        began = time.monotonic()
        try:
            async with gate:
                waited = round((time.monotonic() - began) * 1e6)
                ran = await work
        finally:
            work.close()  # it has not begun if the client went away before
        return ran._replace(queue=ran.queue + waited)

    return guard


def exceeded(code: ProblemCode, what: str, size: int, limit: int) -> LimitExceededError:
    """The error for something that is larger than the server takes."""
    return LimitExceededError(code, f"{size} {what}; this server takes at most {limit}", limit=limit, size=size)
