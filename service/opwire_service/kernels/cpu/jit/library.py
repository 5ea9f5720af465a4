"""The kernels' machine code as far as it is ready: loaded from disk, or compiled in separate processes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from queue import Empty, PriorityQueue

from ....execution import Stop, Stopped
from .compiler import Entry, Kernel
from .compiling import CompilingFailed, CompilingProcess

log = logging.getLogger("opwire")

COMPILERS = 2
"""Number of compiler processes, which take some 200 MB each."""

IDLE = 60.0
"""Seconds without work after which a compiler process ends."""

ATTEMPTS = 2
"""Attempts at compiling a kernel."""

_ASKS_EVERY = 0.02
"""Seconds between two polls of ``stop`` while waiting for kernels."""

CLOSE, START, WANTED, AHEAD = range(4)
"""Priorities in the queue, most urgent first: the library closes; a process should start because kernels will follow; a
request waits for the kernels; they should be ready ahead of requests."""


class Library:
    """Loads requested kernels from the cache and compiles missing ones, those that requests wait for first.

    Only requested kernels are loaded or compiled: loading all of them takes seconds, one some 20 ms. Where the cache
    cannot be written, kernels are compiled in this process, on a thread that competes with requests for the GIL.

    Args:
        kernels: every kernel there is.
        module: module that compiles them by name, see ``CompilingProcess``.
        first: kernels that every request needs. One process compiles them while another merely starts, so that the
            latter is free for what the first request waits for.
    """

    def __init__(self, kernels: tuple[Kernel, ...], module: str, first: tuple[Kernel, ...] = ()) -> None:
        self._kernels = kernels
        self._entries: dict[Kernel, Entry] = {}
        self._failed: set[Kernel] = set()
        self._asked: dict[Kernel, int] = {}
        self._compiling: set[Kernel] = set()
        self._uncached: set[Kernel] = set()
        self._occupied = 0  # threads that cannot load kernels, as a kernel is being compiled
        self._count = 0
        self._queue: PriorityQueue[tuple[int, int, tuple[Kernel, ...]]] = PriorityQueue()
        self._closed = False
        self._changed = threading.Condition()
        self._asked.update(dict.fromkeys(first, WANTED))
        self._put(WANTED, first)
        self._processes = [CompilingProcess(module) for _ in range(COMPILERS)]
        self._threads = [
            threading.Thread(target=self._serve, args=(process,), name=f"opwire-cpu-library-{i}", daemon=True)
            for i, process in enumerate(self._processes)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        """Returns the number of kernels that are ready."""
        return len(self._entries)

    def ready(self, kernels: Iterable[Kernel]) -> bool:
        """Whether all the given kernels are ready."""
        return all(map(self._entries.__contains__, kernels))

    def find(self, kernel: Kernel, stop: Stop = lambda: False) -> Entry:
        """Returns the machine code of a kernel, compiling it before all others if it is not ready.

        Raises:
            CompilingFailed: it cannot be compiled.
            Stopped: ``stop()`` returned True.
        """
        found = self._entries.get(kernel)
        if found is not None:
            return found
        if not self.obtain((kernel,), stop):
            raise CompilingFailed(f"{kernel.name} cannot be compiled")
        return self._entries[kernel]

    def ask(self, kernels: Iterable[Kernel], urgency: int = WANTED) -> None:
        """Queues kernels that are not ready yet, or raises their priority."""
        with self._changed:
            for kernel in kernels:
                if kernel not in self._entries and (kernel not in self._asked or self._asked[kernel] > urgency):
                    self._asked[kernel] = urgency
                    self._put(urgency, (kernel,))

    def obtain(self, kernels: Iterable[Kernel], stop: Stop) -> bool:
        """Waits until kernels are ready or one of them has failed; returns whether they are ready.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        wanted = tuple(kernels)
        self.ask(wanted)
        return self._await(wanted, stop, lambda: False)

    def load(self, kernels: Iterable[Kernel], stop: Stop) -> bool:
        """Requests kernels for later and returns whether they are ready.

        From the second time on, it waits for kernels that only need to be loaded: that takes a tenth of a second if the
        caller waits, but many seconds if it goes on computing in Python, as that leaves the GIL to others for moments.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        wanted = tuple(kernels)
        is_first = not self._asked.keys() >= {*wanted}
        self.ask(wanted)
        if is_first:
            return False
        return self._await(wanted, stop, lambda: self._occupied >= COMPILERS or not self._uncached.isdisjoint(wanted))

    def _await(self, wanted: Collection[Kernel], stop: Stop, gives_up: Callable[[], bool]) -> bool:
        """Waits until kernels are ready; returns False if it gives up or one of them has failed."""
        with self._changed:
            while not self.ready(wanted):
                if self._closed or gives_up() or not self._failed.isdisjoint(wanted):
                    return False
                if stop():
                    raise Stopped
                self._changed.wait(_ASKS_EVERY)
        return True

    def wait(self) -> None:
        """Requests every kernel and waits until all are compiled: a minute or two if none is cached."""
        self.ask(self._kernels, AHEAD)
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._entries) + len(self._failed) >= len(self._kernels))

    def close(self) -> None:
        """Ends the threads and processes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for process in self._processes:
            process.close()
            self._put(CLOSE, ())
        for thread in self._threads:
            thread.join()

    def _put(self, urgency: int, kernels: tuple[Kernel, ...]) -> None:
        self._count += 1
        self._queue.put((urgency, self._count, kernels))

    def _serve(self, process: CompilingProcess) -> None:
        while not self._closed:
            try:
                urgency, _, kernels = self._queue.get(timeout=IDLE if process.is_running else None)
            except Empty:
                process.end()
                continue
            missing = [kernel for kernel in kernels if kernel not in self._entries]
            if urgency == START:
                process.start()
            else:
                if len(missing) > 1 and not all(kernel.is_cached() for kernel in missing):
                    self._put(START, ())
                for kernel in missing:
                    self._compile(kernel, process)
        process.end()

    def _compile(self, kernel: Kernel, process: CompilingProcess) -> None:
        """Makes a kernel ready, unless the other thread is already compiling it."""
        with self._changed:
            if kernel in self._compiling:
                return
            self._compiling.add(kernel)
        try:
            if kernel.is_cached():
                self._add(kernel)
            else:
                with self._occupying(kernel):
                    if kernel.is_kept:
                        self._compile_beside(kernel, process)
                    self._add(kernel)
        except Exception as error:
            with self._changed:
                self._failed.add(kernel)
                self._changed.notify_all()
            if not self._closed:
                log.warning("%s cannot be compiled, so the reference stands in for it: %s", kernel.name, error)

    @contextmanager
    def _occupying(self, kernel: Kernel) -> Generator[None]:
        """Marks a kernel as one that has to be compiled."""
        threads = 1 if kernel.is_kept else COMPILERS  # compiling in this process keeps all threads from loading
        with self._changed:
            self._uncached.add(kernel)
            self._occupied += threads
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._occupied -= threads

    def _compile_beside(self, kernel: Kernel, process: CompilingProcess) -> None:
        """Compiles a kernel in the compiler process, unless it is cached; retries if that process dies."""
        for attempts_left in reversed(range(ATTEMPTS)):
            if kernel.is_cached():
                return
            started = time.perf_counter()
            try:
                process.compile(kernel.name)
            except CompilingFailed:
                if self._closed or not attempts_left:
                    raise
            else:
                log.info("compiled %s in %.1f s", kernel.name, time.perf_counter() - started)
                return

    def _add(self, kernel: Kernel) -> None:
        entry = kernel.compile()
        with self._changed:
            self._entries[kernel] = entry
            self._changed.notify_all()
