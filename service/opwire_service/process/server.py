"""The HTTP server of one process."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import uvicorn

from ..engine.memory import Memory
from ..engine.service import Service
from ..http.connection.acceptor import Acceptor
from ..http.connection.connection import Connection
from ..http.documents.page_security import EVERYWHERE
from ..settings import Settings
from ..telemetry.metrics import Metrics
from .application import create_app, layout
from .memory_trim import TrimPolicy, trim

KEEP_ALIVE_SECONDS = 75

_POLL_SECONDS = 0.05
_NEW_CONNECTIONS = 8
"""Number of new connections accepted per iteration of the event loop."""

_UNREAD_BYTES = 256 * 1024
"""Socket receive buffer in bytes: enough for 25 MB/s at a round-trip time of 10 ms."""

_TICKS = 10
"""Ticks of uvicorn, of 0.1 s each, between checks for slow clients and freed memory."""

_STALLED_SECONDS = 3.0
"""Maximum pause of a client that sends a body or reads a response while others wait for memory, in seconds."""

log = logging.getLogger("opwire")


class HttpServer(uvicorn.Server):
    """The HTTP server of one process.

    Args:
        settings: settings of the server.
        metrics: metrics of this process; by default new ones.
        on_ready: called with the URL once the server accepts connections.
        folder: folder shared by the server's worker processes; None for a single process.

    Attributes:
        settings: see above.
        url: URL of the server, once it accepts connections.

    Raises:
        OSError, ValueError: a file named in the settings cannot be read or is invalid.
    """

    url: str | None = None

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics | None = None,
        on_ready: Callable[[str], None] = lambda url: announce(url),
        folder: Path | None = None,
    ) -> None:
        self.settings = settings
        self._metrics = metrics or Metrics(layout(settings))
        self._app = create_app(settings, self._metrics, folder)
        self._on_ready = on_ready
        self._trim_policy = TrimPolicy()
        self._acceptor = Acceptor()
        super().__init__(
            uvicorn.Config(
                self._app,
                host=settings.host,
                port=settings.port,
                http=cast(Any, self._acceptor),
                ws="none",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                headers=[*EVERYWHERE.items()],
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=settings.drain_seconds,
                ssl_certfile=settings.tls_certificate,
                ssl_keyfile=settings.tls_key,
            )
        )
        try:
            self.config.load()
        except OSError as error:  # its message names neither file
            files = " and ".join(str(file) for file in (settings.tls_certificate, settings.tls_key) if file)
            raise ValueError(f"{files}: not a certificate chain and its key: {error.strerror or error}") from None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._limit_receive_buffers()
            await self._add_listeners()
            self.url = address(self.settings, (sockets or self.servers[0].sockets)[0])
            self._on_ready(self.url)

    def _limit_receive_buffers(self) -> None:
        """Limits the kernel's receive buffer per connection.

        By default the kernel buffers megabytes per connection, and when it runs out of memory for many connections, it
        drops what has arrived, so that progress depends on TCP timeouts.
        """
        for listening in [made for server in self.servers for made in server.sockets]:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNREAD_BYTES)  # connections inherit it

    async def _add_listeners(self) -> None:
        """Listens several times on each socket, since uvloop accepts only one connection per listener and iteration.

        Otherwise many new connections, such as those of refused clients, would wait for seconds.
        """
        loop = asyncio.get_running_loop()
        if type(loop).__module__.partition(".")[0] != "uvloop":
            return
        protocol = partial(
            self._acceptor, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        for listening in [made for server in self.servers for made in server.sockets]:
            for _ in range(_NEW_CONNECTIONS - 1):
                same = socket.socket(fileno=os.dup(listening.fileno()))
                server = await loop.create_server(protocol, sock=same, ssl=self.config.ssl, backlog=self.config.backlog)
                self.servers.append(server)

    @property
    def service(self) -> Service:
        """The service, from startup on."""
        service = self._app.service
        assert service is not None
        return service

    @property
    def failed(self) -> bool:
        """Whether it stopped because a device failed, so that another process must take over."""
        server = self._app.service
        return server is not None and server.broken is not None

    async def on_tick(self, counter: int) -> bool:
        service = self._app.service
        if self.failed:
            self.should_exit = True
        self._metrics.beat()
        if service is not None and self.settings.workers > 1:
            service.publish()  # for requests for metrics to another process
        if service is not None and counter % _TICKS == 0:
            service.engine.memory.pass_slow(time.monotonic())
            self._close_slow(service.engine.memory)
            self._trim(service.engine.memory)
            service.engine.graphs.drop_removed()
        return await super().on_tick(counter)

    def _close_slow(self, memory: Memory) -> None:
        """Closes connections of slow clients, sooner if others wait for memory."""
        limits = self.settings.limits
        body_seconds = _STALLED_SECONDS if memory.waiting else limits.timeout_ms / 1000
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.close_if_slow(limits.receive_ms / 1000, body_seconds)

    def _trim(self, memory: Memory) -> None:
        if self._trim_policy.is_due(memory.held, memory.taken):
            log.debug("the server is idle: returning freed memory to the system")
            asyncio.get_running_loop().run_in_executor(None, trim)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.drain()
        super().handle_exit(sig, frame)

    def reload_keys(self, sig: int, frame: FrameType | None) -> None:
        """Reads the API keys again, on a signal. Without a valid file the server goes on with those it has."""
        if self.settings.api_keys_file is None:
            log.info("there are no API keys to read again")
            return
        try:
            log.info("%d API keys read from %s", self._app.reload_keys(), self.settings.api_keys_file)
        except (OSError, ValueError) as error:
            log.error("the API keys remain as they were: %s", error)

    def drain(self) -> None:
        """Stops accepting work."""
        server = self._app.service
        if server is not None and not server.draining:
            server.drain()
            if self.settings.workers == 1:  # the supervisor of several says it once
                log.info("stopping: running requests may take up to %d s to finish", self.settings.drain_seconds)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Completes accepted work; meanwhile requests on open connections are told that the server is stopping."""
        self.drain()
        for listening in self.servers:
            listening.close()
        loop = asyncio.get_running_loop()
        end = loop.time() + self.settings.drain_seconds
        while self.server_state.tasks and loop.time() < end and not self.force_exit:
            await asyncio.wait(list(self.server_state.tasks), timeout=_POLL_SECONDS)
            self._metrics.beat()
        left = len(self.server_state.tasks)
        if self.settings.workers == 1:
            log.info("stopped: %s", f"{left} requests were still running" if left else "all requests have finished")
        self.config.timeout_graceful_shutdown = max(0, round(end - loop.time()))
        await super().shutdown(sockets)


def address(settings: Settings, listening: socket.socket) -> str:
    """Returns the URL of a server that listens on a socket."""
    host, port = listening.getsockname()[:2]
    scheme = "http" if settings.tls_certificate is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def announce(url: str) -> None:
    """Logs that a server is ready."""
    log.info("opwire is ready at %s", url)
