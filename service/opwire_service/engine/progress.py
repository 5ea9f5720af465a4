"""How far a request has come: the time of each of its stages, and what is known of it so far."""

from __future__ import annotations

import math
import time
from copy import copy
from typing import NamedTuple


class Ran(NamedTuple):
    """How a plan ran; times in microseconds."""

    queue: int
    run: int


class Progress:
    """Times the stages of a request, in microseconds.

    Attributes:
        started: when the request arrived, on the clock of ``time.monotonic``.
        stages: microseconds by stage.
        timing: of the answer, once it is written: those and their ``total``.
        operator: the name of its operator type, or whatever the request names; None until that is known.
        device: that ran it, once it has.
        deadline: until when it must be done, on the clock of ``time.monotonic``; infinity until that is known.
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
        """The time since the last lap belongs to this stage."""
        now = time.perf_counter_ns()
        self.stages[stage] = self.stages.get(stage, 0) + (now - self._last) // 1000
        self._last = now

    def ran(self, ran: Ran) -> None:
        """The time since the last lap was spent on waiting and running."""
        self.stages["queue"], self.stages["run"] = ran.queue, ran.run
        self._last = time.perf_counter_ns()

    def end(self, stage: str) -> dict[str, int]:
        """The last stage ends. Returns all stages, and the time since the request arrived as ``total``."""
        self.lap(stage)
        self.timing = {**self.stages, "total": self.elapsed}
        return self.timing

    @property
    def elapsed(self) -> int:
        """Microseconds since the request arrived."""
        return (time.perf_counter_ns() - self._first) // 1000

    def fork(self) -> Progress:
        """The progress of one of several requests that arrived together."""
        forked = copy(self)
        forked.stages = dict(self.stages)
        return forked
