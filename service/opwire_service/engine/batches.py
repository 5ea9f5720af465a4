"""Limits how many requests of a batch the dispatcher sees at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from .request import Guard
from .timed import Ran


def limit_concurrency(most: int) -> Guard:
    """Returns a guard that runs at most ``most`` requests of a batch concurrently, so that it cannot fill the queue."""
    gate = asyncio.Semaphore(most)

    async def guard(work: Coroutine[Any, Any, Ran]) -> Ran:
        began = time.monotonic()
        try:
            async with gate:
                waited = round((time.monotonic() - began) * 1e6)
                ran = await work
        finally:
            work.close()  # it may not have started if the client disconnected
        return ran._replace(queue=ran.queue + waited)

    return guard
