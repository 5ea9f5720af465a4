"""What the clients send over: their own connections, or a transport of httpx that they are given."""

from __future__ import annotations

import ssl
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import httpx

from .attempt import Attempt
from .loops import OverLoops
from .over_httpx import OverAsyncHttpx, OverHttpx
from .pool import IDLE_SECONDS, MOST_CONNECTIONS, ConnectionPool
from .proxies import proxy_for

S = TypeVar("S")
"""A sender, blocking or asynchronous."""

LIMITS = httpx.Limits(
    max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_CONNECTIONS, keepalive_expiry=IDLE_SECONDS
)

ONE = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=IDLE_SECONDS)


class Sender(Protocol):
    """Sends attempts and receives their answers; may be shared by threads."""

    def send(self, attempt: Attempt[Any]) -> None: ...

    def close(self) -> None: ...


class AsyncSender(Protocol):
    """The same for asyncio."""

    async def send(self, attempt: Attempt[Any]) -> None: ...

    async def aclose(self) -> None: ...


class Connections(Generic[S]):
    """The connections of a client, which those derived from it use too."""

    def __init__(self, sender: S) -> None:
        self._sender = sender
        self._closed = False

    @property
    def sender(self) -> S:
        """What sends requests.

        Raises:
            RuntimeError: the client is closed.
        """
        if self._closed:
            raise RuntimeError("the client is closed")
        return self._sender

    def close(self) -> S:
        """Sends no more. Returns the sender, to be closed."""
        self._closed = True
        return self._sender


def open_blocking(url: httpx.URL, verify: ssl.SSLContext | bool, transport: httpx.BaseTransport | None) -> Sender:
    """What sends requests to a server: over the transport that is given, or else over its own connections.

    Those go over the proxy of the environment if there is one.
    """
    if transport is not None:
        return OverHttpx(transport)
    proxy = proxy_for(url)
    if proxy is None or proxy.url.scheme == "http":
        return ConnectionPool(url, verify, proxy)
    return OverHttpx(httpx.HTTPTransport(verify=verify, limits=LIMITS, proxy=proxy), proxy)  # TLS to it, or SOCKS


def open_async(
    url: httpx.URL, verify: ssl.SSLContext | bool, transport: httpx.AsyncBaseTransport | None
) -> AsyncSender:
    """The same for asyncio, where the connections are those of httpx.

    A transport that is given stays that of the event loop in which it was used first.
    """
    if transport is not None:
        return OverAsyncHttpx(transport)
    proxy = proxy_for(url)
    if url.scheme == "http" and proxy is None:
        verify = False  # there is nothing to verify; to read all certificates first would take a while
    context = httpx.create_ssl_context(verify)
    return OverLoops(partial(httpx.AsyncHTTPTransport, verify=context, limits=ONE, proxy=proxy), proxy)
