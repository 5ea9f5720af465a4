"""The threads of the CPU device: they share out the units of a kernel, and the one that calls asks whether to stop."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from queue import SimpleQueue
from typing import Protocol

from ...devices.device import Stop, Stopped
from . import sharing
from .compiler import Entry, Kernel

Piece = Callable[[int, int], None]
"""Does units ``begin`` to ``end``; it releases the GIL."""

Find = Callable[[Kernel], Entry]
"""Gives the machine code of a kernel that is known to be ready."""

LISTENING = 4000
"""Times that a helper looks for more work before it sleeps: some 50 microseconds."""

WAITING = 10 * LISTENING
"""Times that a leader looks whether its helpers are done before it looks but now and then."""

NOW_AND_THEN = 1e-4
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel and its units.

    Attributes:
        kernel: what runs.
        geometry: the address of its loops.
        units: how many there are.
        grain: units of a piece.
        asked: pieces between two questions whether to stop, some 10 ms of work at most.
    """

    kernel: Kernel
    geometry: int
    units: int
    grain: int
    asked: int


class _Work(Protocol):
    """What helpers can take part in."""

    def help(self, memory: int, helper: int) -> None: ...


class Pool:
    """A fixed number of threads, of which the one that calls is always one."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._tickets: SimpleQueue[_Work | None] = SimpleQueue()
        self._memory = (ctypes.c_int64 * (sharing.EARS + sharing.EAR * threads))()
        self._address = ctypes.addressof(self._memory)
        self._helpers = [
            threading.Thread(target=self._serve, args=(i,), name=f"opwire-cpu-{i + 1}", daemon=True)
            for i in range(threads - 1)
        ]
        for helper in self._helpers:
            helper.start()

    def run(self, piece: Piece, units: int, grain: int, stop: Stop) -> None:
        """Does units by a function of Python.

        Args:
            piece: does a range of units.
            units: how many there are.
            grain: units of a piece, some 10 ms of work at most.
            stop: asked before each piece.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        work = _Pieces(piece, units, grain, stop)
        self._wake(work, self._wanted(units, grain))
        work.run()

    def share(self, task: Task, source: int, target: int, states: int, find: Find, stop: Stop) -> None:
        """Does units by a kernel.

        Args:
            task: which ones.
            source: the address of the input.
            target: that of the output.
            states: that of what units leave for later steps.
            find: gives the kernels.
            stop: asked now and then.

        Raises:
            Stopped: ``stop()`` returned True.
            MemoryError: the kernel found no memory.
        """
        work = _Units(task, (source, target, states), self._wanted(task.units, task.grain), find)
        self._wake(work, work.offer(self._address, len(self._helpers)))
        work.run(stop)

    def close(self) -> None:
        """Ends the threads."""
        for _ in self._helpers:
            self._tickets.put(None)
        for helper in self._helpers:
            helper.join()

    def _wanted(self, units: int, grain: int) -> int:
        """How many helpers find something to do."""
        return min(len(self._helpers), -(-units // grain) - 1)

    def _wake(self, work: _Work, helpers: int) -> None:
        """Gets helpers out of their sleep, or those that are first to end what they do."""
        if helpers > 0:
            self._memory[sharing.TICKETS] = 1
        for _ in range(helpers):
            self._tickets.put(work)

    def _serve(self, helper: int) -> None:
        while (work := self._tickets.get()) is not None:
            self._memory[sharing.TICKETS] = not self._tickets.empty()
            work.help(self._address, helper)


class _Units:
    """Units of a kernel. In their record threads take them without Python."""

    def __init__(self, task: Task, places: tuple[int, int, int], helpers: int, find: Find) -> None:
        self._task = task
        self._find = find
        self._helpers = helpers
        function, parties = find(task.kernel).address, helpers + 1
        part = -(-task.units // (parties * task.grain)) * task.grain
        self._record = (ctypes.c_int64 * (sharing.NEXT + sharing.APART * parties))(
            function, task.kernel.is_float, *places, task.geometry, task.units, task.grain, parties, part
        )
        self._address = ctypes.addressof(self._record)

    def offer(self, memory: int, helpers: int) -> int:
        """Gives the work to those of a pool's helpers that listen, and returns how many more it could use."""
        if not self._helpers:
            return 0
        self._find(sharing.OFFER).call(0, self._address, memory, helpers, self._helpers, 0, 0)
        return self._helpers - self._record[sharing.OFFERED]

    def help(self, memory: int, helper: int) -> None:
        self._find(sharing.SERVE).call(0, self._address, memory, helper, LISTENING, 0, 0)

    def run(self, stop: Stop) -> None:
        """Takes part until all is taken or to be stopped, and waits for the helpers."""
        lead, record = self._find(sharing.LEAD).call, self._record
        stopped = False
        try:
            while not stopped and not record[sharing.TAKEN]:
                stopped = stop()
                if not stopped:
                    lead(0, self._address, self._task.asked, WAITING, 0, 0, 0)
        finally:
            if not record[sharing.TAKEN]:
                for party in range(self._helpers + 1):
                    record[sharing.NEXT + sharing.APART * party] = self._task.units
                # By its atomic steps whoever is not counted yet as a helper finds nothing left.
                lead(0, self._address, 1, WAITING, 0, 0, 0)
            while record[sharing.HELPERS]:
                time.sleep(NOW_AND_THEN)
        if stopped:
            raise Stopped
        if record[sharing.FAILED]:
            raise MemoryError


class _Pieces:
    """Pieces done by a function of Python, taken one by one by whoever is free."""

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

    def help(self, memory: int, helper: int) -> None:
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
