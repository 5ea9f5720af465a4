"""The Swagger UI page, served locally under a policy that permits no other origin."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from . import page_security

_ASSETS = "/docs/assets"
_SCRIPT = "/docs/start.js"

_LOOK = "/docs/look"

_FILES = ("swagger-ui-bundle.js", "swagger-ui.css")
_CONSOLE = Path(__file__).parents[2] / "console"
_LOOKS = (
    *("app/theme.js", "css/swagger.css", "css/tokens.css", "icon.svg"),
    *("vendor/figtree.woff2", "vendor/jetbrains-mono.woff2"),
)
"""The files of the console that give the page its look."""

PATHS = ("/docs", _SCRIPT, *(f"{_ASSETS}/{file}" for file in _FILES), *(f"{_LOOK}/{file}" for file in _LOOKS))
"""Paths of the page and its files."""

_HEADERS = page_security.headers(
    *("script-src 'self'", "style-src 'self'", "img-src 'self' data:", "font-src 'self'", "connect-src 'self'")
)
_RAW_HEADERS = page_security.raw(_HEADERS)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>API · opwire</title>
<script src="{root}/docs/look/app/theme.js"></script>
<link rel="stylesheet" href="{root}/docs/assets/swagger-ui.css">
<link rel="stylesheet" href="{root}/docs/look/css/tokens.css">
<link rel="stylesheet" href="{root}/docs/look/css/swagger.css">
<link rel="icon" href="{root}/favicon.ico">
</head>
<body>
<header class="top"><img src="{root}/docs/look/icon.svg" alt="" width="24" height="24">{links}</header>
<div id="swagger-ui"></div>
<script src="{root}/docs/assets/swagger-ui-bundle.js"></script>
<script src="{root}/docs/start.js"></script>
</body>
</html>
"""
_LINKS = (("", "opwire"), ("try", "Try"), ("live", "Live"))

_START = """const { theme } = document.documentElement.dataset;
if (theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches) {
  document.documentElement.classList.add("dark-mode");
}
SwaggerUIBundle({
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


def install(app: FastAPI, *, has_console: bool) -> None:
    """Adds ``/docs`` and its files.

    Args:
        has_console: whether the server has the console, which the page then links to.
    """
    app.state.docs_links = _LINKS if has_console else ()
    app.mount(_LOOK, _Assets(directory=_CONSOLE), "docs-look")
    app.mount(_ASSETS, _Assets(packages=[("fastapi_swagger", "resources")]), "docs-assets")
    app.add_route("/docs", _page, include_in_schema=False)
    app.add_route(_SCRIPT, _start, include_in_schema=False)


async def _page(request: Request) -> Response:
    root = request.scope.get("root_path", "")
    links = "".join(f'<a href="{root}/{path}">{name}</a>' for path, name in request.app.state.docs_links)
    page = _PAGE.format(root=root, links=links)
    return Response(page, headers=_HEADERS, media_type="text/html")


async def _start(request: Request) -> Response:
    return Response(_START, headers=_HEADERS, media_type="text/javascript")


def redirect_root(app: FastAPI) -> None:
    """Redirects ``/`` to the page, for a server without the console."""
    app.add_route("/", _to_docs, include_in_schema=False)


async def _to_docs(request: Request) -> RedirectResponse:
    return RedirectResponse(request.scope.get("root_path", "") + "/docs")
