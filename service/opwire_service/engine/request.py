"""One request under way: the time it spends in each stage, its deadline, and the memory it holds."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from copy import copy
from typing import Any

from .limits import Allowance
from .memory import Hold
from .timed import Ran

Guard = Callable[[Coroutine[Any, Any, Ran]], Awaitable[Ran]]
"""Awaits work, and cancels it once the response is no longer wanted."""


class Request:
    """One request, from its arrival to its response. Stages are timed in microseconds.

    Args:
        hold: memory that it holds.
        guard: awaits its work that does not complete immediately.

    Attributes:
        hold, guard: see above.
        room: memory budget for the outputs of the batch that it is part of; None for a request of its own.
        started: ``time.monotonic()`` when it arrived.
        stages: microseconds by stage.
        timing: the stages with their ``total``, once the response is encoded.
        operator: operator type that it names, as given; None until known.
        device: device that ran it; None until known.
        deadline: ``time.monotonic()`` by which it must be done; infinity until known.
    """

    __slots__ = (
        "_first",
        "_last",
        "deadline",
        "device",
        "guard",
        "hold",
        "operator",
        "room",
        "stages",
        "started",
        "timing",
    )

    def __init__(self, hold: Hold, guard: Guard) -> None:
        self.hold = hold
        self.guard = guard
        self.room: Allowance | None = None
        self.started = time.monotonic()
        self.stages: dict[str, int] = {}
        self.timing: dict[str, int] = {}
        self.operator: object = None
        self.device: str | None = None
        self.deadline = math.inf
        self._first = self._last = time.perf_counter_ns()

    def lap(self, stage: str) -> None:
        """Attributes the time since the last lap to ``stage``."""
        now = time.perf_counter_ns()
        self.stages[stage] = self.stages.get(stage, 0) + (now - self._last) // 1000
        self._last = now

    def ran(self, ran: Ran) -> None:
        """Attributes the time since the last lap to queueing and running."""
        self.stages["queue"], self.stages["run"] = ran.queue, ran.run
        self._last = time.perf_counter_ns()

    def end(self, stage: str) -> dict[str, int]:
        """Ends the last stage and returns all stages, with the time since arrival as ``total``."""
        self.lap(stage)
        self.timing = {**self.stages, "total": self.elapsed}
        return self.timing

    @property
    def elapsed(self) -> int:
        """Microseconds since the request arrived."""
        return (time.perf_counter_ns() - self._first) // 1000

    def part(self, guard: Guard, room: Allowance) -> Request:
        """Returns a request that is part of this batch: it holds the same memory, but is timed on its own."""
        made = copy(self)
        made.stages, made.guard, made.room = dict(self.stages), guard, room
        return made
