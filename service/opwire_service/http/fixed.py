"""Documents that are the same for every client until the server is another: compressed once, and known by a tag."""

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
    """A JSON document.

    Args:
        make: its value; called when it is first asked for.
        media_type: of the document.
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
        """The document, compressed for those who take gzip; 304 without it for those who have it."""
        packed = takes_gzip(request.headers.get("accept-encoding", ""))
        tag = f'"{self._tag}-gzip"' if packed else f'"{self._tag}"'
        headers = {"etag": tag, "vary": "Accept-Encoding", "cache-control": "no-cache"}
        if is_known(request.headers.get("if-none-match", ""), f'"{self._tag}"', f'"{self._tag}-gzip"'):
            return Response(status_code=304, headers=headers)
        if packed:
            headers["content-encoding"] = "gzip"
        return Response(self._packed if packed else self._text, headers=headers, media_type=self._media_type)


def is_known(given: str, *tags: str) -> bool:
    """Whether an ``If-None-Match`` names one of the tags of a document."""
    return not {"*", *tags}.isdisjoint(tag.strip().removeprefix("W/") for tag in given.split(","))


def takes_gzip(accepted: str) -> bool:
    """Whether an ``Accept-Encoding`` allows gzip."""
    refused = {}
    for item in accepted.lower().split(","):
        coding, _, parameter = item.partition(";")
        refused[coding.strip()] = _NEVER.fullmatch(parameter.replace(" ", "")) is not None
    return not refused.get("gzip", refused.get("*", True))


_NEVER = re.compile(r"q=0(\.0*)?")
