"""One try at a request: the same whatever it is sent over."""

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
"""How much longer than the server the client waits, so that the server can say itself that the time is over."""

PIECE_BYTES = 256 * 1024
"""Bytes that are sent or received at once."""


class Attempt(Generic[T]):
    """One try at a request: what is sent, the time left for it, and what has arrived.

    Attributes:
        endpoint, request: where it goes, and what.
        time: that is left.
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
        """The headers of this request, beside those of the endpoint."""
        own = self.request.headers.items()
        return [*own, (RETRY_COUNT, str(self._retries))] if self._retries else own

    def pieces(self) -> Iterator[bytes]:
        """The body, in pieces: a large tensor is neither joined to anything nor copied whole."""
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
        """Takes the head of the answer.

        Raises:
            InvalidResponseError: its body is in an encoding, or larger than what was asked for can be.
        """
        self._status = status
        self._headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        encoding = self._headers.get("content-encoding", "identity")
        if encoding.strip().lower() != "identity":
            raise self._refuse(f"it is encoded as {encoding[:80]!r}, and identity was asked for")
        try:
            self._receiver = Receiver(self._headers, self.request.most_bytes_of(status))
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
        return self.request.result(self._status, self._headers, self._receiver.body())

    def _refuse(self, why: str, body: bytes = b"") -> InvalidResponseError:
        return self.request.refuse(self._status, self._headers, "which is not read", why, body)


class TimeLeft:
    """The time that is left for an attempt."""

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

    def to_connect(self) -> float:
        """Seconds for a new connection."""
        left = self.left()
        return CONNECT_SECONDS if left is None else min(left, CONNECT_SECONDS)

    def check(self) -> None:
        """Raises TransportTimeout once no time is left: a phase may go on for long with many short waits."""
        if self._end is not None and time.monotonic() > self._end:
            raise self.over()

    def over(self) -> TransportTimeout:
        """The error that the time is over."""
        return TransportTimeout(f"no answer within {self._seconds:g} s")
