"""Work that runs, in this thread or in another one: how long it took, and how it is told to stop."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future

from opwire.errors import DeadlineExceededError, ProblemCode

from ..execution import Bound, Stop, Stopped

GIVES_WAY_EVERY = 0.02
"""Seconds of work in another thread between two moments in which it does nothing."""

MOMENT = 5e-5
"""Seconds, in which a thread that waits for the GIL wakes up and takes it."""


class Watch:
    """Tells work in another thread whether to stop, and lets the event loop have the GIL now and then.

    A kernel of many small calls of NumPy kept the event loop from the GIL until its end: who gives it up for a moment
    has it back before a thread that waits for it is awake, and that thread's wait begins anew.

    Args:
        deadline: of the work, on the clock of ``time.monotonic``.

    Attributes:
        told: set where the work is to stop.
    """

    def __init__(self, deadline: float) -> None:
        self.told = threading.Event()
        self._deadline = deadline
        self._gives_way = time.monotonic() + GIVES_WAY_EVERY

    def __call__(self) -> bool:
        now = time.monotonic()
        if now > self._gives_way:
            time.sleep(MOMENT)
            self._gives_way = time.monotonic() + GIVES_WAY_EVERY
        return self.told.is_set() or now > self._deadline


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


async def result(work: Future[int], watch: Watch) -> int:
    """The outcome of work in another thread; whoever is cancelled meanwhile tells it to stop, and waits for that."""
    ended = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        watch.told.set()
        # What the request holds is given back when nothing uses it any more.
        await asyncio.gather(ended, return_exceptions=True)
        raise


def too_late(stage: str) -> DeadlineExceededError:
    """The error of work whose deadline passed, ``queue`` or ``run`` being the stage that it was in."""
    what = {"queue": "it waited for a device", "run": "the operator ran"}[stage]
    return DeadlineExceededError(ProblemCode.DEADLINE_EXCEEDED, f"the deadline passed while {what}", stage=stage)
