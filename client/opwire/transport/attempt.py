"""One try at an exchange, over a transport of httpx: the same for both clients."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Generic, TypeVar

import httpx

from ..errors import ConnectError, InvalidResponseError, TransportError, TransportTimeout
from ..wire import Buffer
from .endpoint import RETRY_COUNT, Endpoint
from .exchange import Exchange
from .receive import Receiver, TooLarge

T = TypeVar("T")

CONNECT_SECONDS = 5.0
GRACE_SECONDS = 0.25
"""How much longer than the server the client waits, so that the server can say itself that the time is over."""

_PIECE_BYTES = 256 * 1024

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

_parse_url = lru_cache(maxsize=64)(httpx.URL)


class Attempt(Generic[T]):
    """One try at an exchange: the request, the time left for it, and what has arrived.

    As a context manager it turns the errors of httpx into those of opwire.
    """

    def __init__(self, endpoint: Endpoint, exchange: Exchange[T], retries: int = 0) -> None:
        self._exchange = exchange
        self._url = endpoint.base + exchange.path
        self.time = TimeLeft(exchange.timeout)
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._receiver: Receiver | None = None
        headers = [*endpoint.headers, *((k.encode(), v.encode()) for k, v in exchange.headers.items())]
        if retries:
            headers.append((RETRY_COUNT.encode(), b"%d" % retries))
        self.request = httpx.Request(
            exchange.method,
            _parse_url(self._url),
            headers=headers,
            stream=_Body(exchange.chunks, self.time),
            extensions={"timeout": self.time},
        )

    def begin(self, response: httpx.Response) -> None:
        """Takes the head of the answer.

        Raises:
            InvalidResponseError: its body is in an encoding, or larger than what was asked for can be.
        """
        self._status, self._headers = response.status_code, response.headers
        encoding = self._headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            raise self._refuse(f"it is encoded as {encoding[:80]!r}, and identity was asked for")
        try:
            self._receiver = Receiver(self._headers, self._exchange.most_bytes_of(self._status))
        except TooLarge as error:
            raise self._refuse(str(error)) from None

    def receive(self, piece: bytes) -> None:
        """Takes a piece of the answer's body.

        Raises:
            InvalidResponseError: the body is larger than what was asked for can be.
            TransportTimeout: the time is over.
        """
        assert self._receiver is not None
        try:
            self._receiver.take(piece)
        except TooLarge as error:
            raise self._refuse(str(error), piece) from None
        self.time.check()

    def result(self) -> T:
        """The result in the answer, once its body has been received.

        Raises:
            OpwireError: the one that the answer stands for.
        """
        assert self._receiver is not None
        return self._exchange.result(self._status, self._headers, self._receiver.body())

    def _refuse(self, why: str, body: bytes = b"") -> InvalidResponseError:
        return self._exchange.refuse(self._status, self._headers, "which is not read", why, body)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, httpx.HTTPError):
            ours, words = next((row[1], row[2]) for row in _ERRORS if isinstance(error, row[0]))
            raise ours(f"{words} ({self.request.method} {self._url}): {str(error) or type(error).__name__}") from error


class TimeLeft(Mapping[str, float | None]):
    """httpx's timeouts for the phases of a request, each of them the time that is left when the phase begins.

    Looked up when no time is left, it raises TransportTimeout.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds + GRACE_SECONDS

    def left(self) -> float | None:
        """Seconds, None for no limit.

        Raises:
            TransportTimeout: there are none.
        """
        if self._end is None:
            return None
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.over()
        return left

    def check(self) -> None:
        """Raises TransportTimeout once no time is left: a phase may go on for long with many short waits."""
        if self._end is not None and time.monotonic() > self._end:
            raise self.over()

    def over(self) -> TransportTimeout:
        return TransportTimeout(f"no answer within {self._seconds:g} s")

    def __getitem__(self, phase: str) -> float | None:
        left = self.left()
        if phase != "connect":
            return left
        return CONNECT_SECONDS if left is None else min(left, CONNECT_SECONDS)

    def __iter__(self) -> Iterator[str]:
        return iter(("connect", "read", "write", "pool"))

    def __len__(self) -> int:
        return 4


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A request's body, sent in pieces: a large tensor is neither joined to anything nor copied whole."""

    def __init__(self, chunks: Sequence[Buffer], left: TimeLeft) -> None:
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
