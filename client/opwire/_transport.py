"""Requests and answers of httpx: what both clients send, receive, and make of its errors."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import TracebackType
from typing import Generic, TypeVar

import httpx

from ._exchange import Exchange, read_reply
from ._receive import Receiver
from .errors import ConnectError, OpwireError, TransportError, TransportTimeout
from .wire import HEAD_LENGTH, Buffer

T = TypeVar("T")
Tr = TypeVar("Tr")
"""A transport of httpx."""

DEFAULT_URL = "http://127.0.0.1:8000"
CONNECT_SECONDS = 5.0
GRACE_SECONDS = 0.25
"""How much longer than the server the client waits, so that the server can say itself that the time is over."""

MOST_CONNECTIONS = 100
IDLE_SECONDS = 30.0
"""The server keeps an idle connection for longer than this, so the client never writes to one that is being closed."""

LIMITS = httpx.Limits(
    max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_CONNECTIONS, keepalive_expiry=IDLE_SECONDS
)

_PIECE_BYTES = 256 * 1024
_FIRST_DELAY, _LONGEST_DELAY = 0.05, 1.0

RETRY_COUNT = "X-Retry-Count"
"""The header that tells the server how often this request was sent before."""

_OWN_HEADERS = ("Accept", "Content-Type", "Content-Length", HEAD_LENGTH, RETRY_COUNT)

# The first row that matches decides.
_ERRORS: tuple[tuple[type[httpx.HTTPError], type[TransportError], str], ...] = (
    (httpx.ConnectTimeout, ConnectError, "no connection"),
    (httpx.TimeoutException, TransportTimeout, "no answer in time"),
    (httpx.ConnectError, ConnectError, "no connection"),
    (httpx.UnsupportedProtocol, ConnectError, "no connection"),
    (httpx.ProxyError, ConnectError, "no connection"),
    (httpx.DecodingError, TransportError, "the answer cannot be decoded"),
    (httpx.HTTPError, ConnectError, "the connection broke"),
)


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
    """Where requests go, and the headers that each of them carries."""

    base: str
    headers: tuple[tuple[bytes, bytes], ...]

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None, headers: Mapping[str, str] | None) -> Endpoint:
        """The endpoint for the arguments of a client; what is None comes from the environment.

        Raises:
            ValueError: the URL has no host, or a header is one that the client sets itself.
        """
        base = (base_url or os.environ.get("OPWIRE_URL") or DEFAULT_URL).rstrip("/")
        try:
            url = httpx.URL(base)
        except httpx.InvalidURL as error:
            raise ValueError(f"{base!r} is not a URL: {error}") from error
        if not url.host:
            raise ValueError(f"{base!r} is not a URL with a host, such as {DEFAULT_URL}")
        common = httpx.Headers({"Host": url.netloc.decode("ascii"), "User-Agent": f"opwire/{package_version()}"})
        common.update(headers)
        own = [name for name in _OWN_HEADERS if name in common]
        if own:
            raise ValueError(f"{', '.join(own)} cannot be set: the client sets it for each request")
        if api_key is None and "Authorization" not in common:
            api_key = os.environ.get("OPWIRE_API_KEY")
        if api_key is not None:
            common["Authorization"] = f"Bearer {api_key}"
        return cls(base, tuple(common.raw))


_parse_url = lru_cache(maxsize=64)(httpx.URL)


class Attempt(Generic[T]):
    """One try at an exchange: the request, the time left for it, and what has arrived.

    As a context manager it turns the errors of httpx into those of opwire.
    """

    def __init__(self, endpoint: Endpoint, exchange: Exchange[T], retries: int = 0) -> None:
        self._exchange = exchange
        self._url = endpoint.base + exchange.path
        self._time = _TimeLeft(exchange.timeout)
        self._receiver = Receiver({})
        headers = [*endpoint.headers, *((k.encode(), v.encode()) for k, v in exchange.headers.items())]
        if retries:
            headers.append((RETRY_COUNT.encode(), b"%d" % retries))
        self.request = httpx.Request(
            exchange.method,
            _parse_url(self._url),
            headers=headers,
            stream=_Body(exchange.chunks, self._time),
            extensions={"timeout": self._time},
        )

    def begin(self, response: httpx.Response) -> bool:
        """Takes the head of the answer. Returns whether its body must be decoded before it is received."""
        self._receiver = Receiver(response.headers)
        return self._receiver.encoded

    def receive(self, piece: bytes) -> None:
        """Takes a piece of the answer's body."""
        self._receiver.take(piece)
        self._time.check()

    def result(self, response: httpx.Response) -> T:
        """What the answer comes to, once its body has been received.

        Raises:
            OpwireError: the one that it stands for.
        """
        return read_reply(self._exchange, response.status_code, response.headers, self._receiver.body())

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, httpx.HTTPError):
            ours, words = next((row[1], row[2]) for row in _ERRORS if isinstance(error, row[0]))
            raise ours(f"{words} ({self.request.method} {self._url}): {str(error) or type(error).__name__}") from error


class _TimeLeft(Mapping[str, float | None]):
    """httpx's timeouts for the phases of a request, each of them the time that is left when the phase begins."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds + GRACE_SECONDS

    def check(self) -> None:
        """Raises TransportTimeout once no time is left: a phase may go on for long with many short waits."""
        if self._end is not None and time.monotonic() > self._end:
            raise TransportTimeout(f"no answer within {self._seconds:g} s")

    def __getitem__(self, phase: str) -> float | None:
        # A socket takes 0 as an order not to wait at all, and fails in another way.
        left = None if self._end is None else max(self._end - time.monotonic(), 0.001)
        if phase != "connect":
            return left
        return CONNECT_SECONDS if left is None else min(left, CONNECT_SECONDS)

    def __iter__(self) -> Iterator[str]:
        return iter(("connect", "read", "write", "pool"))

    def __len__(self) -> int:
        return 4


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A request's body, sent in pieces: a large tensor is neither joined to anything nor copied whole."""

    def __init__(self, chunks: Sequence[Buffer], left: _TimeLeft) -> None:
        self._chunks = chunks
        self._time = left

    def __iter__(self) -> Iterator[bytes]:
        if sum(map(len, self._chunks)) <= _PIECE_BYTES:
            yield b"".join(self._chunks)
            return
        for chunk in self._chunks:
            view = memoryview(chunk)
            for start in range(0, len(view), _PIECE_BYTES):
                self._time.check()
                yield bytes(view[start : start + _PIECE_BYTES])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


class Connections(Generic[Tr]):
    """The connections of a client, which those derived from it use too.

    No client of httpx stands around its transport: what that adds (cookies, redirects, proxies of the environment)
    has no use here, and takes longer than a small operator.
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


class Patience:
    """The waits of a client for a server that is not ready yet: short at first, then longer, until the time is over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._delay = _FIRST_DELAY

    @property
    def left(self) -> float:
        """Seconds that a try may take."""
        return min(max(self._end - time.monotonic(), 0.001), CONNECT_SECONDS)

    def delay(self, reason: OpwireError) -> float:
        """Seconds until the next try.

        Raises:
            TransportTimeout: there is no time for another; it gives the reason why the last one failed.
        """
        delay, self._delay = self._delay, min(2 * self._delay, _LONGEST_DELAY)
        if time.monotonic() + delay >= self._end:
            raise TransportTimeout(f"not ready within {self._seconds:g} s: {reason.detail}") from reason
        return delay
