"""opwire's server under test: its workers, its log and its gauges."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from ..processes import PROC, Server, ServerFailed, running

_SETTLES_WITHIN = 30.0
_CONTEXT_LINES = 30
"""Log lines that are shown, from one on that indicates a defect."""

_GAUGES = ("opwire_queued_operators", "opwire_running_operators", "opwire_request_memory_bytes")
_WORKERS = "opwire_workers"
_SAMPLE = re.compile(r"^(\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


class Served:
    """A running server, with ``workers`` worker processes."""

    def __init__(self, server: Server, workers: int) -> None:
        self.server, self.url = server, server.url
        self._workers = workers

    def kill_worker(self, number: int) -> None:
        """Kills one of the workers."""
        workers = [process for process in self.server.ids() if "spawn_main" in _command(process)]
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(workers[number % len(workers)], signal.SIGKILL)

    def resident_at_rest(self, seconds: float) -> int:
        """Returns the memory once all workers are up and nothing has happened for ``seconds``.

        The server returns freed memory within five seconds. It does not report when, and polling it would be work.
        """
        self._until(lambda: self._metrics(_WORKERS)[_WORKERS] >= self._workers)
        self.gauges()
        time.sleep(seconds)
        return self.server.memory("VmRSS")

    def gauges(self) -> dict[str, float]:
        """Returns the numbers of waiting and running operators, and the memory held by requests, which all become 0."""
        self._until(lambda: not any(self._metrics(*_GAUGES).values()))
        return self._metrics(*_GAUGES)

    def limits(self) -> dict[str, int]:
        """Returns the limits that it reports."""
        limits: dict[str, int] = httpx.get(f"{self.url}/v1/server", timeout=10, trust_env=False).json()["limits"]
        return limits

    def logged(self) -> int:
        """Returns the bytes of its log."""
        return self.server.log.stat().st_size

    def defects(self) -> list[str]:
        """Returns the lines of its log that indicate the first defect."""
        lines = self.server.log.read_text(errors="backslashreplace").splitlines()
        found = (i for i, line in enumerate(lines) if "Traceback" in line or "internal_error" in line)
        first = next(found, len(lines))
        return lines[first : first + _CONTEXT_LINES]

    def _metrics(self, *names: str) -> dict[str, float]:
        text = httpx.get(f"{self.url}/metrics", timeout=10, trust_env=False).text
        found = dict.fromkeys(names, 0.0)
        for name, value in _SAMPLE.findall(text):
            if name in found:
                found[name] += float(value)
        return found

    def _until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + _SETTLES_WITHIN
        while not condition() and time.monotonic() < end:
            time.sleep(0.1)


def _command(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(PROC, str(process), "cmdline").read_text()
    return ""


def _ask(server: Server) -> None:
    try:
        httpx.get(f"{server.url}/readyz", timeout=10, trust_env=False).raise_for_status()
    except httpx.HTTPError as error:
        raise ServerFailed(str(error)) from error


@contextlib.contextmanager
def served(workers: int = 1) -> Iterator[Served]:
    """Runs a server while the context lasts."""
    command = [sys.executable, "-m", "opwire_service", "serve", "--workers", str(workers), "--log-level", "info"]
    with running(lambda port: [*command, "--port", str(port)], _ask) as server:
        yield Served(server, workers)
