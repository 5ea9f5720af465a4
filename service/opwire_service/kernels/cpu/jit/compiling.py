"""A process that compiles kernels into the cache on disk, one by one as they are asked for, and ends with its parent.

Compiling is a matter of seconds, in which Python code holds the GIL: not in a process that answers requests.
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


class CompilingFailed(Exception):
    """A kernel was not compiled; the message says why."""


class CompilingProcess:
    """The parent's side; used by one thread, but for ``close``.

    Args:
        module: that calls ``serve`` when it is run.
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
        """Compiles the kernel of a name, in a process that is started if there is none.

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
        """Starts the process, if there is none: it is ready sooner then when it has something to compile."""
        with suppress(CompilingFailed, OSError):
            self._started()

    def end(self) -> None:
        """Ends the process, if there is one; the next kernel starts another."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError):
                process.communicate()

    def close(self) -> None:
        """Ends the process, and lets none start again; for any thread."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def _started(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._closed:
                raise CompilingFailed("nothing is compiled any more")
            if self._process is None:
                # In a session of its own it is not told of Ctrl+C, of which its parent tells it by going away.
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
                )
            return self._process


def only_compile() -> None:
    """Makes numba faster in a process that does nothing but compile, which takes a quarter less time then.

    Numba runs clocks for every function that is compiled within another one, and most of what it makes it keeps, so
    that there is little garbage to collect.
    """
    gc.set_threshold(100_000, 20, 20)
    events: Any = event
    events.install_timer = lambda *_: nullcontext()


def serve(kernels: Mapping[str, Kernel]) -> None:
    """The process itself: compiles the kernels whose names come, one a line, until the other end is closed."""
    only_compile()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed is no answer
    names: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(names,), daemon=True).start()
    while True:
        print(_compiled(kernels, names.get()), file=answers, flush=True)


def _listen(names: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        names.put(line.strip())
    os._exit(0)  # whatever is being compiled: nobody waits for it any more


def _compiled(kernels: Mapping[str, Kernel], name: str) -> str:
    try:
        kernels[name].compile_into_cache()
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ")
    return DONE
