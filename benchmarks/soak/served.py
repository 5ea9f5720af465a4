"""The server under test: its processes with their memory and files, its log and its gauges."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from .. import processes

_STARTS_WITHIN = 60.0
_IDLE_WITHIN = 90.0
_SAMPLE_SECONDS = 0.5
_IDLE_SHARE = 0.1
"""Seconds between two samples of CPU time, and the share of a core below which it counts as idle."""

_PR_SET_PDEATHSIG = 1
"""The ``prctl`` option for the signal that a process receives when its parent dies."""

_CONTEXT_LINES = 30
"""Log lines kept after one that indicates a defect."""

_GAUGES = ("opwire_queued_operators", "opwire_running_operators", "opwire_request_memory_bytes")
_WORKERS = "opwire_workers"
_SAMPLE = re.compile(r"^(\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


class Served:
    """A running server.

    Attributes:
        url: its URL.
        defects: log lines that indicate a defect, each with the lines after it.
        log_bytes: bytes that it has logged.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.url = ""
        self.defects: list[str] = []
        self.log_bytes = 0
        self._process = process
        self._ready = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        if not self._ready.wait(_STARTS_WITHIN) or not self.url:
            raise RuntimeError("the server did not start")

    def _read(self) -> None:
        assert self._process.stderr is not None
        behind = 0
        for line in self._process.stderr:
            self.log_bytes += len(line)
            found = re.search(r"ready at (\S+)", line)
            if found and not self.url:
                self.url = found[1]
                self._ready.set()
            behind = _CONTEXT_LINES if "Traceback" in line or "internal_error" in line else behind - 1
            if behind > 0:
                self.defects.append(line.rstrip())
        self._ready.set()

    def workers(self) -> list[int]:
        """Returns the ids of the worker processes."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [int(child) for child in children if "spawn_main" in _command(child)]

    def kill_worker(self, number: int) -> None:
        """Kills one of the workers."""
        workers = self.workers()
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(workers[number % len(workers)], signal.SIGKILL)

    def processes(self) -> tuple[int, ...]:
        """Returns the ids of the main process and the workers."""
        return self._process.pid, *self.workers()

    def resident(self) -> int:
        """Returns the resident memory of all its processes, in bytes."""
        return processes.memory(self.processes(), "VmRSS")

    def reset_peak(self) -> None:
        """Resets ``peak``."""
        processes.reset_peak(self.processes())

    def peak(self) -> int:
        """Returns the peak memory of its processes since ``reset_peak``, each at its own peak, in bytes."""
        return processes.memory(self.processes(), "VmHWM")

    def resident_at_rest(self, seconds: float, workers: int = 1) -> int:
        """Returns ``resident`` once ``workers`` workers are up and nothing has happened for ``seconds``.

        The server returns freed memory within five seconds. It does not report when, and polling it would be work.
        """
        self.wait_complete(workers)
        self.settled()
        time.sleep(seconds)
        return self.resident()

    def gauges(self) -> dict[str, float]:
        """Returns the numbers of waiting and running operators, and the memory held by requests."""
        return self._metrics(*_GAUGES)

    def limits(self) -> dict[str, int]:
        """Returns the limits that it reports."""
        with urlopen(f"{self.url}/v1/server", timeout=10) as answer:
            told: dict[str, Any] = json.load(answer)
        limits: dict[str, int] = told["limits"]
        return limits

    def wait_idle(self) -> None:
        """Waits until its processes are idle: after the start they may prepare what they need later."""
        ends = time.monotonic() + _IDLE_WITHIN
        before = processes.cpu_seconds(self.processes())
        while time.monotonic() < ends:
            time.sleep(_SAMPLE_SECONDS)
            now = processes.cpu_seconds(self.processes())
            if now - before < _IDLE_SHARE * _SAMPLE_SECONDS:
                return
            before = now

    def wait_complete(self, workers: int) -> None:
        """Waits until ``workers`` workers are ready."""
        end = time.monotonic() + _STARTS_WITHIN
        while self._metrics(_WORKERS)[_WORKERS] < workers and time.monotonic() < end:
            time.sleep(0.1)

    def _metrics(self, *names: str) -> dict[str, float]:
        with urlopen(f"{self.url}/metrics", timeout=10) as answer:
            text = str(answer.read(), "utf-8")
        found = dict.fromkeys(names, 0.0)
        for name, value in _SAMPLE.findall(text):
            if name in found:
                found[name] += float(value)
        return found

    def settled(self, within: float = 10.0) -> dict[str, float]:
        """Returns the gauges once they are all 0, or when the time is up."""
        end = time.monotonic() + within
        while any((found := self.gauges()).values()) and time.monotonic() < end:
            time.sleep(0.1)
        return found


def _command(process: str) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text()
    return ""


@contextlib.contextmanager
def apart() -> Iterator[Callable[[], None]]:
    """Reserves one of several cores for whoever calls the yielded function; earlier processes get the rest."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) == 1:
        yield lambda: None
        return
    os.sched_setaffinity(0, cores[1:])
    try:
        yield lambda: os.sched_setaffinity(0, cores[:1])
    finally:
        os.sched_setaffinity(0, cores)


def _end_with_the_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[Served]:
    """Runs a server on a free port while the context lasts; it also stops if this process is killed."""
    command = [sys.executable, "-m", "opwire_service", "serve", "--port", "0", *arguments]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        preexec_fn=_end_with_the_parent,
    ) as process:
        try:
            yield Served(process)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
