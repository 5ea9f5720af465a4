"""The page that shows the API and tries it out, served from here alone."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.staticfiles import StaticFiles

_ASSETS = "/docs/assets"

PATHS = ("/docs", "/")


def install(app: FastAPI) -> None:
    """Adds ``/docs`` and what it loads, and leads ``/`` there."""
    app.mount(_ASSETS, StaticFiles(packages=[("fastapi_swagger", "resources")]), "docs-assets")
    app.add_route("/docs", _page, include_in_schema=False)
    app.add_route("/", _to_docs, include_in_schema=False)


async def _page(request: Request) -> HTMLResponse:
    root = request.scope.get("root_path", "")
    assets = root + _ASSETS
    return get_swagger_ui_html(
        openapi_url=f"{root}/openapi.json",
        title="opwire",
        swagger_js_url=f"{assets}/swagger-ui-bundle.js",
        swagger_css_url=f"{assets}/swagger-ui.css",
        swagger_favicon_url=f"{assets}/favicon-32x32.png",
        swagger_ui_parameters={"tryItOutEnabled": True, "docExpansion": "list", "defaultModelsExpandDepth": 0},
    )


async def _to_docs(request: Request) -> RedirectResponse:
    return RedirectResponse(request.scope.get("root_path", "") + "/docs")
