"""A single attempt to send a request, independent of the transport."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from ..errors import InvalidResponseError, TransportTimeout
from .endpoint import RETRY_COUNT, Endpoint
from .receive import Receiver, TooLarge
from .request import Headers, OutgoingRequest

T = TypeVar("T")

CONNECT_SECONDS = 5.0
GRACE_SECONDS = 0.25
"""How much longer than the server the client waits, so that the server can report the timeout itself."""

PIECE_BYTES = 256 * 1024
"""Maximum number of bytes to send or receive at once."""


class Attempt(Generic[T]):
    """A single attempt to send a request: what is sent, the time left, and what has been received.

    Attributes:
        endpoint, request: where to send it, and what to send.
        time: the time left.
    """

    def __init__(self, endpoint: Endpoint, request: OutgoingRequest[T], retries: int = 0) -> None:
        self.endpoint = endpoint
        self.request = request
        self.time = TimeLeft(request.timeout)
        self._retries = retries
        self._status = 0
        self._headers: Headers = {}
        self._receiver: Receiver | None = None

    def __str__(self) -> str:
        return f"{self.request.method} {self.url}"

    @property
    def url(self) -> str:
        return self.endpoint.base + self.request.path

    def own_headers(self) -> Iterable[tuple[str, str]]:
        """Returns the headers of this request, in addition to those of the endpoint."""
        own = self.request.headers.items()
        return [*own, (RETRY_COUNT, str(self._retries))] if self._retries else own

    def pieces(self) -> Iterator[bytes]:
        """Yields the body in pieces, without concatenating or copying large tensors as a whole."""
        chunks = self.request.chunks
        if sum(map(len, chunks)) <= PIECE_BYTES:
            yield b"".join(chunks)
            return
        for chunk in chunks:
            view = memoryview(chunk)
            for start in range(0, len(view), PIECE_BYTES):
                self.time.check()
                yield bytes(view[start : start + PIECE_BYTES])

    def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Receives the head of the answer.

        Raises:
            InvalidResponseError: its body has a content encoding, or is larger than the answer can be.
        """
        self._status = status
        self._headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        encoding = self._headers.get("content-encoding", "identity")
        if encoding.strip().lower() != "identity":
            raise self._refuse(f"its content encoding is {encoding[:80]!r}, but identity was requested")
        try:
            self._receiver = Receiver(self._headers, self.request.most_bytes_of(status))
        except TooLarge as error:
            raise self._refuse(str(error)) from None

    def receive(self, piece: bytes) -> None:
        """Receives a piece of the answer's body.

        Raises:
            InvalidResponseError: the body is larger than the answer can be.
            TransportTimeout: the time is up.
        """
        assert self._receiver is not None
        try:
            self._receiver.take(piece)
        except TooLarge as error:
            raise self._refuse(str(error), piece) from None
        self.time.check()

    def result(self) -> T:
        """Returns the result, once the body of the answer has been received.

        Raises:
            OpwireError: the answer is an error.
        """
        assert self._receiver is not None
        return self.request.result(self._status, self._headers, self._receiver.body())

    def _refuse(self, why: str, body: bytes = b"") -> InvalidResponseError:
        return self.request.refuse(self._status, self._headers, "not read", why, body)


class TimeLeft:
    """The time left for an attempt."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds + GRACE_SECONDS

    def left(self) -> float | None:
        """Returns the seconds left, None for no limit.

        Raises:
            TransportTimeout: no time is left.
        """
        if self._end is None:
            return None
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.over()
        return left

    def to_connect(self) -> float:
        """Returns the seconds left to open a connection."""
        left = self.left()
        return CONNECT_SECONDS if left is None else min(left, CONNECT_SECONDS)

    def check(self) -> None:
        """Raises TransportTimeout if no time is left, since many short waits can add up."""
        if self._end is not None and time.monotonic() > self._end:
            raise self.over()

    def over(self) -> TransportTimeout:
        """Returns the error for an expired timeout."""
        return TransportTimeout(f"no answer within {self._seconds:g} s")
