"""A real server on a real socket, in a thread of the test process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from opwire_service.process.server import HttpServer
from opwire_service.settings import Settings

_STARTS_WITHIN = 60.0


@contextmanager
def serving(settings: Settings | None = None) -> Iterator[HttpServer]:
    """Runs a server on a free port; at the end it drains and stops."""
    server = HttpServer(settings or Settings(port=0))
    thread = threading.Thread(target=server.run, name="server")
    thread.start()
    try:
        end = time.monotonic() + _STARTS_WITHIN
        while server.url is None:
            if not thread.is_alive() or time.monotonic() > end:
                raise RuntimeError("the server did not start")
            time.sleep(0.005)
        yield server
    finally:
        server.should_exit = True
        thread.join()
