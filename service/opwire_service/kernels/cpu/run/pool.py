"""Thread pool of the CPU device: threads share the units of a kernel, and the calling thread polls ``stop``."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

import numpy as np

from ....execution import Bound, Stop, Stopped
from ..jit.compiler import Entry, Kernel
from . import sharing
from .scratch import Scratch
from .shelf import Shelf

Piece = Callable[[int, int], object]
"""Computes units ``begin`` to ``end``; releases the GIL."""

Find = Callable[[Kernel], Entry]
"""Returns the machine code of a kernel that is known to be ready."""

LISTENING = 16000
"""Polls of a helper for more work before it sleeps: some 200 microseconds, longer than most unshared steps."""

WAITING = 40000
"""Polls of the leader for its helpers to finish before it falls back to polling every ``NOW_AND_THEN`` seconds."""

NOW_AND_THEN = 1e-4
"""Interval of the leader's slow polls, in seconds."""


class Task(NamedTuple):
    """A kernel and its units.

    Attributes:
        function: address of its machine code.
        is_float: whether its ``zero`` is a FLOAT32.
        geometry: its loops; kept alive by whatever is bound to them.
        units: number of units.
        grain: units in a piece.
        asked: pieces between two polls of ``stop``, at most some 10 ms of work.
    """

    function: int
    is_float: bool
    geometry: Any
    units: int
    grain: int
    asked: int


class _SharedWork(Protocol):
    """Work that helpers can take part in.

    Attributes:
        find: returns the kernels with which helpers poll for more work afterwards, unless they already do.
    """

    find: Find | None

    def help(self, memory: int, helper: int) -> None: ...


