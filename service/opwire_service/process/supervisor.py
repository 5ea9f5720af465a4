"""Supervisor of several worker processes on one address: replaces those that die or hang, and drains them at the end.

A worker reports over a pipe that it is ready, and stops when the other end of the pipe closes, so no worker outlives
its supervisor, however that ends.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from ..settings import Settings
from ..telemetry.declarations import WORKER_RESTARTS
from ..telemetry.metrics import Metrics
from .application import layout
from .logging import configure
from .memory_trim import freeze_heap
from .server import HttpServer, address, announce
from .signals import reload_on_signal, stop_on_signals
from .sockets import SPREAD, bind_shared

_FIRST_PAUSE, _MAX_PAUSE = 0.1, 10.0
_BEYOND_DRAIN = 5.0
"""Time between the end of the grace period and the killing of a worker, in seconds."""

_MISSED_HEARTBEATS = 4
"""Number of successive checks without a heartbeat after which a worker is considered hung."""

FAILED = 3
"""Exit code of a worker that stopped because a device failed."""

log = logging.getLogger("opwire")

_spawn = get_context("spawn")


@dataclass(slots=True)
class _Worker:
    """A worker process.

    Attributes:
        process: the process.
        pipe: the supervisor's end of its pipe.
        ready: whether it has reported that it is ready.
        beats: number of heartbeats at the last check.
        silent: number of checks since the last heartbeat.
    """

    process: SpawnProcess
    pipe: Connection
    ready: bool = False
    beats: int = 0
    silent: int = 0


class Supervisor:
    """Keeps ``settings.workers`` worker processes serving until SIGINT or SIGTERM.

    Args:
        settings: settings of the server.
        sockets: the sockets that reserve its address.

    Raises:
        OSError, ValueError: a file named in the settings cannot be read or is invalid.
    """

    def __init__(self, settings: Settings, sockets: Sequence[socket.socket]) -> None:
        HttpServer(settings)  # reports invalid settings once, rather than in each worker
        self._settings = settings
        self._sockets = sockets
        cells = layout(settings)
        self._memory = SharedMemory(create=True, size=(settings.workers + 1) * cells.row_bytes())
        self._metrics = Metrics(cells, self._memory.buf, settings.workers)
        self._metrics.begin()
        self._workers: dict[int, _Worker] = {}
        self._due = dict.fromkeys(range(settings.workers), 0.0)
        self._failures = dict.fromkeys(range(settings.workers), 0)
        self._next_check = 0.0
        self._announced = False
        self._stopping = False
        self._failed_to_start = False
        self._folder = Path()
        self._woken, self._wake = Pipe(duplex=False)

    def run(self) -> int:
        """Serves until a signal arrives. Returns the exit code."""
        stop_on_signals(self._stop)
        reload_on_signal(self._reload, self._settings)
        gc.enable()
        try:
            with TemporaryDirectory(prefix="opwire-") as folder:
                self._folder = Path(folder)
                while not self._stopping:
                    self._start_due()
                    self._check_heartbeats()
                    self._wait()
                return self._drain()
        finally:
            self._metrics.release()
            self._memory.close()
            self._memory.unlink()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        self._wake.send_bytes(b"stop")

    def _reload(self, number: int, frame: FrameType | None) -> None:
        """Passes the signal on to the workers. One that is still starting reads the keys by itself."""
        for worker in list(self._workers.values()):
            if worker.ready and worker.process.pid is not None:
                os.kill(worker.process.pid, number)

    def _start_due(self) -> None:
        now = time.monotonic()
        for row in [row for row, due in self._due.items() if due <= now]:
            del self._due[row]
            ours, theirs = Pipe()
            arguments = (self._settings.share(), self._sockets, self._memory.name, row, theirs, self._folder)
            process = _spawn.Process(target=_run_worker, args=arguments, name=f"opwire-worker-{row}")
            process.start()
            theirs.close()
            self._workers[row] = _Worker(process, ours)

    def _check_heartbeats(self) -> None:
        """Kills hung workers. Counts checks rather than seconds, so that suspending all processes kills none."""
        if (now := time.monotonic()) < self._next_check:
            return
        self._next_check = now + self._settings.hang_seconds / _MISSED_HEARTBEATS
        for row, worker in self._workers.items():
            beats = self._metrics.beats(row)
            worker.silent = 0 if beats != worker.beats or not worker.ready else worker.silent + 1
            worker.beats = beats
            if worker.silent >= _MISSED_HEARTBEATS:
                log.error("worker %d (process %s) hangs; killing it", row, worker.process.pid)
                worker.process.kill()

    def _wait(self) -> None:
        """Waits for an event of a worker, for a replacement or check to be due, or for a signal."""
        pending = {worker.pipe: worker for worker in self._workers.values() if not worker.ready}
        sentinels = {worker.process.sentinel: row for row, worker in self._workers.items()}
        pause = min([self._next_check, *self._due.values()]) - time.monotonic()
        for event in wait([self._woken, *pending, *sentinels], max(0.0, pause)):
            if isinstance(event, int):
                self._on_exit(sentinels[event])
            elif isinstance(event, Connection) and event in pending:
                self._on_message(pending[event])

    def _on_message(self, worker: _Worker) -> None:
        with suppress(EOFError, OSError):  # it died, which its sentinel reports too
            worker.pipe.recv_bytes()
            worker.ready = True
        if not self._announced and len(self._workers) == sum(each.ready for each in self._workers.values()):
            self._announced = True
            announce(address(self._settings, self._sockets[0]))

    def _on_exit(self, row: int) -> None:
        worker = self._workers.pop(row)
        worker.process.join()
        worker.pipe.close()
        self._metrics.clear_gauges(row)
        if self._stopping:
            return
        if not self._announced:
            log.error("a worker failed to start: exit code %s", worker.process.exitcode)
            self._failed_to_start = self._stopping = True
            return
        self._metrics.add(WORKER_RESTARTS)
        self._failures[row] = 0 if worker.ready else self._failures[row] + 1
        pause = min(_FIRST_PAUSE * 2 ** (self._failures[row] - 1), _MAX_PAUSE) if self._failures[row] else 0.0
        self._due[row] = time.monotonic() + pause
        ended = (row, worker.process.pid, worker.process.exitcode)
        log.warning("worker %d (process %s) exited with code %s; replacing it", *ended)

    def _drain(self) -> int:
        """Waits for the workers to end. Returns the exit code: 1 if one had to be killed or failed to start."""
        log.info("stopping: running requests may take up to %d s to finish", self._settings.drain_seconds)
        for listening in self._sockets:
            listening.close()
        for worker in self._workers.values():
            worker.pipe.close()
        end = time.monotonic() + self._settings.drain_seconds + _BEYOND_DRAIN
        killed = False
        for worker in self._workers.values():
            worker.process.join(max(0.0, end - time.monotonic()))
            if worker.process.is_alive():
                log.error("process %s did not end in time; killing it", worker.process.pid)
                killed = True
                worker.process.kill()
                worker.process.join()
        log.info("stopped: %s", "some requests were cut off" if killed else "all processes have ended")
        return 1 if killed or self._failed_to_start else 0


def _run_worker(
    settings: Settings, sockets: Sequence[socket.socket], memory: str, row: int, pipe: Connection, folder: Path
) -> None:
    """The main function of a worker."""
    gc.disable()  # until it is ready
    configure(settings.log_level, settings.log_format)
    shared = SharedMemory(memory)
    metrics = Metrics(layout(settings), shared.buf, row)
    server = HttpServer(settings, metrics, on_ready=lambda _: _begin(pipe), folder=folder)
    stop_on_signals(server.handle_exit)
    reload_on_signal(server.reload_keys, settings)
    threading.Thread(target=_stop_with, args=(pipe, server), daemon=True).start()
    own = [bind_shared(each.family, each.getsockname()[:2]) for each in sockets] if SPREAD else list(sockets)
    try:
        server.run(own)
    finally:
        metrics.release()
        shared.close()
    if server.failed:
        sys.exit(FAILED)


def _begin(pipe: Connection) -> None:
    freeze_heap()
    with suppress(OSError):  # the supervisor is stopping and has closed the pipe, so this worker will stop too
        pipe.send_bytes(b"ready")


def _stop_with(pipe: Connection, server: HttpServer) -> None:
    with suppress(EOFError, OSError):
        pipe.recv_bytes()
    server.drain()
    server.should_exit = True
