"""Runs a server on a socket until it is told to stop."""

from __future__ import annotations

import logging
import socket
import sys

import uvicorn

from .http.app import create_app
from .http.protocol import ProblemProtocol
from .settings import Settings

KEEP_ALIVE_SECONDS = 75

log = logging.getLogger("opwire")


class HttpServer(uvicorn.Server):
    """Serves the application of a server. ``url`` is known, and logged, as soon as it listens."""

    url: str | None = None

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            uvicorn.Config(
                create_app(settings),
                host=settings.host,
                port=settings.port,
                http=ProblemProtocol,
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=settings.drain_seconds,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            log.info("opwire is ready at %s", self.url)


def serve(settings: Settings) -> int:
    """Serves until SIGINT or SIGTERM, then lets accepted work end. Returns the exit code."""
    logging.basicConfig(
        stream=sys.stderr,
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)-7s %(message)s",
        datefmt="%H:%M:%S",
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    server = HttpServer(settings)
    server.run()
    return 0 if server.started else 1