class Pool:
    """A fixed number of threads, including the calling one.

    Attributes:
        threads: their number.
        scratch: memory for the scratch data of jobs that share it; None if each has its own.
        shelf: what jobs keep for their next run.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.scratch: Scratch | None = None
        self.shelf = Shelf()
        self._tickets: SimpleQueue[_SharedWork | None] = SimpleQueue()
        self._memory = (ctypes.c_int64 * (sharing.MAILBOXES + sharing.MAILBOX * threads))()
        self._address = ctypes.addressof(self._memory)
        self._helpers = [
            threading.Thread(target=self._serve, args=(i,), name=f"opwire-cpu-{i + 1}", daemon=True)
            for i in range(threads - 1)
        ]
        self._core, self._avoided = _find_core(), -1
        for helper in self._helpers:
            helper.start()

    def with_scratch(self, scratch: Scratch) -> Pool:
        """Returns the same threads for jobs that never run at the same time, with memory for all of them."""
        other = copy(self)
        other.scratch = scratch
        return other

    def run(self, piece: Piece, units: int, grain: int, stop: Stop, find: Find | None = None) -> None:
        """Runs a Python function over units of work.

        Args:
            piece: computes a range of units.
            units: number of units.
            grain: units in a piece, at most some 10 ms of work.
            stop: polled before each piece.
            find: returns the kernels, if helpers should poll for more work afterwards: sleeping and waking up costs
                them up to a tenth of a millisecond, and they may wake up on the core of the thread that wakes them.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        if units <= grain:  # nothing to share
            if stop():
                raise Stopped
            piece(0, units)
            return
        work = _Pieces(piece, units, grain, stop, find)
        self._wake(work, self._wanted(units, grain))
        work.run()

    def each(self, work: Callable[[int], object], units: int, stop: Stop, grain: int = 1) -> None:
        """Runs a function of NumPy for each unit of work, without NumPy's warnings; see ``run``."""

        def piece(begin: int, end: int) -> None:
            with np.errstate(all="ignore"):
                for unit in range(begin, end):
                    work(unit)

        self.run(piece, units, grain, stop)

    def bind(self, task: Task, source: int, target: int, states: int, find: Find) -> Bound:
        """Prepares a kernel launch that can be repeated any number of times, but not concurrently.

        Args:
            task: the kernel and its units.
            source: address of the input.
            target: address of the output.
            states: address of what units leave for later steps.
            find: returns the kernels with which threads share work.

        Returns:
            A function that polls ``stop``, and raises Stopped if it returns True and MemoryError if the kernel could
            not allocate memory.
        """
        make = partial(_Units, task, (source, target, states), self._wanted(task.units, task.grain), find)
        units = make()

        def run(stop: Stop) -> None:
            nonlocal units
            if stop():
                raise Stopped
            shared = units
            missing = shared.start(self._address, len(self._helpers))
            if missing:
                # A helper woken late must not find the next run's work in this record.
                units = make()
                self._wake(shared, missing)
            shared.end(stop)

        return run

    def close(self) -> None:
        """Ends the threads."""
        for _ in self._helpers:
            self._tickets.put(None)
        for helper in self._helpers:
            helper.join()

    def _wanted(self, units: int, grain: int) -> int:
        """Returns how many helpers have something to do."""
        return min(len(self._helpers), -(-units // grain) - 1)

    def _wake(self, work: _SharedWork, helpers: int) -> None:
        """Wakes sleeping helpers; busy ones pick up the work when they finish first."""
        if helpers > 0:
            self._memory[sharing.TICKETS] = 1
            self._keep_off()
        for _ in range(helpers):
            self._tickets.put(work)

    def _keep_off(self) -> None:
        """Pins helpers to other cores than the caller's, on which they might have to wait for milliseconds."""
        if self._core is None:
            return
        core = self._core()
        if core != self._avoided:
            self._avoided = core
            others = os.sched_getaffinity(0) - {core}
            with suppress(OSError):
                for helper in self._helpers if others else ():
                    os.sched_setaffinity(helper.native_id or 0, others)

    def _serve(self, helper: int) -> None:
        while (work := self._tickets.get()) is not None:
            self._memory[sharing.TICKETS] = not self._tickets.empty()
            work.help(self._address, helper)
            find = work.find
            del work  # release the tensors: the next work may be long in coming
            if find is not None:
                find(sharing.SERVE).call(0, 0, self._address, helper, WAITING, 0, 0)


def _find_core() -> Callable[[], int] | None:
    """Returns a function that gives the current core's number, or None where affinity cannot be set."""
    return ctypes.PyDLL(None).sched_getcpu if sys.platform == "linux" else None


class _Units:
    """Units of a kernel, in a record from which threads take them without Python."""

    find: Find | None = None

    def __init__(self, task: Task, places: tuple[int, int, int], helpers: int, find: Find) -> None:
        self._task = task
        self._helpers = helpers
        self._start, self._lead, self._serve = (find(kernel).call for kernel in sharing.KERNELS)
        parties = helpers + 1
        part = -(-task.units // (parties * task.grain)) * task.grain
        geometry, _ = task.geometry.buffer_info()
        self._record = (ctypes.c_int64 * (sharing.NEXT + sharing.APART * parties))(
            task.function, task.is_float, *places, geometry, task.units, task.grain, parties, part
        )
        self._address = ctypes.addressof(self._record)

    def start(self, memory: int, helpers: int) -> int:
        """Starts the work if enough of the pool's helpers are polling; returns how many more it could use."""
        self._start(0, self._address, memory, helpers, self._task.asked, WAITING, 0)
        return self._helpers - self._record[sharing.OFFERED]

    def help(self, memory: int, helper: int) -> None:
        self._serve(0, self._address, memory, helper, LISTENING, 0, 0)

    def end(self, stop: Stop) -> None:
        """Takes part until all units are taken or ``stop`` returns True, then waits for the helpers."""
        record, stopped = self._record, False
        try:
            while not stopped and not record[sharing.TAKEN]:
                stopped = stop()
                if not stopped:
                    self._lead(0, self._address, self._task.asked, WAITING, 0, 0, 0)
        finally:
            if not record[sharing.TAKEN]:
                for party in range(self._helpers + 1):
                    record[sharing.NEXT + sharing.APART * party] = self._task.units
                # Its atomic operations ensure that a helper not counted yet finds no units left.
                self._lead(0, self._address, 1, WAITING, 0, 0, 0)
            while record[sharing.HELPERS]:
                time.sleep(NOW_AND_THEN)
        if stopped:
            raise Stopped
        if record[sharing.FAILED]:
            raise MemoryError


class _Pieces:
    """Pieces of work done by a Python function; free threads take them one by one."""

    def __init__(self, piece: Piece, units: int, grain: int, stop: Stop, find: Find | None) -> None:
        self.find = find
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
        """Runs pieces until none are left, one fails, or the work is stopped."""
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
        """Takes part on a thread other than the caller's, unless the work is already over."""
        with self._lock:
            if self._over:
                return
            self._helping += 1
        self.take_part()
        with self._idle:
            self._helping -= 1
            self._idle.notify()

    def run(self) -> None:
        """Takes part, waits for the helpers, and raises the first failure, if any."""
        self.take_part()
        with self._idle:
            self._over = True
            while self._helping:
                self._idle.wait()
        failure, self._failure = self._failure, None  # breaks the cycle: a failure's frames hold self and the tensors
        try:
            if failure is not None:
                raise failure
        finally:
            del failure
