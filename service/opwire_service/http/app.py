"""The application: routes, errors, documents and life span around one server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive, Scope, Send

from ..engine.memory import Hold
from ..engine.pipeline import Pipeline
from ..engine.service import Server
from ..oip import openapi as openapi_oip
from ..oip import routes as oip
from ..oip.statistics import CELLS as MODEL_CELLS
from ..settings import Settings
from ..telemetry.metrics import OTHER, Layout, Metrics
from . import contract_routes as native
from . import data_routes as data
from . import docs, errors, health, metrics, openapi
from .api_keys import ApiKeys
from .auth import Gate, refuse
from .context import RequestContext
from .cors import cors
from .exchange import RESPOND, Exchange
from .known import REMEMBER, KnownHeads
from .turned_away import TurnedAway

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracing

SUMMARY = "DirectML operators over HTTP: checked against a feature level, computed exactly."


class Application(FastAPI):
    """A FastAPI application that answers the data routes before the framework sees them, and documents them all.

    Attributes:
        prefix: of the paths, as clients see them; a proxy may have taken it away.
        record: is told of data requests that have ended.
        known_heads: of the requests that its server has answered.
        turned_away: refuses requests by their heads, where nothing else looks at them first.
    """

    server: Server
    prefix = ""
    gate: Gate | None = None
    cors: CORSMiddleware | None = None
    record: data.Record | None = None
    known_heads: KnownHeads | None = None
    turned_away: TurnedAway | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        if self.prefix:
            scope = {**scope, "path": _below(self.prefix, scope["path"])}
        if self.record is not None:
            scope.pop(REMEMBER, None)
        if self.cors is None:
            await self.respond(scope, receive, send)
        else:
            # The answer is not whole before it has passed.
            scope.pop(RESPOND, None)
            scope.pop(REMEMBER, None)
            await self.cors(scope, receive, send)

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers an HTTP request."""
        server = self.server
        route = self.data_route(scope["path"])
        if self.gate is not None and not self.gate.admits(scope):
            route = data.Route(scope["method"], refuse, OTHER if route is None else route.path)
        elif server.draining and route is not None and route.method == "POST":
            route = route._replace(handler=_stopping(server))
        if route is None:
            if scope.get("method") == "HEAD":
                scope = {**scope, "method": "GET"}  # the server of the network leaves the body out
            if self.prefix:
                scope = {**scope, "path": self.prefix + scope["path"], "root_path": self.prefix}
            await super().__call__(scope, receive, send)
        else:
            await data.answer(route, server.pipeline, scope, receive, send, self.record)

    def data_route(self, path: str) -> data.Route | None:
        """The data route of a path."""
        route = data.ROUTES.get(path)
        if route is None and path.startswith(errors.INFERENCE):
            route = oip.find(path, self.server)
        return route

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = openapi.document(self, openapi_oip.PATHS, openapi_oip.SCHEMAS)
        return self.openapi_schema


def _below(prefix: str, path: str) -> str:
    """A path without the prefix, if there is one and it has it."""
    if not prefix:
        return path
    if path == prefix:
        return "/"
    return path.removeprefix(prefix) if path.startswith(prefix + "/") else path


def _stopping(server: Server) -> data.Handler:
    """The handler of requests that come after the signal to stop; nothing of them is read."""

    async def handle(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
        server.require_ready()

    return handle


_ROUTERS = (native.router, health.router, metrics.router)

_COUNTED = (
    *data.ROUTES,
    *oip.LABELS,
    *(route.path for router in _ROUTERS for route in router.routes if isinstance(route, APIRoute)),
    *docs.PATHS,
)


def layout(settings: Settings) -> Layout:
    """What a server counts."""
    return Layout(settings.devices, _COUNTED, MODEL_CELLS)


def _tracing() -> type[Tracing]:
    """
    Raises:
        ValueError: OpenTelemetry is not installed.
    """
    try:
        from ..telemetry.tracing import Tracing
    except ImportError as error:
        raise ValueError(f"--otel needs OpenTelemetry: pip install 'opwire[otel]' ({error})") from None
    return Tracing


def create_app(settings: Settings, counted: Metrics | None = None, regions: Path | None = None) -> Application:
    """The application of a server, which is made when the application starts and closed when it ends.

    Args:
        counted: what it counts in; without that it counts for itself.
        regions: see Server.

    Raises:
        OSError, ValueError: the file of API keys cannot be read, or is not one; the root path is that of a route; or
            OpenTelemetry is asked for and not installed.
    """
    root = settings.root_path
    if root and any(path.startswith(f"{root}/") or path == root for path in _COUNTED):
        raise ValueError(f"the root path {root} is that of a route of the server")
    found = Metrics(layout(settings)) if counted is None else counted
    keys = None if settings.api_keys_file is None else ApiKeys.read(settings.api_keys_file)

    tracing = _tracing() if settings.otel else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        assert isinstance(app, Application)
        app.server = app.state.server = Server(settings, found, regions)
        app.known_heads = KnownHeads(app.server)
        traces = None if tracing is None else tracing()
        app.record = None if traces is None else traces.record
        if app.record is None and app.cors is None:
            app.turned_away = TurnedAway(app.server, lambda path: app.data_route(_below(app.prefix, path)), app.gate)
        try:
            yield
        finally:
            await app.state.server.close()
            if traces is not None:
                await asyncio.to_thread(traces.close)

    app = Application(
        title="opwire",
        summary=SUMMARY,
        version=version("opwire"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        responses=openapi.ERRORS,
    )
    for router in _ROUTERS:
        app.include_router(router)
    docs.install(app)
    errors.install(app)
    app.add_middleware(RequestContext, metrics=found)
    if keys is not None:
        app.gate = Gate(keys, metrics_open=settings.metrics_open)
    app.prefix = root
    if settings.cors_origins:
        app.cors = cors(app.respond, settings.cors_origins)
    return app
