"""Where requests go, and the headers that each of them carries."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import httpx

from ..wire import HEAD_LENGTH

DEFAULT_URL = "http://127.0.0.1:8000"

RETRY_COUNT = "X-Retry-Count"
"""The header that tells the server how often this request was sent before."""

_OWN_HEADERS = (
    "Accept",
    "Accept-Encoding",
    "Connection",
    "Content-Length",
    "Content-Type",
    "Transfer-Encoding",
    HEAD_LENGTH,
    RETRY_COUNT,
)

_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")


@cache
def package_version() -> str:
    """The installed version of opwire; "unknown" for sources that are not installed."""
    from importlib.metadata import PackageNotFoundError, version  # a tenth of the time that importing opwire takes

    try:
        return version("opwire")
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go, and the headers that each of them carries.

    Attributes:
        base: URL that paths are appended to.
        url: the same, parsed.
        headers: names and values.
    """

    base: str
    url: httpx.URL
    headers: tuple[tuple[bytes, bytes], ...]

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None, headers: Mapping[str, str] | None) -> Endpoint:
        """The endpoint for the arguments of a client; what is None comes from the environment.

        Raises:
            ValueError: the URL has no host, or a header is not one, or one that the client sets itself.
        """
        base = (base_url or os.environ.get("OPWIRE_URL") or DEFAULT_URL).rstrip("/")
        try:
            url = httpx.URL(base)
        except httpx.InvalidURL as error:
            raise ValueError(f"{base!r} is not a URL: {error}") from error
        if not url.host:
            raise ValueError(f"{base!r} is not a URL with a host, such as {DEFAULT_URL}")
        common = httpx.Headers({"Host": url.netloc.decode("ascii"), "User-Agent": f"opwire/{package_version()}"})
        common["Accept-Encoding"] = "identity"
        own = [name for name in _OWN_HEADERS if headers is not None and name in httpx.Headers(headers)]
        if own:
            raise ValueError(f"{', '.join(own)} cannot be set: the client sets it for each request")
        common.update(headers)
        if api_key is None and "Authorization" not in common:
            api_key = os.environ.get("OPWIRE_API_KEY")
        if api_key is not None:
            common["Authorization"] = f"Bearer {api_key}"
        for name, value in common.raw:
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ValueError(
                    f"{name.decode('latin-1')!r} is not a header: its name or value has control characters"
                )
        return cls(base, url, tuple(common.raw))
