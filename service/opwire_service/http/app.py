"""The application: routes, errors, documents and life span around one server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from ..server import Server
from ..settings import Settings
from . import data, docs, errors, health, native, oip, openapi
from .context import RequestContext

SUMMARY = "DirectML operators over HTTP: checked against a feature level, computed exactly."


class Application(FastAPI):
    """A FastAPI application that answers the data routes before the framework sees them, and documents them all."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._data_route(scope["path"]) if scope["type"] == "http" else None
        if route is None:
            if scope.get("method") == "HEAD":
                scope = {**scope, "method": "GET"}  # the server of the network leaves the body out
            await super().__call__(scope, receive, send)
        else:
            await data.answer(route, self.state.server.pipeline, scope, receive, send)

    def _data_route(self, path: str) -> tuple[str, data.Handler] | None:
        route = data.ROUTES.get(path)
        if route is None and path.startswith(oip.PREFIX):
            route = oip.find(path, self.state.server)
        return route

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = openapi.document(self)
        return self.openapi_schema


def create_app(settings: Settings) -> FastAPI:
    """The application of a server, which is made when the application starts and closed when it ends."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        app.state.server = Server(settings)
        try:
            yield
        finally:
            await app.state.server.close()

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
    for module in (native, health):
        app.include_router(module.router)
    docs.install(app)
    errors.install(app)
    app.add_middleware(RequestContext)
    return app
