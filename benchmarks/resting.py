"""A pause between the participants of a measurement, as they share the cores."""

from __future__ import annotations

import time


def rest() -> None:
    """Waits until the threads of all libraries sleep; they spin for a while after a call."""
    for _ in range(50):
        before = time.process_time()
        time.sleep(4e-3)
        if time.process_time() - before < 1e-3:
            return
