"""What the clients send over: the transports of httpx that they open, or one that they are given."""

from __future__ import annotations

import ssl
from typing import Generic, TypeVar

import httpx

from .pool import LIMITS, PooledTransport
from .proxies import proxy_for

Tr = TypeVar("Tr")
"""A transport of httpx."""


class Connections(Generic[Tr]):
    """The connections of a client, which those derived from it use too.

    No client of httpx stands around its transport: what that adds (cookies, redirects, decoding) has no use here, and
    takes longer than a small operator.
    """

    def __init__(self, transport: Tr) -> None:
        self._transport = transport
        self._closed = False

    @property
    def transport(self) -> Tr:
        """What sends requests.

        Raises:
            RuntimeError: the client is closed.
        """
        if self._closed:
            raise RuntimeError("the client is closed")
        return self._transport

    def close(self) -> Tr:
        """Sends no more. Returns the transport, to be closed."""
        self._closed = True
        return self._transport


def open_blocking(url: httpx.URL, verify: ssl.SSLContext | bool) -> httpx.BaseTransport:
    """A transport for requests to a server, over the proxy of the environment if there is one."""
    proxy = proxy_for(url)
    if proxy is None or proxy.url.scheme == "http":
        return PooledTransport(verify, proxy)
    return httpx.HTTPTransport(verify=verify, limits=LIMITS, proxy=proxy)  # TLS to the proxy, or SOCKS


def open_async(url: httpx.URL, verify: ssl.SSLContext | bool) -> httpx.AsyncBaseTransport:
    """The same for asyncio."""
    return httpx.AsyncHTTPTransport(verify=verify, limits=LIMITS, proxy=proxy_for(url))
