"""The server that requests go to, and the headers of every request."""

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
"""The header with the number of previous attempts of the request."""

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
    """Returns the installed version of opwire, or "unknown" if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # a tenth of opwire's import time

    try:
        return version("opwire")
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The server that requests go to, and the headers of every request.

    Attributes:
        base: the URL that paths are appended to.
        url: the parsed base URL.
        headers: the header names and values.
        block: the headers as bytes of a request.
    """

    base: str
    url: httpx.URL
    headers: tuple[tuple[bytes, bytes], ...]
    block: bytes

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None, headers: Mapping[str, str] | None) -> Endpoint:
        """Returns the endpoint for the arguments of a client, with defaults from the environment.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: the URL is not http or https, or has no host, an invalid port, a user name, a query or a
                fragment; or a header is malformed or reserved for the client.
        """
        _check_string("base_url", base_url)
        _check_string("api_key", api_key)
        base = (base_url or os.environ.get("OPWIRE_URL") or DEFAULT_URL).rstrip("/")
        try:
            url = httpx.URL(base)
        except httpx.InvalidURL as error:
            raise ValueError(f"{base!r} is not a URL: {error}") from error
        if not url.host or url.scheme not in ("http", "https"):
            raise ValueError(f"{base!r} is not an http or https URL with a host, such as {DEFAULT_URL}")
        if url.userinfo:
            raise ValueError(
                "the URL has a user name or a password, which are not sent; pass api_key or an Authorization header"
            )
        if url.port is not None and not 0 < url.port < 2**16:
            raise ValueError(f"{base!r} has the port {url.port}; ports range from 1 to 65535")
        if "?" in base or "#" in base:
            raise ValueError(f"{base!r} has a query or a fragment; paths are appended to it, so it must not")
        try:
            given = httpx.Headers(headers)
        except (TypeError, ValueError, AttributeError) as error:
            raise TypeError(
                f"headers is of type {type(headers).__name__}; expected a dict of strings: {error}"
            ) from None
        own = [name for name in _OWN_HEADERS if name in given]
        if own:
            raise ValueError(f"{', '.join(own)} cannot be set: the client sets it for each request")
        common = httpx.Headers({"Host": url.netloc.decode("ascii"), "User-Agent": f"opwire/{package_version()}"})
        common["Accept-Encoding"] = "identity"
        common.update(given)
        if api_key is None and "Authorization" not in common:
            api_key = os.environ.get("OPWIRE_API_KEY")
        if api_key is not None:
            common["Authorization"] = f"Bearer {api_key}"
        for name, value in common.raw:
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ValueError(
                    f"{name!r} is not a valid header: its name or value has characters that are not allowed"
                )
        return cls(base, url, tuple(common.raw), b"".join(b"%b: %b\r\n" % header for header in common.raw))


def _check_string(name: str, given: object) -> None:
    if not isinstance(given, str | None):
        raise TypeError(f"{name} is of type {type(given).__name__}; it must be a string")
