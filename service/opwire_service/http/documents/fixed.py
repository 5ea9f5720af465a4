"""Documents that never change while a server runs: compressed once, and validated by an ETag."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Callable
from functools import cached_property

from starlette.requests import Request
from starlette.responses import Response


class FixedDocument:
    """A JSON document, built on first use.

    Args:
        make: returns the value of the document.
        media_type: media type of the document.
    """

    def __init__(self, make: Callable[[], object], media_type: str = "application/json") -> None:
        self._make = make
        self._media_type = media_type

    @cached_property
    def _text(self) -> bytes:
        return json.dumps(self._make(), separators=(",", ":")).encode()

    @cached_property
    def _packed(self) -> bytes:
        return gzip.compress(self._text, mtime=0)

    @cached_property
    def _tag(self) -> str:
        return hashlib.sha256(self._text).hexdigest()[:32]

    def answer(self, request: Request) -> Response:
        """Returns the document, gzip-compressed if the client accepts that, or 304 if the client has it already."""
        packed = takes_gzip(request.headers.get("accept-encoding", ""))
        tag = f'"{self._tag}-gzip"' if packed else f'"{self._tag}"'
        headers = {"etag": tag, "vary": "Accept-Encoding", "cache-control": "no-cache"}
        if is_known(request.headers.get("if-none-match", ""), f'"{self._tag}"', f'"{self._tag}-gzip"'):
            return Response(status_code=304, headers=headers)
        if packed:
            headers["content-encoding"] = "gzip"
        return Response(self._packed if packed else self._text, headers=headers, media_type=self._media_type)


def is_known(given: str, *tags: str) -> bool:
    """Whether an ``If-None-Match`` header matches one of a document's tags."""
    return not {"*", *tags}.isdisjoint(tag.strip().removeprefix("W/") for tag in given.split(","))


def takes_gzip(accepted: str) -> bool:
    """Whether an ``Accept-Encoding`` header allows gzip."""
    refused = {}
    for item in accepted.lower().split(","):
        coding, _, parameter = item.partition(";")
        refused[coding.strip()] = _NEVER.fullmatch(parameter.replace(" ", "")) is not None
    return not refused.get("gzip", refused.get("*", True))


_NEVER = re.compile(r"q=0(\.0*)?")
