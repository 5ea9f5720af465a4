"""A running server: started, watched with all its processes through /proc, and stopped."""

from __future__ import annotations

import contextlib
import http.client
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from .. import processes
from .contender import Contender, Reply, Request, Start
from .venvs import Installed

PROC = Path("/proc")
STARTS_WITHIN = 180.0
ENDS_WITHIN = 15.0
ANSWERS_WITHIN = 120.0
RESTS_WITHIN = 30.0
_SAMPLE_SECONDS = 0.5
_IDLE_SHARE = 0.05
"""Sampling interval in seconds, and the CPU seconds per second below which a server counts as idle."""
_MARK = "OPWIRE_BENCHMARK"


class ServerFailed(Exception):
    """A server did not start or did not answer; the message has the details."""


def free_port() -> int:
    """Returns a free port whose successor is free, too."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port


class Server:
    """A started server. All its processes carry a mark in their environment, by which they are found."""

    def __init__(self, contender: Contender, installed: Installed, device: str, folder: Path) -> None:
        self.title = contender.title
        self.port = free_port()
        self._log = folder / "server.log"
        self._mark = f"{_MARK}={secrets.token_hex(8)}"
        name, _, value = self._mark.partition("=")
        command = contender.command(Start(installed.python, self.port, device))
        environment = {
            **os.environ,
            "PATH": f"{installed.python.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            **contender.environment,
            name: value,
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def post(self, request: Request) -> Reply:
        """Sends a request and returns its answer.

        Raises:
            ServerFailed: there is no answer, or its status is not 200.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWERS_WITHIN)
        try:
            connection.request("POST", request.path, request.content(), dict(request.headers))
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerFailed(f"no answer: {error!r}") from error
        finally:
            connection.close()
        if response.status != 200:
            raise ServerFailed(f"status {response.status}: {body[:300].decode(errors='replace')}")
        return Reply({name.lower(): value for name, value in response.getheaders()}, body)

    def wait(self, request: Request) -> None:
        """Waits until the server answers a request.

        Raises:
            ServerFailed: the server exits, or does not answer in time.
        """
        end = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                self.post(request)
            except ServerFailed as error:
                if self._process.poll() is not None:
                    raise ServerFailed(f"ended with {self._process.returncode}: {self._last_words()}") from None
                if time.monotonic() > end:
                    words = self._last_words()
                    raise ServerFailed(f"not ready within {STARTS_WITHIN:g} s: {error}; {words}") from None
                time.sleep(0.1)
            else:
                return

    def _last_words(self) -> str:
        return self._log.read_bytes()[-600:].decode(errors="replace").strip()

    def ids(self) -> Iterator[int]:
        """Yields the ids of its processes."""
        mark = self._mark.encode()
        for process in PROC.iterdir():
            if process.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (process / "environ").read_bytes().split(b"\0"):
                        yield int(process.name)

    def cpu_seconds(self) -> float:
        """Returns the CPU time used by all its processes."""
        return processes.cpu_seconds(self.ids())

    def rest(self) -> None:
        """Waits until the server is idle: some already answer while they load more in the background."""
        end = time.monotonic() + RESTS_WITHIN
        before = self.cpu_seconds()
        while time.monotonic() < end:
            time.sleep(_SAMPLE_SECONDS)
            now = self.cpu_seconds()
            if now - before < _IDLE_SHARE * _SAMPLE_SECONDS:
                return
            before = now

    def memory(self, field: str) -> int:
        """Returns bytes summed over all its processes, see ``processes.memory``."""
        return processes.memory(self.ids(), field)

    def reset_peak(self) -> None:
        """Resets ``VmHWM``."""
        processes.reset_peak(self.ids())

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


@contextmanager
def running(contender: Contender, installed: Installed, device: str, first: Request) -> Generator[Server]:
    """Runs a server in its own working folder while the context lasts; both are removed afterwards.

    Raises:
        ServerFailed: it does not answer the first request.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"opwire-{contender.name}-"))
    try:
        server = Server(contender, installed, device, folder)
        try:
            server.wait(first)
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
