"""Runs a server on a socket until it is told to stop."""

from __future__ import annotations

import logging
import socket
import sys

import uvicorn

from .http.app import create_app
from .settings import Settings

KEEP_ALIVE_SECONDS = 75

log = logging.getLogger("opwire")


class _Uvicorn(uvicorn.Server):
    """Says where it listens as soon as it does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            scheme = "https" if self.config.is_ssl else "http"
            for listener in (found for server in self.servers for found in server.sockets):
                host, port = listener.getsockname()[:2]
                address = f"[{host}]" if ":" in host else host
                log.info("opwire is ready at %s://%s:%d", scheme, address, port)


def serve(settings: Settings) -> int:
    """Serves until SIGINT or SIGTERM, then lets accepted work end. Returns the exit code."""
    logging.basicConfig(
        stream=sys.stderr,
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)-7s %(message)s",
        datefmt="%H:%M:%S",
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    server = _Uvicorn(
        uvicorn.Config(
            create_app(settings),
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=settings.drain_seconds,
        )
    )
    server.run()
    return 0 if server.started else 1
