"""A process that compiles kernels into the on-disk cache, one at a time on request, and ends with its parent.

Compiling takes seconds, during which Python code holds the GIL, so it does not happen in a process that serves
requests.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from queue import SimpleQueue
from typing import Any

from numba.core import event

from .compiler import Kernel

DONE = "done"
"""The process's answer after compiling a kernel; any other answer is an error message."""


class CompilingFailed(Exception):
    """A kernel was not compiled; the message says why."""


class CompilingProcess:
    """The parent's handle on a compiler process. For use by one thread, except for ``close``.

    Args:
        module: module that calls ``serve`` when run.
    """

    def __init__(self, module: str) -> None:
        self._command = [sys.executable, "-m", module]
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def compile(self, name: str) -> None:
        """Compiles a kernel by name, starting the process if necessary.

        Raises:
            CompilingFailed: the kernel cannot be compiled, or the process died or was closed.
        """
        process = self._started()
        answer = ""
        with suppress(OSError, ValueError):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
            answer = process.stdout.readline().rstrip("\n")
        if not answer:
            self.end()
            raise CompilingFailed(f"the process ended with {process.returncode}")
        if answer != DONE:
            raise CompilingFailed(answer)

    def start(self) -> None:
        """Starts the process if it is not running, so that it is ready sooner when a kernel has to be compiled."""
        with suppress(CompilingFailed, OSError):
            self._started()

    def end(self) -> None:
        """Ends the process if it is running; the next kernel starts a new one."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError):
                process.communicate()

    def close(self) -> None:
        """Ends the process for good. Thread-safe."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def _started(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._closed:
                raise CompilingFailed("nothing is compiled any more")
            if self._process is None:
                # In its own session it does not receive Ctrl+C; it ends when its parent closes the pipe.
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
                )
            return self._process


def only_compile() -> None:
    """Tunes numba for a process that only compiles, which saves a quarter of the time.

    Numba times every function compiled within another one, and it keeps most of what it allocates, so garbage
    collection finds little.
    """
    gc.set_threshold(100_000, 20, 20)
    events: Any = event
    events.install_timer = lambda *_: nullcontext()


def serve(kernels: Mapping[str, Kernel]) -> None:
    """Main loop of the process: compiles the kernels named on standard input, one per line, until it is closed."""
    only_compile()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # anything else printed must not be taken for an answer
    names: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(names,), daemon=True).start()
    while True:
        print(_compiled(kernels, names.get()), file=answers, flush=True)


def _listen(names: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        names.put(line.strip())
    os._exit(0)  # exit even in the middle of a compilation: nobody is waiting for it


def _compiled(kernels: Mapping[str, Kernel], name: str) -> str:
    try:
        kernels[name].compile_into_cache()
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ")
    return DONE
