"""Servers in processes of their own, started as users start them."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from tests.support.paths import ROOT

WITHIN = 120.0
"""Timeout in seconds, generous enough for a busy machine."""


class Served:
    """A running server.

    Attributes:
        process: The command's process.
        url: The address it printed.
        lines: The lines it has printed so far.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        until(lambda: bool(self._found()) or self._ended.is_set())
        if not self._found():
            self.finish()
            raise RuntimeError("".join(self.lines))
        self.url = self._found()[0]

    def _found(self) -> list[str]:
        return [found[1] for line in list(self.lines) if (found := re.search(r"ready at (https?://[\w.:\[\]]+)", line))]

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))
        self._ended.set()

    def finish(self) -> int:
        """Waits for the process to end and returns the exit code."""
        code = self.process.wait(WITHIN)
        self._reader.join(WITHIN)
        return code


@contextlib.contextmanager
def process(*arguments: str, env: Mapping[str, str] | None = None, module: str = "opwire_service") -> Iterator[Served]:
    """Runs a server on a free port, and kills it at the end if it still runs.

    Args:
        module: The module to run.
    """
    command = [sys.executable, "-m", module, "serve", "--port", "0", *arguments]
    environment = {**os.environ, **(env or {})}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as started:
        try:
            served = Served(started)
            yield served
            started.kill()
            served.finish()
        finally:
            started.kill()


def until(condition: Callable[[], bool], within: float = WITHIN) -> float:
    """Waits for a condition and returns the seconds that it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < within, f"the condition did not hold within {within:.0f} s"
        time.sleep(0.005)  # some of the states that tests wait for are brief
    return time.monotonic() - began
