"""Work in another thread: when it stops, and that it yields to the event loop."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from resource import RUSAGE_THREAD, getrusage

from opwire_service.engine.running import YIELD_INTERVAL, Watch

SECONDS = 0.5
"""Seconds that the work takes."""


def test_work_yields_to_other_threads() -> None:
    def rests() -> int:
        """Counts how often the thread slept."""
        before = getrusage(RUSAGE_THREAD).ru_nvcsw
        watch = Watch(time.monotonic() + SECONDS)
        while not watch():
            pass
        return getrusage(RUSAGE_THREAD).ru_nvcsw - before

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(rests).result() >= SECONDS / YIELD_INTERVAL / 5  # as often as a busy machine allows


def test_the_stop_callback_is_polled() -> None:
    watch = Watch(time.monotonic() + 60)
    assert not watch()
    watch.told.set()
    assert watch()
    assert Watch(time.monotonic() - 1)()
