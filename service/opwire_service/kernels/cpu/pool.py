"""The threads of the CPU device: they share out the units of a kernel, and ask between pieces whether to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue

from ...devices.device import Stop, Stopped

Piece = Callable[[int, int], None]
"""Does units ``begin`` to ``end``; it releases the GIL."""


class _Work:
    """One kernel's units, taken piece by piece by whoever is free."""

    def __init__(self, piece: Piece, units: int, grain: int, stop: Stop) -> None:
        self._piece = piece
        self._units = units
        self._grain = grain
        self._stop = stop
        self._next = count(0, grain)
        self._lock = threading.Lock()
        self._helping = 0
        self._idle = threading.Condition(self._lock)
        self._failure: BaseException | None = None
        self._over = False

    def take_part(self) -> None:
        """Does pieces until there are none left, or until one fails or the work is stopped."""
        try:
            for begin in self._next:
                if begin >= self._units or self._over:
                    break
                if self._stop():
                    raise Stopped
                self._piece(begin, min(begin + self._grain, self._units))
        except BaseException as failure:
            self._failure = failure
            self._over = True

    def help(self) -> None:
        """Takes part on another thread than the caller's, unless the work has ended already."""
        with self._lock:
            if self._over:
                return
            self._helping += 1
        self.take_part()
        with self._idle:
            self._helping -= 1
            self._idle.notify()

    def run(self) -> None:
        """Takes part, waits for the helpers, and raises what failed."""
        self.take_part()
        with self._idle:
            self._over = True
            while self._helping:
                self._idle.wait()
        if self._failure is not None:
            raise self._failure


class Pool:
    """A fixed number of threads, of which the one that calls is always one."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._tickets: SimpleQueue[_Work | None] = SimpleQueue()
        self._helpers = [
            threading.Thread(target=self._serve, name=f"opwire-cpu-{i}", daemon=True) for i in range(1, threads)
        ]
        for helper in self._helpers:
            helper.start()

    def run(self, piece: Piece, units: int, grain: int, stop: Stop) -> None:
        """Does all units.

        Args:
            piece: does a range of units.
            units: how many there are.
            grain: units of a piece, some 10 ms of work at most.
            stop: asked before each piece.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        if units <= grain:
            if stop():
                raise Stopped
            piece(0, units)
            return
        work = _Work(piece, units, grain, stop)
        for _ in range(min(len(self._helpers), -(-units // grain) - 1)):
            self._tickets.put(work)
        work.run()

    def close(self) -> None:
        """Ends the threads."""
        for _ in self._helpers:
            self._tickets.put(None)
        for helper in self._helpers:
            helper.join()

    def _serve(self) -> None:
        while (work := self._tickets.get()) is not None:
            work.help()
