"""A fair semaphore: first come, first served."""

from __future__ import annotations

import threading
from collections import deque


class FairSemaphore:
    """A semaphore that admits waiting threads in the order of their arrival.

    With the standard library's semaphore, newcomers can overtake waiting threads, which may starve under contention.
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float | None) -> bool:
        """Acquires a slot. Returns whether it did so within ``timeout`` seconds, None for no limit."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            slot = threading.Lock()
            slot.acquire()
            self._waiting.append(slot)
        try:
            acquired = slot.acquire(timeout=-1 if timeout is None else timeout)
        except BaseException:
            if not self._leave(slot):
                self.release()
            raise
        return acquired or not self._leave(slot)

    def _leave(self, slot: threading.Lock) -> bool:
        """Stops waiting. Returns False if the slot became free at the last moment."""
        with self._lock:
            try:
                self._waiting.remove(slot)
            except ValueError:
                return False
            return True

    def release(self) -> None:
        """Releases a slot to the thread that has waited the longest."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1
