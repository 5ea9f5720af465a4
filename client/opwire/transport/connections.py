"""How the clients send: over their own connections, or over a given httpx transport."""

from __future__ import annotations

import ssl
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import httpx

from .attempt import Attempt
from .loops import LoopSenders
from .over_httpx import AsyncHttpxSender, HttpxSender
from .pool import IDLE_SECONDS, MAX_CONNECTIONS, ConnectionPool
from .proxies import proxy_for

S = TypeVar("S")
"""A sender, blocking or asynchronous."""

LIMITS = httpx.Limits(
    max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS, keepalive_expiry=IDLE_SECONDS
)

ONE = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=IDLE_SECONDS)


class Sender(Protocol):
    """Sends attempts and receives their answers. Safe to share between threads."""

    def send(self, attempt: Attempt[Any]) -> None: ...

    def close(self) -> None: ...


class AsyncSender(Protocol):
    """Like ``Sender``, for asyncio."""

    async def send(self, attempt: Attempt[Any]) -> None: ...

    async def aclose(self) -> None: ...


class Connections(Generic[S]):
    """The connections of a client, shared with the clients derived from it."""

    def __init__(self, sender: S) -> None:
        self._sender = sender
        self._closed = False

    @property
    def sender(self) -> S:
        """The sender.

        Raises:
            RuntimeError: the client is closed.
        """
        if self._closed:
            raise RuntimeError("the client is closed")
        return self._sender

    def close(self) -> S:
        """Prevents further requests. Returns the sender, for the caller to close."""
        self._closed = True
        return self._sender


def open_blocking(url: httpx.URL, verify: ssl.SSLContext | bool, transport: httpx.BaseTransport | None) -> Sender:
    """Opens a sender for a server: over the given transport, or else over its own connections.

    The latter use the proxy from the environment, if there is one.
    """
    if transport is not None:
        return HttpxSender(transport)
    proxy = proxy_for(url)
    if proxy is None or proxy.url.scheme == "http":
        return ConnectionPool(url, verify, proxy)
    return HttpxSender(httpx.HTTPTransport(verify=verify, limits=LIMITS, proxy=proxy), proxy)  # an HTTPS or SOCKS proxy


def open_async(
    url: httpx.URL, verify: ssl.SSLContext | bool, transport: httpx.AsyncBaseTransport | None
) -> AsyncSender:
    """Like ``open_blocking``, for asyncio, with the connections of httpx.

    A given transport belongs to the event loop that uses it first.
    """
    if transport is not None:
        return AsyncHttpxSender(transport)
    proxy = proxy_for(url)
    if url.scheme == "http" and proxy is None:
        verify = False  # nothing to verify, and loading the certificates is slow
    context = httpx.create_ssl_context(verify)
    return LoopSenders(partial(httpx.AsyncHTTPTransport, verify=context, limits=ONE, proxy=proxy), proxy)
