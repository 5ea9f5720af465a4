"""A device controlled by the test: it records the plans it gets, and finishes each when the test says so."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

from opwire.check import Plan
from opwire_service.devices.base import Device
from opwire_service.execution import Arrays, Stop, Stopped

_POLL_INTERVAL = 0.001
_TIMEOUT = 30.0


@dataclass(eq=False)
class Run:
    """A running plan.

    Attributes:
        plan: The plan.
        stopped: Whether the plan was stopped.
    """

    plan: Plan
    stopped: bool = False
    _error: Exception | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def finish(self) -> None:
        """Finishes the plan."""
        self._ended.set()

    def fail(self, error: Exception) -> None:
        """Makes the device raise an error."""
        self._error = error
        self._ended.set()

    def wait(self, stop: Stop) -> None:
        while not self._ended.wait(_POLL_INTERVAL):
            if stop():
                self.stopped = True
                raise Stopped
        if self._error is not None:
            raise self._error


class FakeDevice(Device):
    """Records plans; each runs until the test finishes it or it is stopped.

    Attributes:
        runs: The started plans, in order.
        closed: How often ``close`` was called.
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
        """Waits until ``count`` plans have started and returns them."""
        await asyncio.to_thread(self._await, count)
        return self.runs

    def _await(self, count: int) -> None:
        with self._arrival:
            assert self._arrival.wait_for(lambda: len(self.runs) >= count, _TIMEOUT), f"{count} plans never started"
