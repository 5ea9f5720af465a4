"""Batches: how much of their work is handed to the dispatcher at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from .progress import Ran

Guard = Callable[[Coroutine[Any, Any, Ran]], Awaitable[Ran]]
"""Awaits work, and cancels it once nobody wants the answer any more."""


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
