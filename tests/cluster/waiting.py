"""A device that waits instead of computing, so that one machine can stand in for many."""

from __future__ import annotations

import threading
import time

import numpy as np

from opwire.check import Plan
from opwire_service.devices.base import Device
from opwire_service.execution import Arrays, Stop, Stopped

SECONDS_PER_VISIT = 1e-6

TARGET = "tests.cluster.waiting:WaitingDevice"
"""The value for ``Settings.node_device``."""

_POLL_SECONDS = 0.005


class WaitingDevice(Device):
    """Waits a microsecond per element visit, one plan at a time; its outputs are zero.

    Args:
        threads: threads of its node, unused.
    """

    name = "cpu"
    inline_work = 0

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._busy = threading.Lock()

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``."""
        while not self._busy.acquire(timeout=_POLL_SECONDS):
            if stop():
                raise Stopped
        try:
            end = time.monotonic() + plan.work * SECONDS_PER_VISIT
            while (left := end - time.monotonic()) > 0:
                if stop():
                    raise Stopped
                time.sleep(min(left, _POLL_SECONDS))
            for output in outputs.values():
                output[...] = np.zeros((), output.dtype)
        finally:
            self._busy.release()

    def describe(self) -> dict[str, object]:
        """See ``Device.describe``."""
        return {"name": self.name, "kind": "waiting", "threads": self._threads}

    def close(self) -> None:
        """Does nothing."""
