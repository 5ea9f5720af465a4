"""Reads the heads of requests, and judges them before anything else is done."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from urllib.parse import unquote

import httptools
from starlette.types import Scope

from opwire.errors import LimitExceededError, OpwireError, ProblemCode, RequestError

MOST_HEADERS = 100
HEAD_BYTES = 32 * 1024
"""Maximum number of header fields in a request, and maximum size of its head (request line included), in bytes."""

Fields = Sequence[tuple[bytes, bytes]]
"""Header fields, with names in lower case."""

_BODY_FIELDS = frozenset({b"content-length", b"transfer-encoding"})

UNREADABLE = RequestError(ProblemCode.INVALID_REQUEST, "the request line or a header is not HTTP")


def judge_head(version: str, url: bytes, fields: Fields) -> OpwireError | None:
    """Returns what is wrong with a request head, if anything.

    Args:
        version: version of HTTP.
        url: target of the request.
        fields: header fields.
    """
    if len(fields) > MOST_HEADERS:
        return _too_large("header fields", len(fields), MOST_HEADERS)
    size = len(url) + sum(map(len, chain.from_iterable(fields))) + 4 * len(fields)
    if size > HEAD_BYTES:
        return head_too_large(size)
    if version not in ("1.0", "1.1"):
        return RequestError(ProblemCode.INVALID_REQUEST, f"HTTP/{version} given; allowed: HTTP/1.0, HTTP/1.1")
    hosts = [name for name, _ in fields].count(b"host")
    if hosts > 1 or (not hosts and version == "1.1"):
        return RequestError(ProblemCode.INVALID_REQUEST, f"{hosts} Host headers given; one belongs to each request")
    return None


def head_too_large(size: int) -> LimitExceededError:
    """Returns the error for a head of which ``size`` bytes have arrived."""
    return _too_large("bytes in the head of the request", size, HEAD_BYTES)


def _too_large(what: str, size: int, limit: int) -> LimitExceededError:
    detail = f"{size} {what}; this server takes at most {limit}"
    return LimitExceededError(ProblemCode.HEAD_TOO_LARGE, detail, limit=limit, size=size)


def describe(version: str, method: str, url: bytes, fields: Fields) -> Scope:
    """Returns what a head says, as members of an ASGI scope."""
    target = httptools.parse_url(url)
    path = target.path.decode("ascii")
    return {
        "http_version": version,
        "method": method,
        "path": unquote(path) if "%" in path else path,
        "raw_path": target.path,
        "query_string": target.query or b"",
        "headers": fields,
    }


def awaits_continue(fields: Fields) -> bool:
    """Whether the client waits for ``100 Continue`` before it sends the body."""
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in fields)


def body_fields(fields: Fields) -> list[bytes]:
    """Returns the header lines that announce a body."""
    lines = [b"%b: %b\r\n" % field for field in fields if field[0] in _BODY_FIELDS]
    return [line for line in lines if line != b"content-length: 0\r\n"]
