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
        block: the headers as a request has them.
    """

    base: str
    url: httpx.URL
    headers: tuple[tuple[bytes, bytes], ...]
    block: bytes

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None, headers: Mapping[str, str] | None) -> Endpoint:
        """The endpoint for the arguments of a client; what is None comes from the environment.

        Raises:
            TypeError: an argument is of another type.
            ValueError: the URL is not of http or https, has no host or more than a path, or a header is not one, or one
                of the client's own.
        """
        _check_string("base_url", base_url)
        _check_string("api_key", api_key)
        base = (base_url or os.environ.get("OPWIRE_URL") or DEFAULT_URL).rstrip("/")
        try:
            url = httpx.URL(base)
        except httpx.InvalidURL as error:
            raise ValueError(f"{base!r} is not a URL: {error}") from error
        if not url.host or url.scheme not in ("http", "https"):
            raise ValueError(f"{base!r} is not a URL of http or https with a host, such as {DEFAULT_URL}")
        if url.userinfo:
            raise ValueError("the base URL has a user; headers={'Authorization': ...} or api_key say who asks")
        if url.port is not None and not 0 < url.port < 2**16:
            raise ValueError(f"{base!r} has the port {url.port}; ports go from 1 to 65535")
        if "?" in base or "#" in base:
            raise ValueError(f"{base!r} has more than a path behind its host, and paths are appended to it")
        try:
            further = httpx.Headers(headers)
        except (TypeError, ValueError, AttributeError) as error:
            raise TypeError(
                f"headers are of type {type(headers).__name__}; they are a dict of strings: {error}"
            ) from None
        own = [name for name in _OWN_HEADERS if name in further]
        if own:
            raise ValueError(f"{', '.join(own)} cannot be set: the client sets it for each request")
        common = httpx.Headers({"Host": url.netloc.decode("ascii"), "User-Agent": f"opwire/{package_version()}"})
        common["Accept-Encoding"] = "identity"
        common.update(further)
        if api_key is None and "Authorization" not in common:
            api_key = os.environ.get("OPWIRE_API_KEY")
        if api_key is not None:
            common["Authorization"] = f"Bearer {api_key}"
        for name, value in common.raw:
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ValueError(f"{name!r} is not a header: its name or its value has characters that none may have")
        return cls(base, url, tuple(common.raw), b"".join(b"%b: %b\r\n" % header for header in common.raw))


def _check_string(name: str, given: object) -> None:
    if not isinstance(given, str | None):
        raise TypeError(f"{name} is of type {type(given).__name__}; it is a string")
