"""A fair semaphore: first come, first served."""

from __future__ import annotations

import threading
from collections import deque


class Turns:
    """A semaphore that admits waiting threads in the order of their arrival.

    With the standard library's semaphore, newcomers can overtake waiting threads, which may starve under contention.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    def take(self, timeout: float | None) -> bool:
        """Waits for a turn. Returns whether it came within ``timeout`` seconds; if so, it must be given back."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            came = turn.acquire(timeout=-1 if timeout is None else timeout)
        except BaseException:
            if not self._leave(turn):
                self.give()
            raise
        return came or not self._leave(turn)

    def _leave(self, turn: threading.Lock) -> bool:
        """Stops waiting. Returns False if the turn came at the last moment."""
        with self._lock:
            try:
                self._waiting.remove(turn)
            except ValueError:
                return False
            return True

    def give(self) -> None:
        """Gives a turn back, to the thread that has waited the longest."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1
