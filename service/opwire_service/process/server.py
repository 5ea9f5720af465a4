"""Runs a server on a socket until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from ..devices import NUMBERED, kind_of, resolve
from ..http.app import create_app, layout
from ..http.connection import ProblemProtocol
from ..settings import Settings
from ..telemetry.metrics import Metrics
from . import logging as logs
from .memory_trim import Freed, give_back

KEEP_ALIVE_SECONDS = 75

_LOOKS_EVERY = 0.05
_TICK_SECONDS = 0.1
_NEW_CONNECTIONS = 8
"""Taken in one turn of the loop."""

_TICKS = 20
"""Ticks of uvicorn's between two looks for slow clients and freed memory, and two reports of those turned away."""

log = logging.getLogger("opwire")


class HttpServer(uvicorn.Server):
    """Serves the application of a server.

    Args:
        metrics: what it counts in; without that it counts for itself.
        on_ready: called with the address as soon as it accepts.
        regions: see Server.

    Attributes:
        url: its address, once it accepts.

    Raises:
        OSError, ValueError: a file of the settings cannot be read, or does not hold what it should.
    """

    url: str | None = None

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics | None = None,
        on_ready: Callable[[str], None] = lambda url: announce(url),
        regions: Path | None = None,
    ) -> None:
        self.settings = settings
        self._metrics = metrics or Metrics(layout(settings))
        self._app = create_app(settings, self._metrics, regions)
        self._on_ready = on_ready
        self._ticked = float("inf")
        self._freed = Freed()
        super().__init__(
            uvicorn.Config(
                self._app,
                host=settings.host,
                port=settings.port,
                http=ProblemProtocol,
                ws="none",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=settings.drain_seconds,
                ssl_certfile=settings.tls_certificate,
                ssl_keyfile=settings.tls_key,
            )
        )
        try:
            self.config.load()
        except OSError as error:  # it names neither file
            files = " and ".join(str(file) for file in (settings.tls_certificate, settings.tls_key) if file)
            raise ValueError(f"{files}: no certificate chain with its key: {error.strerror or error}") from None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            await self._listen_more()
            self.url = address(self.settings, (sockets or self.servers[0].sockets)[0])
            self._on_ready(self.url)

    async def _listen_more(self) -> None:
        """Listens to each socket several times: uvloop takes but one new connection from each in a turn of the loop.

        Where many connections are new, as those of clients that were refused, they would wait for seconds otherwise.
        """
        loop = asyncio.get_running_loop()
        if type(loop).__module__.partition(".")[0] != "uvloop":
            return
        protocol = partial(
            ProblemProtocol, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        for listening in [made for server in self.servers for made in server.sockets]:
            for _ in range(_NEW_CONNECTIONS - 1):
                same = socket.socket(fileno=os.dup(listening.fileno()))
                server = await loop.create_server(protocol, sock=same, ssl=self.config.ssl, backlog=self.config.backlog)
                self.servers.append(server)

    @property
    def failed(self) -> bool:
        """Whether it stopped because a device failed; then it is for another process to serve."""
        server = getattr(self._app.state, "server", None)
        return server is not None and server.broken is not None

    async def on_tick(self, counter: int) -> bool:
        loop = asyncio.get_running_loop()
        now = loop.time()
        memory = self._app.state.server.pipeline.memory
        memory.intake.lag = max(0.0, now - self._ticked - _TICK_SECONDS)
        self._ticked = now
        if self.failed:
            self.should_exit = True
        self._metrics.beat()
        if self.settings.workers > 1:
            self._app.state.server.publish()  # for the process that is asked
        if counter % _TICKS == 0:
            if self._app.turned_away is not None:
                self._app.turned_away.report()
            limits = self.settings.limits
            for connection in list(self.server_state.connections):
                if isinstance(connection, ProblemProtocol):
                    connection.close_if_slow(limits.receive_ms / 1000, limits.timeout_ms / 1000)
            if self._freed.is_due(memory.held, memory.taken):
                log.debug("the server is calm: what memory it has freed goes back to the system")
                loop.run_in_executor(None, give_back)
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.drain()
        super().handle_exit(sig, frame)

    def drain(self) -> None:
        """Takes no more work, from now on."""
        server = getattr(self._app.state, "server", None)
        if server is not None:
            server.drain()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Lets accepted work end; open connections are told meanwhile that the server is stopping."""
        self.drain()
        for listening in self.servers:
            listening.close()
        loop = asyncio.get_running_loop()
        end = loop.time() + self.settings.drain_seconds
        while self.server_state.tasks and loop.time() < end and not self.force_exit:
            await asyncio.wait(list(self.server_state.tasks), timeout=_LOOKS_EVERY)
            self._metrics.beat()
        self.config.timeout_graceful_shutdown = max(0, round(end - loop.time()))
        await super().shutdown(sockets)


def address(settings: Settings, listening: socket.socket) -> str:
    """The URL of a server that listens on a socket."""
    host, port = listening.getsockname()[:2]
    scheme = "http" if settings.tls_certificate is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def announce(url: str) -> None:
    """Says that a server is ready."""
    log.info("opwire is ready at %s", url)


def keep_what_is_there() -> None:
    """Takes what a process has made so far out of all collections, which would cost each request a little.

    For a process that does nothing but serve, once it is ready.
    """
    gc.collect()
    gc.freeze()


def _begin(url: str) -> None:
    keep_what_is_there()
    announce(url)


def stop_on_signals(stop: Callable[[int, FrameType | None], Any]) -> None:
    """Lets SIGINT and SIGTERM call a function, for the rest of this process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def serve(settings: Settings) -> int:
    """Serves until SIGINT or SIGTERM, then lets accepted work end. Returns the exit code.

    Raises:
        OSError, ValueError: a file of the settings cannot be read, or does not hold what it should; or this machine has
            not what a device needs.
    """
    logs.configure(settings.log_level, settings.log_format)
    _warn(settings)
    settings = replace(settings, devices=resolve(settings.devices))
    log.info("devices: %s", ", ".join(settings.devices))
    if settings.workers > 1 or any(kind_of(name) in NUMBERED for name in settings.devices):
        from .supervisor import Supervisor  # of no use to a single process whose devices cannot fail

        return Supervisor(settings).run()
    server = HttpServer(settings, on_ready=_begin)
    # uvicorn raises the signals again when it has stopped, for the handlers that it found.
    stop_on_signals(server.handle_exit)
    server.run()
    return 0 if server.started and not server.failed else 1


def _warn(settings: Settings) -> None:
    if settings.api_keys_file is None and not _is_loopback(settings.host):
        log.warning("opwire listens on %s without API keys: whoever reaches it can use it", settings.host)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
