"""Work on another thread: stops it at its deadline, yields to the event loop, and cancels it."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future

YIELD_INTERVAL = 0.02
"""Interval at which work on another thread yields the GIL, in seconds."""

YIELD_SLEEP = 5e-5
"""Sleep long enough for a thread waiting for the GIL to wake up and take it, in seconds."""


class Watch:
    """The stop condition of work on another thread, which also yields the GIL to the event loop periodically.

    Without that, a kernel of many short NumPy calls starves the event loop: NumPy releases the GIL so briefly that the
    kernel has it back before a waiting thread is awake.

    Args:
        deadline: ``time.monotonic()`` after which the work stops.

    Attributes:
        told: set to make the work stop.
    """

    def __init__(self, deadline: float) -> None:
        self.told = threading.Event()
        self._deadline = deadline
        self._next_yield = time.monotonic() + YIELD_INTERVAL

    def __call__(self) -> bool:
        now = time.monotonic()
        if now > self._next_yield:
            time.sleep(YIELD_SLEEP)
            self._next_yield = time.monotonic() + YIELD_INTERVAL
        return self.told.is_set() or now > self._deadline


def is_whole(work: Future[int]) -> bool:
    """Whether the work completed without an error."""
    return not work.cancelled() and work.exception() is None


async def result(work: Future[int], watch: Watch) -> int:
    """Returns the result of work on another thread. On cancellation it stops the work and waits for it to end."""
    ended = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        watch.told.set()
        # The request's memory must not be released while the work still uses it.
        await asyncio.gather(ended, return_exceptions=True)
        raise
