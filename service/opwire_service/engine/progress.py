"""Progress of a request: the time spent in each stage, and what is known about the request so far."""

from __future__ import annotations

import math
import time
from copy import copy
from typing import NamedTuple


class Ran(NamedTuple):
    """Times of one run, in microseconds."""

    queue: int
    run: int


class Progress:
    """Times the stages of a request, in microseconds.

    Attributes:
        started: ``time.monotonic()`` when the request arrived.
        stages: microseconds by stage.
        timing: the stages with their ``total``, once the response is encoded.
        operator: operator type that the request names, as given; None until known.
        device: device that ran the request; None until known.
        deadline: ``time.monotonic()`` by which the request must be done; infinity until known.
    """

    __slots__ = ("_first", "_last", "deadline", "device", "operator", "stages", "started", "timing")

    def __init__(self) -> None:
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

    def fork(self) -> Progress:
        """Returns a copy for one of several requests that arrived together."""
        forked = copy(self)
        forked.stages = dict(self.stages)
        return forked
