"""The Swagger UI page, served locally under a policy that permits no other origin."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from . import security

_ASSETS = "/docs/assets"
_SCRIPT = "/docs/start.js"

_FILES = ("swagger-ui-bundle.js", "swagger-ui.css")
PATHS = ("/docs", _SCRIPT, *(f"{_ASSETS}/{file}" for file in _FILES))
"""Paths of the page and its files."""

_HEADERS = security.headers("script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'")
_RAW_HEADERS = security.raw(_HEADERS)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>API · opwire</title>
<link rel="stylesheet" href="{root}/docs/assets/swagger-ui.css">
<link rel="icon" href="{root}/favicon.ico">
</head>
<body>
<div id="swagger-ui"></div>
<script src="{root}/docs/assets/swagger-ui-bundle.js"></script>
<script src="{root}/docs/start.js"></script>
</body>
</html>
"""
_START = """SwaggerUIBundle({
  url: new URL("../openapi.json", document.currentScript.src).href,
  dom_id: "#swagger-ui",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  docExpansion: "list",
  tryItOutEnabled: true,
  validatorUrl: null,
});
"""


class _Assets(StaticFiles):
    """The files of the page, sent with its security headers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_RAW_HEADERS]
            await send(message)

        await super().__call__(scope, receive, send_with_headers)


def install(app: FastAPI) -> None:
    """Adds ``/docs`` and its files."""
    app.mount(_ASSETS, _Assets(packages=[("fastapi_swagger", "resources")]), "docs-assets")
    app.add_route("/docs", _page, include_in_schema=False)
    app.add_route(_SCRIPT, _start, include_in_schema=False)


async def _page(request: Request) -> Response:
    page = _PAGE.format(root=request.scope.get("root_path", ""))
    return Response(page, headers=_HEADERS, media_type="text/html")


async def _start(request: Request) -> Response:
    return Response(_START, headers=_HEADERS, media_type="text/javascript")


def redirect_root(app: FastAPI) -> None:
    """Redirects ``/`` to the page, for a server without the console."""
    app.add_route("/", _to_docs, include_in_schema=False)


async def _to_docs(request: Request) -> RedirectResponse:
    return RedirectResponse(request.scope.get("root_path", "") + "/docs")
