"""The icon that browsers ask for wherever a page or a document names none."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from . import page_security

PATH = "/favicon.ico"

_FILE = Path(__file__).parents[2] / "console" / "favicon.ico"
_HEADERS = page_security.headers() | {"cache-control": "public, max-age=86400"}


def install(app: FastAPI) -> None:
    """Adds the icon."""
    app.add_route(PATH, _icon, include_in_schema=False)


async def _icon(request: Request) -> Response:
    return Response(_read(), headers=_HEADERS, media_type="image/x-icon")


@cache
def _read() -> bytes:
    return _FILE.read_bytes()
