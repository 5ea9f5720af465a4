"""A server in processes of its own: started on a free port, watched through /proc, and stopped."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PROC = Path("/proc")
STARTS_WITHIN = 180.0
ENDS_WITHIN = 15.0
RESTS_WITHIN = 60.0
_SAMPLE_SECONDS = 0.5
_IDLE_SHARE = 0.05
"""Sampling interval in seconds, and the CPU seconds per second below which a server counts as idle."""
_MARK = "OPWIRE_BENCHMARK"
_TICKS = os.sysconf("SC_CLK_TCK")


class ServerFailed(Exception):
    """A server did not start or did not answer; the message has the details."""


class Server:
    """A started server. All its processes carry a mark in their environment, by which they are found.

    Attributes:
        port: the port that it listens on; the next one is free, too.
        url: its URL.
        log: the file with what it printed.
    """

    def __init__(self, command: Callable[[int], Sequence[str]], environment: Mapping[str, str], folder: Path) -> None:
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "server.log"
        mark = secrets.token_hex(8)
        self._mark = f"{_MARK}={mark}".encode()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command(self.port), cwd=folder, env={**os.environ, **environment, _MARK: mark},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def wait(self, ask: Callable[[Server], object]) -> None:
        """Waits until a question is answered.

        Raises:
            ServerFailed: the server exits, or does not answer in time.
        """
        end = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                ask(self)
            except ServerFailed as error:
                words = self.log.read_bytes()[-600:].decode(errors="replace").strip()
                if self._process.poll() is not None:
                    raise ServerFailed(f"ended with {self._process.returncode}: {words}") from None
                if time.monotonic() > end:
                    raise ServerFailed(f"not ready within {STARTS_WITHIN:g} s: {error}; {words}") from None
                time.sleep(0.1)
            else:
                return

    def ids(self) -> Iterator[int]:
        """Yields the ids of its processes."""
        for process in PROC.iterdir():
            if process.name.isdigit():
                with contextlib.suppress(OSError):
                    if self._mark in (process / "environ").read_bytes().split(b"\0"):
                        yield int(process.name)

    def cpu_seconds(self) -> float:
        """Returns the CPU time used by all its processes, with that of their children that have ended."""
        ticks = 0
        for process in self.ids():
            with contextlib.suppress(OSError):
                fields = (PROC / f"{process}/stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))
        return ticks / _TICKS

    def rest(self) -> None:
        """Waits until the server is idle: some already answer while they load more in the background."""
        end, before = time.monotonic() + RESTS_WITHIN, self.cpu_seconds()
        while time.monotonic() < end:
            time.sleep(_SAMPLE_SECONDS)
            now = self.cpu_seconds()
            if now - before < _IDLE_SHARE * _SAMPLE_SECONDS:
                return
            before = now

    def memory(self, field: str) -> int:
        """Returns bytes summed over all its processes: ``VmRSS`` now, ``VmHWM`` for the peaks since ``reset_peak``.

        Shared memory counts once per process.
        """
        kibibytes = 0
        for process in self.ids():
            with contextlib.suppress(OSError):
                lines = (PROC / f"{process}/status").read_text().splitlines()
                kibibytes += sum(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
        return kibibytes * 1024

    def reset_peak(self) -> None:
        """Resets ``VmHWM``."""
        for process in self.ids():
            with contextlib.suppress(OSError):
                (PROC / f"{process}/clear_refs").write_text("5")

    def stop(self) -> None:
        """Stops all its processes."""
        self._signal(signal.SIGTERM)
        end = time.monotonic() + ENDS_WITHIN
        while self._process.poll() is None or any(self.ids()):
            if time.monotonic() > end:
                self._signal(signal.SIGKILL)
            time.sleep(0.1)

    def _signal(self, number: signal.Signals) -> None:
        for process in list(self.ids()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)


def _free_port() -> int:
    """Returns a free port whose successor is free, too."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port


@contextmanager
def running(
    command: Callable[[int], Sequence[str]],
    ask: Callable[[Server], object],
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Runs a server in a working folder of its own while the context lasts; both are removed afterwards.

    Args:
        command: returns the command for a port.
        ask: asks a question, and raises ServerFailed unless it is answered.
        environment: additional environment variables.

    Raises:
        ServerFailed: the question is not answered.
    """
    with tempfile.TemporaryDirectory(prefix="opwire-", ignore_cleanup_errors=True) as folder:
        server = Server(command, environment or {}, Path(folder))
        try:
            server.wait(ask)
            yield server
        finally:
            server.stop()
