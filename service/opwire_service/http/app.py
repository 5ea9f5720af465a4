"""The ASGI application: data routes, contract routes, errors, documents and lifespan around one service."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from ..engine.pipeline import Engine
from ..engine.service import Service
from ..settings import Settings, UnusableSetting
from ..telemetry.declarations import OTHER
from ..telemetry.metrics import Metrics
from . import errors
from .context import RequestContext
from .data import graphs, routes
from .data.exchange import Exchange
from .documents import console, docs, icon
from .documents.responses import ERRORS, Schema
from .framework import contract_routes, health, load, metrics
from .security.api_keys import ApiKeys
from .security.auth import Gate, refuse
from .security.cors import cors

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracing

SUMMARY = "DirectML operators over HTTP: checked against a feature level, computed exactly."


class WireProtocol(ABC):
    """A protocol that the server speaks besides its native one.

    Attributes:
        labels: metric labels of its routes.
        headers: request headers specific to the protocol.
    """

    labels: Sequence[str]
    headers: Sequence[str]

    @abstractmethod
    def open(self, service: Service) -> None:
        """Called at startup with the service that runs the requests."""

    @abstractmethod
    def find(self, path: str) -> routes.Route | None:
        """Returns the route of a path, or None if the protocol has no such path."""

    @abstractmethod
    def describe(self) -> tuple[Mapping[str, Schema], Mapping[str, Schema]]:
        """Returns its part of the OpenAPI document: paths and schemas."""

    @abstractmethod
    def close(self) -> None:
        """Called at shutdown."""


class Application:
    """The ASGI application. It handles data routes itself and passes all others to FastAPI.

    Args:
        settings: settings of the server.
        counted: metrics of this process.
        protocols: protocols besides the native one.
        folder: folder shared by the server's worker processes; None for a single process.

    Attributes:
        framework: the FastAPI app, with the routes whose bodies are small and all documents.
        service: the service, from startup on.

    Raises:
        OSError, ValueError: the API keys file cannot be read or is invalid, the root path collides with a route, or
            OpenTelemetry is enabled but not installed.
    """

    def __init__(
        self, settings: Settings, counted: Metrics, protocols: Sequence[WireProtocol] = (), folder: Path | None = None
    ) -> None:
        root, labels = settings.root_path, route_labels([label for each in protocols for label in each.labels])
        if root and any(path.startswith(f"{root}/") or path == root for path in labels):
            raise UnusableSetting("root_path", f"{root} collides with a route of the server")
        self.service: Service | None = None
        self._settings = settings
        self._folder = folder
        self._metrics = counted
        self._protocols = protocols
        self._tracing = _tracing() if settings.otel else None
        self._record: routes.Record | None = None
        self._gate = None
        if settings.api_keys_file is not None:
            self._gate = Gate(ApiKeys.read(settings.api_keys_file), metrics_open=settings.metrics_open)
        self.framework = _Framework(protocols, self._lifespan, has_console=settings.console)
        self.framework.add_middleware(RequestContext, metrics=counted)
        headers = [name for protocol in protocols for name in protocol.headers]
        origins = settings.cors_origins
        self._respond: ASGIApp = cors(self.respond, origins, headers) if origins else self.respond

    def reload_keys(self) -> int:
        """Reads the API keys file again and returns the number of keys.

        Raises:
            OSError, ValueError: it cannot be read or is invalid; the keys remain as they were.
        """
        assert self._gate is not None
        assert self._settings.api_keys_file is not None
        keys = ApiKeys.read(self._settings.api_keys_file)
        self._gate.replace(keys)
        return len(keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.framework(scope, receive, send)
            return
        if self._settings.root_path:
            scope = {**scope, "path": _without_root(self._settings.root_path, scope["path"])}
        await self._respond(scope, receive, send)

    def respond(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Returns an awaitable that responds to an HTTP request."""
        service = self.service
        assert service is not None  # no request arrives before startup
        route = self._data_route(scope["path"], scope["method"])
        if self._gate is not None and not self._gate.admits(scope):
            route = routes.Route(scope["method"], refuse, OTHER if route is None else route.path)
        elif service.draining and route is not None and route.method in ("POST", "PUT"):
            route = route._replace(handler=_refuse_when_stopping(service))
        if route is None:
            return self.framework(self._scope_of_framework(scope), receive, send)
        return routes.answer(route, service.engine, scope, receive, send, self._record)

    def _data_route(self, path: str, method: str) -> routes.Route | None:
        route = routes.ROUTES.get(path) or graphs.find(path, method)
        if route is None:
            route = next(filter(None, (protocol.find(path) for protocol in self._protocols)), None)
        return route

    def _scope_of_framework(self, scope: Scope) -> Scope:
        root = self._settings.root_path
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # the HTTP server omits the body
        return {**scope, "path": root + scope["path"], "root_path": root} if root else scope

    @asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncGenerator[None]:
        self.service = app.state.service = Service(self._settings, self._metrics, self._folder)
        for protocol in self._protocols:
            protocol.open(self.service)
        traces = None if self._tracing is None else self._tracing()
        self._record = None if traces is None else traces.record
        try:
            yield
        finally:
            await self.service.close()
            for protocol in self._protocols:
                protocol.close()
            if traces is not None:
                await asyncio.to_thread(traces.close)


