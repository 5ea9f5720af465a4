"""What surrounds every request, as plain ASGI: a request id in and out, and one line in the log."""

from __future__ import annotations

import logging
import os
import re
import time

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

access = logging.getLogger("opwire.access")

_HEADER = b"x-request-id"
_TAKEN_IDS = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


def request_id(scope: Scope) -> str:
    """The id that the client gave, if it is a harmless one, or a new one."""
    for name, value in scope["headers"]:
        if name == _HEADER and _TAKEN_IDS.fullmatch(value):
            return str(value, "ascii")
    return os.urandom(16).hex()


class RequestContext:
    """Gives each request its id and logs how it ended."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        identity = scope.setdefault("state", {})["request_id"] = request_id(scope)
        status = 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = identity
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        finally:
            milliseconds = (time.perf_counter() - started) * 1000
            # Quoted as repr does, so that no path can forge a line of the log.
            access.info("%s %r %d %.1f ms %s", scope["method"], scope["path"], status, milliseconds, identity)
