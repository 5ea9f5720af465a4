"""Work in another thread: when it stops, and that it yields to the event loop."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from resource import RUSAGE_THREAD, getrusage

from opwire_service.engine.running import YIELD_INTERVAL, Watch

SECONDS = 0.3
"""Processor time that the work takes. On a busy machine it takes longer, and rests as often at least."""


def test_work_yields_to_other_threads() -> None:
    def rests() -> int:
        """Counts how often the thread slept."""
        before, end = getrusage(RUSAGE_THREAD).ru_nvcsw, time.thread_time() + SECONDS
        watch = Watch(time.monotonic() + 60)
        while time.thread_time() < end:
            assert not watch()
        return getrusage(RUSAGE_THREAD).ru_nvcsw - before

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(rests).result() >= SECONDS / YIELD_INTERVAL / 2


def test_the_stop_callback_is_polled() -> None:
    watch = Watch(time.monotonic() + 60)
    assert not watch()
    watch.told.set()
    assert watch()
    assert Watch(time.monotonic() - 1)()
