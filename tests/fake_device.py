"""A device that a test drives: it records the plans it is given and ends each when the test says so."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

from opwire.check import Plan
from opwire_service.devices.base import Device
from opwire_service.execution import Arrays, Stop, Stopped

_LOOKS_EVERY = 0.001
_WITHIN = 30.0


@dataclass(eq=False)
class Run:
    """One plan under way.

    Attributes:
        plan: what was to run.
        stopped: whether the device was told to stop, and did.
    """

    plan: Plan
    stopped: bool = False
    _error: Exception | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def finish(self) -> None:
        """The plan is done."""
        self._ended.set()

    def fail(self, error: Exception) -> None:
        """The device raises an error."""
        self._error = error
        self._ended.set()

    def wait(self, stop: Stop) -> None:
        while not self._ended.wait(_LOOKS_EVERY):
            if stop():
                self.stopped = True
                raise Stopped
        if self._error is not None:
            raise self._error


class FakeDevice(Device):
    """Records plans; each runs until the test ends it, or until it is told to stop.

    Attributes:
        runs: the plans that were started, in that order.
        closed: how often ``close`` was called.
    """

    name = "fake"
    inline_work = 0

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.closed = 0
        self._arrival = threading.Condition()

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``."""
        run = Run(plan)
        with self._arrival:
            self.runs.append(run)
            self._arrival.notify_all()
        run.wait(stop)

    def describe(self) -> dict[str, object]:
        """See ``Device.describe``."""
        return {"name": self.name}

    def close(self) -> None:
        """See ``Device.close``."""
        self.closed += 1

    async def started(self, count: int) -> list[Run]:
        """The runs, once so many plans have been started."""
        await asyncio.to_thread(self._await, count)
        return self.runs

    def _await(self, count: int) -> None:
        with self._arrival:
            assert self._arrival.wait_for(lambda: len(self.runs) >= count, _WITHIN), f"{count} plans never started"
