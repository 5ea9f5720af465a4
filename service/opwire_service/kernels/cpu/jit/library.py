"""The machine code of the kernels as far as it is ready, loaded from disk or compiled aside of all requests."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterable
from queue import SimpleQueue

from .compiler import Entry, Kernel


class Library:
    """Loads what the cache holds at once, and compiles what is asked for besides, on a thread of its own.

    Compiling happens in another process, because it would hold the GIL for seconds; that process fills the cache, from
    which the thread then loads. Only where the cache cannot be written does the thread compile.
    """

    def __init__(self, kernels: tuple[Kernel, ...]) -> None:
        self._kernels = kernels
        self._entries: dict[Kernel, Entry] = {}
        self._asked: set[Kernel] = set()
        self._queue: SimpleQueue[tuple[Kernel, ...] | None] = SimpleQueue()
        self._compiler: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="opwire-cpu-library", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Kernels that are ready."""
        return len(self._entries)

    @property
    def is_complete(self) -> bool:
        """Whether every kernel is ready."""
        return len(self._entries) == len(self._kernels)

    def ready(self, kernels: Iterable[Kernel]) -> bool:
        """Whether all of some kernels are ready."""
        return all(kernel in self._entries for kernel in kernels)

    def find(self, kernel: Kernel) -> Entry:
        """The machine code of a kernel that is ready."""
        return self._entries[kernel]

    def ask(self, kernels: tuple[Kernel, ...]) -> None:
        """Sees to it that some kernels become ready."""
        missing = tuple(kernel for kernel in kernels if kernel not in self._entries and kernel not in self._asked)
        if missing:
            self._asked.update(missing)
            self._queue.put(missing)

    def wait(self) -> None:
        """Asks for every kernel and waits until all are ready: minutes where the cache is empty."""
        self.ask(self._kernels)
        with self._changed:
            self._changed.wait_for(lambda: self.is_complete or self._closed)

    def close(self) -> None:
        """Ends the thread, and the process if one is compiling."""
        self._closed = True
        self._queue.put(None)
        compiler = self._compiler
        if compiler is not None:
            compiler.terminate()
        self._thread.join()

    def _serve(self) -> None:
        for kernel in self._kernels:
            if self._closed:
                return
            if kernel.is_cached():
                self._add(kernel)
        while (wanted := self._queue.get()) is not None:
            missing = [kernel for kernel in wanted if kernel.is_kept and not kernel.is_cached()]
            if missing:
                self._compile_elsewhere(missing)
            for kernel in wanted:
                if self._closed:
                    return
                self._add(kernel)

    def _add(self, kernel: Kernel) -> None:
        entry = kernel.compile()
        with self._changed:
            self._entries[kernel] = entry
            self._changed.notify_all()

    def _compile_elsewhere(self, kernels: list[Kernel]) -> None:
        command = [sys.executable, "-m", "opwire_service.kernels.cpu.warmup", *(kernel.name for kernel in kernels)]
        self._compiler = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        if self._closed:
            self._compiler.terminate()
        self._compiler.wait()
        self._compiler = None
