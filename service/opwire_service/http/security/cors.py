"""CORS: which origins may use the server, and which headers their pages may send and read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from opwire.wire import HEAD_LENGTH


@dataclass(frozen=True, slots=True)
class Header:
    """A header that browsers withhold from cross-origin pages unless the server names it.

    Attributes:
        name: name of the header.
        sent: whether a page may send it in a request.
        read: whether a page may read it in a response.
    """

    name: str
    sent: bool = False
    read: bool = False


HEADERS = (
    Header("Allow", read=True),
    Header("Authorization", sent=True),
    Header("Content-Encoding", sent=True, read=True),
    Header("Content-Type", sent=True),
    Header(HEAD_LENGTH, sent=True, read=True),
    Header("Retry-After", read=True),
    Header("Server-Timing", read=True),
    Header("traceparent", sent=True),
    Header("tracestate", sent=True),
    Header("WWW-Authenticate", read=True),
    Header("X-Request-Id", sent=True, read=True),
)


def cors(app: ASGIApp, origins: Sequence[str], sent: Sequence[str] = ()) -> CORSMiddleware:
    """Lets pages of other origins use the server. Cookies and other browser credentials are never used.

    Args:
        app: the application to wrap.
        origins: allowed origins.
        sent: further headers that a page may send.
    """
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=("GET", "POST", "PUT", "DELETE"),
        allow_headers=[*(header.name for header in HEADERS if header.sent), *sent],
        expose_headers=[header.name for header in HEADERS if header.read],
    )