class _Framework(FastAPI):
    """The FastAPI app: the routes it handles, and the OpenAPI document of all routes."""

    def __init__(self, protocols: Sequence[WireProtocol], lifespan: Any, *, has_console: bool) -> None:
        super().__init__(
            title="opwire",
            summary=SUMMARY,
            version=version("opwire"),
            lifespan=lifespan,
            docs_url=None,
            redoc_url=None,
            swagger_ui_oauth2_redirect_url=None,
            redirect_slashes=False,
            generate_unique_id_function=lambda route: _camel(route.name.split("_")),
            responses=ERRORS,
        )
        self._protocols = protocols
        for router in _ROUTERS:
            self.include_router(router)
        docs.install(self, has_console=has_console)
        icon.install(self)
        if has_console:
            errors.install(self, not_found=console.install(self))
        else:
            docs.redirect_root(self)
            errors.install(self)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            from .documents.openapi import document  # slower to import than the rest of the application

            described = [protocol.describe() for protocol in self._protocols]
            paths = {path: item for theirs, _ in described for path, item in theirs.items()}
            schemas = {name: item for _, theirs in described for name, item in theirs.items()}
            self.openapi_schema = document(self, paths, schemas)
        return self.openapi_schema


def _camel(words: Sequence[str]) -> str:
    return words[0] + "".join(word.capitalize() for word in words[1:])


def _without_root(prefix: str, path: str) -> str:
    """Removes the root path, unless a proxy has removed it already."""
    if path == prefix:
        return "/"
    return path.removeprefix(prefix) if path.startswith(prefix + "/") else path


def _refuse_when_stopping(service: Service) -> routes.Handler:
    """Returns the handler for requests that arrive while the server is stopping; it does not read their bodies."""

    async def handle(engine: Engine, exchange: Exchange) -> None:
        service.require_ready()

    return handle


_ROUTERS = (contract_routes.router, load.router, health.router, metrics.router)


def route_labels(others: Sequence[str]) -> tuple[str, ...]:
    """Returns the metric labels of all routes of a server.

    Args:
        others: labels of the protocols besides the native one.
    """
    return (
        *routes.ROUTES,
        *graphs.LABELS,
        *others,
        *(route.path for router in _ROUTERS for route in router.routes if isinstance(route, APIRoute)),
        *console.PATHS,
        *docs.PATHS,
        icon.PATH,
    )


def _tracing() -> type[Tracing]:
    """Imports the tracing support.

    Raises:
        UnusableSetting: OpenTelemetry is not installed.
    """
    try:
        from ..telemetry.tracing import Tracing
    except ImportError as error:
        raise UnusableSetting("otel", f"it needs OpenTelemetry: pip install 'opwire[otel]' ({error})") from None
    return Tracing
