"""Work that runs, in this thread or in another one: how long it took, and how it is told to stop."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future

from opwire.errors import DeadlineExceededError, ProblemCode

from ..execution import Bound, Stop, Stopped


def run_timed(run: Bound, stop: Stop) -> int:
    """Runs what was bound. Returns microseconds.

    Raises:
        DeadlineExceededError: it was told to stop.
    """
    started = time.perf_counter_ns()
    try:
        run(stop)
    except Stopped:
        raise too_late("run") from None
    return (time.perf_counter_ns() - started) // 1000


def is_whole(work: Future[int]) -> bool:
    """Whether some work was done to its end."""
    return not work.cancelled() and work.exception() is None


async def result(work: Future[int], stop: threading.Event) -> int:
    """The outcome of work in another thread; whoever is cancelled meanwhile tells it to stop, and waits for that."""
    ended = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        stop.set()
        # What the request holds is given back when nothing uses it any more.
        await asyncio.gather(ended, return_exceptions=True)
        raise


def too_late(stage: str) -> DeadlineExceededError:
    """The error of work whose deadline passed, ``queue`` or ``run`` being the stage that it was in."""
    what = {"queue": "it waited for a device", "run": "the operator ran"}[stage]
    return DeadlineExceededError(ProblemCode.DEADLINE_EXCEEDED, f"the deadline passed while {what}", stage=stage)
