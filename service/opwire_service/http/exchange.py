"""One request to a data route: its headers and its body, bounded before it is read, and the answer to it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opwire.errors import (
    DeadlineExceededError,
    LengthRequiredError,
    ProblemCode,
    RequestError,
    SlowBodyError,
    UnsupportedMediaError,
)
from opwire.wire import BINARY, HEAD_LENGTH, JSON, Answer, Buffer

from ..engine.limits import exceeded
from ..engine.memory import Hold
from ..engine.progress import Progress
from ..settings import Limits
from .connection import FIRST_WINDOW
from .context import REQUEST_ID, request_id
from .cycle import JOINED_BYTES, Admit, Cycle, cycle_of

Fields = Sequence[tuple[bytes, bytes]]
"""Header fields."""

_HEAD_LENGTH = HEAD_LENGTH.lower().encode()
_JSON = JSON.encode()
_BINARY = BINARY.encode()
_ALIGNMENT = 64

_LARGE_PAGES_FROM = 2**22
"""Bytes of an array for which NumPy asks for large pages."""

_SENT_BYTES = 2**20
"""Bytes of an answer that are sent at a time: the event loop copies them, into chunks or to encrypt them."""


class Exchange:
    """One request to a data route, and the answer to it.

    Attributes:
        scope, receive: of ASGI.
        request_id: in the answer's header and in problems.
        progress: of the request.
        answered: whether the answer has begun.
        status: of the answer, unless it is a problem.
        unread: bytes of a body of which nothing was read.
    """

    __slots__ = ("_headers", "_send", "answered", "progress", "receive", "request_id", "scope", "status", "unread")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self._send = send
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = request_id(self._headers.get(REQUEST_ID))
        self.progress = Progress()
        self.answered = False
        self.status = 200
        self.unread: float = 0

    def header(self, name: bytes, default: str = "") -> str:
        """A header of the request."""
        value = self._headers.get(name)
        return default if value is None else value.decode("latin-1")

    @property
    def client(self) -> str | None:
        """The owner of the request's API key."""
        owner: str | None = self.scope.get("state", {}).get("client")
        return owner

    @property
    def wants_binary(self) -> bool:
        """Whether the client asks for tensors in a tail."""
        return _BINARY in self._headers.get(b"accept", b"")

    def head_length(self) -> str | None:
        """The length of the JSON head where the body has a tail; None where all of it is JSON.

        Raises:
            UnsupportedMediaError: the body is of another type.
            RequestError: type and header do not fit.
        """
        given = self._headers
        if given.get(b"content-type") == _JSON and _HEAD_LENGTH not in given and b"content-encoding" not in given:
            return None  # almost always
        encoding = self.header(b"content-encoding", "identity")
        if encoding != "identity":
            raise _unsupported(f"content encoding {encoding[:60]!r} given; bodies are taken as they are")
        media = self.header(b"content-type", JSON)
        if media not in (JSON, BINARY):
            media = media.partition(";")[0].strip().lower()
        length = self.head_length_of_any_type()
        if media == BINARY:
            if length is None:
                raise RequestError(ProblemCode.INVALID_FRAMING, f"{BINARY} needs the header {HEAD_LENGTH}")
            return length
        if media != JSON:
            raise _unsupported(f"content type {media[:60]!r} given; allowed: {JSON}, {BINARY}")
        if length is not None:
            raise RequestError(ProblemCode.INVALID_FRAMING, f"{HEAD_LENGTH} belongs to bodies of type {BINARY}")
        return None

    def head_length_of_any_type(self) -> str | None:
        """The length of the JSON head by its header alone, for clients that do not say what they send."""
        return self.header(_HEAD_LENGTH) if _HEAD_LENGTH in self._headers else None

    async def read_body(self, limits: Limits, hold: Hold) -> Buffer:
        """The whole body, as soon as there is memory for it.

        What stands behind a JSON head is aligned in memory, so that it can be used where it is.

        Raises:
            LengthRequiredError, LimitExceededError, OverloadedError: before anything is read.
            DeadlineExceededError: there was no memory for it in time.
            SlowBodyError: it did not arrive in time.
            ClientDisconnect: the client is gone.
        """
        length = self._headers.get(b"content-length")
        if length is None:
            self.unread = math.inf if b"transfer-encoding" in self._headers else 0
            raise LengthRequiredError(ProblemCode.LENGTH_REQUIRED, "send the body with a Content-Length, not in chunks")
        size = int(length)  # the parser has checked that it is a number
        self.unread = size
        if size > limits.body_bytes:
            raise exceeded(ProblemCode.BODY_TOO_LARGE, "bytes in the body", size, limits.body_bytes)
        request = cycle_of(self.scope)
        if request is not None and request.has_arrived(size) and hold.take_arrived(size):
            self.unread = 0
            self.progress.lap("receive")
            return request.whole_body()
        deadline = self.progress.started + limits.timeout_ms / 1000
        await hold.take_body(_first_bytes(size), size, deadline)
        self.unread = 0
        if request is not None:
            hold.has_unread = request.has_unread
        try:
            async with asyncio.timeout(limits.receive_ms / 1000):
                body = await self._receive(size, request, lambda more: hold.take_body(more, size, deadline))
        except TimeoutError:
            detail = f"the body did not arrive within {limits.receive_ms} ms"
            raise SlowBodyError(ProblemCode.SLOW_BODY, detail) from None
        hold.arrived()
        self.progress.lap("receive")
        return body

    async def _receive(self, size: int, request: Cycle | None, admit: Admit) -> Buffer:
        length = self.head_length_of_any_type() or ""
        shift = -int(length[-9:]) % _ALIGNMENT if length.isdecimal() else 0
        # Unlike a bytearray it is not cleared first, and the system gives large pages for it.
        body = np.empty(shift + size, np.uint8).data[shift:]
        if request is not None:
            await request.fill(body, admit)
        else:
            await admit(size - min(size, FIRST_WINDOW))
            await _fill(self.receive, body)
        return body

    async def send_answer(
        self, answer: Answer, headers: Fields = (), encoded: bytes | None = None, status: int = 200
    ) -> None:
        """Sends an answer; a large one piece by piece, without joining them.

        Args:
            encoded: all of it in the content encoding that the headers name, if they name one.

        Raises:
            DeadlineExceededError: the client has not read it in time; the connection is gone.
        """
        self.answered, self.status = True, status
        pieces = [*answer.head, *answer.tail] if encoded is None else [encoded]
        size, head_length = sum(map(len, pieces)), answer.head_length
        fields = [
            (b"content-type", _JSON if head_length is None else _BINARY),
            (b"content-length", b"%d" % size),
            (REQUEST_ID, self.request_id.encode()),
            *headers,
        ]
        if head_length is not None:
            fields.append((_HEAD_LENGTH, b"%d" % head_length))
        if size <= JOINED_BYTES:
            await self._send({"type": "http.response.start", "status": status, "headers": fields})
            await self._send({"type": "http.response.body", "body": b"".join(pieces)})
            return
        async with self._read_in_time():
            await self._begin(fields)
            await self._send_pieces(pieces)
            await self._end()

    async def send_stream(self, pieces: AsyncIterator[Sequence[Buffer]]) -> None:
        """Sends JSON as it comes, in pieces of some size; what is small altogether is sent whole.

        Raises:
            DeadlineExceededError: the client has not read it in time; the connection is gone.
        """
        waiting: list[Buffer] = []
        size = 0
        async for some in pieces:
            waiting += some
            size += sum(map(len, some))
            if size > JOINED_BYTES and self.scope["http_version"] != "1.0":
                await self._send_some(waiting)
                waiting, size = [], 0
        if self.answered:
            await self._send_some(waiting, more=False)
        else:
            await self.send_answer(Answer(waiting))

    async def _send_some(self, pieces: Sequence[Buffer], *, more: bool = True) -> None:
        async with self._read_in_time():
            if not self.answered:
                self.answered = True
                await self._begin([(b"content-type", _JSON), (REQUEST_ID, self.request_id.encode())])
            await self._send_pieces(pieces)
            if not more:
                await self._end()

    async def _begin(self, fields: Fields) -> None:
        await self._send({"type": "http.response.start", "status": self.status, "headers": fields})

    async def _send_pieces(self, pieces: Sequence[Buffer]) -> None:
        for piece in _cut(pieces):
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def _end(self) -> None:
        """Ends an answer, once the client has read all but a little of it: until then its memory is held."""
        await self._send({"type": "http.response.body", "body": b""})

    @asynccontextmanager
    async def _read_in_time(self) -> AsyncGenerator[None]:
        """Ends the connection if the client has not read what is sent within the deadline of the request."""
        left = self.progress.deadline - time.monotonic()
        try:
            async with asyncio.timeout(None if left == float("inf") else max(0.0, left)):
                yield
        except TimeoutError:
            request = cycle_of(self.scope)
            if request is not None:
                request.abort()
                await asyncio.sleep(0)  # until the server has noticed
            detail = "the deadline passed while the answer was read"
            raise DeadlineExceededError(ProblemCode.DEADLINE_EXCEEDED, detail, stage="send") from None

    async def send_problem(self, response: Response) -> None:
        """Answers with a problem, unless an answer has begun."""
        if self.answered:
            return
        request = cycle_of(self.scope)
        if request is not None and self.unread > FIRST_WINDOW:
            request.refuse(response)
        else:
            await response(self.scope, self.receive, self._send)


def _first_bytes(size: int) -> int:
    """The memory of the first window of a body, which may touch one large page more than its bytes fill."""
    return min(size, FIRST_WINDOW) + (FIRST_WINDOW if size >= _LARGE_PAGES_FROM else 0)


def _cut(pieces: Sequence[Buffer]) -> Iterator[Buffer]:
    """The pieces, of which small ones are joined to the next ones, and large ones cut."""
    small: list[Buffer] = []
    size = 0
    for piece in pieces:
        if len(piece) > JOINED_BYTES:
            yield b"".join(small)
            small, size = [], 0
            view = memoryview(piece)
            for begin in range(0, len(view), _SENT_BYTES):
                yield view[begin : begin + _SENT_BYTES]
            continue
        small.append(piece)
        size += len(piece)
        if size > JOINED_BYTES:
            yield b"".join(small)
            small, size = [], 0
    yield b"".join(small)


def _unsupported(detail: str) -> UnsupportedMediaError:
    return UnsupportedMediaError(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail)


async def _fill(receive: Receive, body: memoryview) -> None:
    """Receives a body from a server that does not fill memory itself."""
    filled, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece, more = message.get("body", b""), message.get("more_body", False)
        body[filled : filled + len(piece)] = piece
        filled += len(piece)
