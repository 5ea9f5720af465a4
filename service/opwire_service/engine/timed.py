"""Runs work on the calling thread and times it."""

from __future__ import annotations

import time
from typing import NamedTuple

from opwire.errors import DeadlineExceededError, ProblemCode

from ..execution import Bound, Stop, Stopped

MOST_SECONDS = 0.05
"""Time after which work is stopped that was expected to be short: chosen data may make it take thousands of times."""


class Ran(NamedTuple):
    """Times of one run, in microseconds."""

    queue: int
    run: int


def run_timed(run: Bound, stop: Stop) -> int:
    """Runs bound work and returns its duration in microseconds.

    Raises:
        DeadlineExceededError: the work was told to stop.
    """
    started = time.perf_counter_ns()
    try:
        run(stop)
    except Stopped:
        raise deadline_exceeded("run") from None
    return (time.perf_counter_ns() - started) // 1000


def run_briefly(run: Bound, deadline: float) -> Ran | None:
    """Runs bound work that is expected to be short; returns None if it is stopped because it takes too long.

    Raises:
        DeadlineExceededError: the deadline passed.
    """
    started = time.monotonic()
    until = min(deadline, started + MOST_SECONDS)
    try:
        run(lambda: time.monotonic() > until)
    except Stopped:
        if until == deadline:
            raise deadline_exceeded("run") from None
        return None
    return Ran(0, int((time.monotonic() - started) * 1e6))


def deadline_exceeded(stage: str) -> DeadlineExceededError:
    """Returns the error for work whose deadline passed in the stage ``queue`` or ``run``."""
    what = {"queue": "the request waited for a device", "run": "the operator ran"}[stage]
    return DeadlineExceededError(ProblemCode.DEADLINE_EXCEEDED, f"the deadline passed while {what}", stage=stage)
