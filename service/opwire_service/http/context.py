"""ASGI middleware around every framework request: assigns the request ID, and counts and logs the outcome."""

from __future__ import annotations

import re
import time
from random import getrandbits

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opwire.errors import ProblemCode

from ..engine.request import Request
from ..telemetry import access_log
from ..telemetry.declarations import OK, OTHER
from ..telemetry.metrics import Metrics
from ..telemetry.requests import Ended

REQUEST_ID = b"x-request-id"
_CARRIERS = frozenset({b"traceparent", b"tracestate", b"baggage"})
_TAKEN_IDS = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


def request_id(given: bytes | None) -> str:
    """Returns the ID given by the client if it is well-formed, or else a new one."""
    if given is not None and _TAKEN_IDS.fullmatch(given):
        return str(given, "ascii")
    return f"{getrandbits(128):032x}"  # need not be cryptographic, and is far cheaper than os.urandom


def ended_request(
    scope: Scope, identity: str, route: str, status: int, code: str, microseconds: int, request: Request | None = None
) -> Ended:
    """Returns the record of a completed request for traces and the log; see ``Ended``."""
    state = scope.get("state", {})
    return Ended(
        scope["method"],
        scope["path"],
        scope["scheme"],
        scope["http_version"],
        route,
        status,
        code,
        microseconds,
        identity,
        state.get("client"),
        None if scope.get("client") is None else scope["client"][0],
        {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _CARRIERS},
        None if request is None else request.operator,
        None if request is None else request.device,
        {} if request is None else request.stages,
        state.get("refused_key"),
    )


class RequestContext:
    """Assigns each request an ID, and counts and logs its outcome."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter_ns()
        identity = scope.setdefault("state", {})["request_id"] = request_id(dict(scope["headers"]).get(REQUEST_ID))
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
            microseconds = (time.perf_counter_ns() - started) // 1000
            route = getattr(scope.get("route"), "path", OTHER)
            failed = ProblemCode.INTERNAL_ERROR if status == 500 else OK
            code = str(scope["state"].get("problem", failed))
            self.metrics.ended(route, code, microseconds)
            if access_log.wants(code):
                access_log.write(ended_request(scope, identity, route, status, code, microseconds))
