"""Requests with large bodies that are refused by their heads alone, where the server has more to read than it can.

Under overload there are many of them, and what each takes is taken from those that are served. So none becomes a task,
and instead of a line for each the log has one for all of the last seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence

import httptools

from opwire.errors import OverloadedError

from ..engine.intake import LARGE
from ..engine.service import Server
from .auth import Gate
from .data_routes import Route

log = logging.getLogger("opwire.access")


class TurnedAway:
    """Judges the heads of requests, and counts those that it refuses.

    Args:
        find: the data route of a path.
        gate: admits those that may know how busy the server is; the others are for it to refuse.
    """

    def __init__(self, server: Server, find: Callable[[str], Route | None], gate: Gate | None) -> None:
        self._server = server
        self._find = find
        self._gate = gate
        self._counts: Counter[tuple[str, str]] = Counter()
        self._coming = 0

    def refusal(self, url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> OverloadedError | None:
        """Why a request is refused at once; None if it is to be read, or judged, by others.

        Args:
            url: as the client wrote it.
            headers: with names in lower case.
        """
        size = _length(headers)
        memory, limits = self._server.pipeline.memory, self._server.settings.limits
        if not LARGE < size <= limits.body_bytes or self._server.draining:
            return None
        error = memory.refusal(size, self._coming)
        if error is None:
            # Its task begins when all heads are read that have arrived together.
            self._coming += 1
            asyncio.get_running_loop().call_soon(self._come)
            return None
        path = httptools.parse_url(url).path.decode("ascii")
        route = self._find(path)
        if route is None or route.method != "POST":
            return None
        if self._gate is not None and not self._gate.admits({"path": path, "headers": headers}):
            return None
        self._server.metrics.ended(route.path, str(error.code), 0)
        self._counts[route.path, str(error.code)] += 1
        return error

    def _come(self) -> None:
        self._coming -= 1

    def report(self) -> None:
        """Logs how many were refused since the last time."""
        for (route, code), count in self._counts.items():
            fields = {"route": route, "code": code, "count": count}
            log.info("POST %r %s %d times by the head alone", route, code, count, extra={"fields": fields})
        self._counts.clear()


def _length(headers: Sequence[tuple[bytes, bytes]]) -> int:
    """The bytes of the body as they are announced; 0 if they are not."""
    for name, value in headers:
        if name == b"content-length":
            return int(value)
    return 0
