"""Attempts over a transport of httpx: that of the asynchronous client, and those that callers bring."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import httpx

from ..errors import ConnectError, TransportError, TransportTimeout
from .attempt import Attempt, TimeLeft
from .proxies import unreached

# The first row that matches decides. None stands for no connection, perhaps over a proxy.
_ERRORS: tuple[tuple[type[httpx.HTTPError], type[TransportError], str | None], ...] = (
    (httpx.ConnectTimeout, ConnectError, None),
    (httpx.TimeoutException, TransportTimeout, "no answer in time"),
    (httpx.ConnectError, ConnectError, None),
    (httpx.UnsupportedProtocol, ConnectError, None),
    (httpx.ProxyError, ConnectError, None),
    (httpx.DecodingError, TransportError, "the answer cannot be decoded"),
    (httpx.HTTPError, ConnectError, "the connection broke"),
)

_parse_url = lru_cache(maxsize=64)(httpx.URL)


class OverHttpx:
    """Sends attempts over a blocking transport of httpx."""

    def __init__(self, transport: httpx.BaseTransport, proxy: httpx.Proxy | None = None) -> None:
        self._transport = transport
        self._proxy = proxy

    def send(self, attempt: Attempt[Any]) -> None:
        """Sends the request and receives the answer.

        Raises:
            OpwireError: there is none, or none that is read.
        """
        with _errors_of(attempt, self._proxy):
            response = self._transport.handle_request(_request(attempt))
            try:
                attempt.begin(response.status_code, response.headers.raw)
                assert isinstance(response.stream, httpx.SyncByteStream)
                for piece in response.stream:
                    attempt.receive(piece)
            finally:
                response.close()

    def close(self) -> None:
        self._transport.close()


class OverAsyncHttpx:
    """The same over an asynchronous one."""

    def __init__(self, transport: httpx.AsyncBaseTransport, proxy: httpx.Proxy | None = None) -> None:
        self._transport = transport
        self._proxy = proxy

    async def send(self, attempt: Attempt[Any]) -> None:
        """As ``OverHttpx.send``."""
        import asyncio  # the other client has no use for it

        try:
            async with asyncio.timeout(attempt.time.left()):
                with _errors_of(attempt, self._proxy):
                    await self._send(attempt)
        except TimeoutError:  # a phase went on for long with many short waits
            raise attempt.time.over() from None

    async def _send(self, attempt: Attempt[Any]) -> None:
        response = await self._transport.handle_async_request(_request(attempt))
        try:
            attempt.begin(response.status_code, response.headers.raw)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            async for piece in response.stream:
                attempt.receive(piece)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        await self._transport.aclose()


def _request(attempt: Attempt[Any]) -> httpx.Request:
    own = [(name.encode(), value.encode()) for name, value in attempt.own_headers()]
    return httpx.Request(
        attempt.request.method,
        _parse_url(attempt.url),
        headers=[*attempt.endpoint.headers, *own],
        stream=_Body(attempt),
        extensions={"timeout": _Timeouts(attempt.time)},
    )


@contextmanager
def _errors_of(attempt: Attempt[Any], proxy: httpx.Proxy | None) -> Generator[None]:
    """Turns the errors of httpx into those of opwire."""
    try:
        yield
    except httpx.HTTPError as error:
        ours, words = next((row[1], row[2]) for row in _ERRORS if isinstance(error, row[0]))
        raise ours(f"{words or unreached(proxy)} ({attempt}): {str(error) or type(error).__name__}") from error


class _Timeouts(Mapping[str, float | None]):
    """httpx's timeouts for the phases of a request, each of them the time that is left when the phase begins."""

    def __init__(self, time: TimeLeft) -> None:
        self._time = time

    def __getitem__(self, phase: str) -> float | None:
        return self._time.to_connect() if phase == "connect" else self._time.left()

    def __iter__(self) -> Iterator[str]:
        return iter(("connect", "read", "write", "pool"))

    def __len__(self) -> int:
        return 4


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of a request."""

    def __init__(self, attempt: Attempt[Any]) -> None:
        self._attempt = attempt

    def __iter__(self) -> Iterator[bytes]:
        return self._attempt.pieces()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._attempt.pieces():
            yield piece
