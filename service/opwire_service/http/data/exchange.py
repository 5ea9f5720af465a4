"""One request to a data route: its headers, its body, whose size is checked before it is read, and its response."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs

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

from ...engine.limits import exceeded
from ...engine.memory import Hold
from ...engine.request import Request
from ...offline.onnx_models import MEDIA_TYPE
from ...settings import Limits
from ..connection.connection import FIRST_WINDOW
from ..connection.cycle import JOINED_BYTES, Admit, Cycle, cycle_of
from ..context import REQUEST_ID, request_id

T = TypeVar("T")

Fields = Sequence[tuple[bytes, bytes]]
"""Header fields."""

_HEAD_LENGTH = HEAD_LENGTH.lower().encode()
_JSON = JSON.encode()
_BINARY = BINARY.encode()
_ALIGNMENT = 64

_LARGE_PAGES_FROM = 2**22
"""Size from which NumPy requests huge pages for an array, in bytes."""

_SENT_BYTES = 2**20
"""Maximum bytes per write of a response: the event loop copies each write, to frame a chunk or to encrypt it."""


class Exchange:
    """One request to a data route and its response.

    Attributes:
        scope, receive: the ASGI scope and receive callable.
        request_id: ID in the response header and in problem documents.
        request: timing, deadline and memory of the request.
        answered: whether the response has started.
        status: status code of the response, unless it is a problem.
        unread: size of the body in bytes while none of it has been read.
    """

    __slots__ = ("_headers", "_send", "answered", "receive", "request", "request_id", "scope", "status", "unread")

    def __init__(self, scope: Scope, receive: Receive, send: Send, hold: Hold) -> None:
        self.scope = scope
        self.receive = receive
        self._send = send
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = request_id(self._headers.get(REQUEST_ID))
        self.request = Request(hold, partial(while_connected, receive))
        self.answered = False
        self.status = 200
        self.unread: float = 0

    def header(self, name: bytes, default: str = "") -> str:
        """Returns a header of the request."""
        value = self._headers.get(name)
        return default if value is None else value.decode("latin-1")

    @property
    def client(self) -> str | None:
        """Owner of the API key that the request was sent with."""
        owner: str | None = self.scope.get("state", {}).get("client")
        return owner

    @property
    def wants_binary(self) -> bool:
        """Whether the client accepts tensors in a binary tail."""
        return _BINARY in self._headers.get(b"accept", b"")

    def head_length(self) -> str | None:
        """Returns the length of the JSON head if the body has a binary tail, or None if the body is plain JSON.

        Raises:
            UnsupportedMediaError: the content type or content encoding is not supported.
            RequestError: the content type and the head-length header contradict each other.
        """
        given = self._headers
        if given.get(b"content-type") == _JSON and _HEAD_LENGTH not in given and b"content-encoding" not in given:
            return None  # fast path for nearly all requests
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

    @property
    def has_onnx(self) -> bool:
        """Whether the body is an ONNX model."""
        given = self._headers.get(b"content-type")
        return given is not None and given != _JSON and self.header(b"content-type").lower() == MEDIA_TYPE

    def query(self) -> dict[str, list[str]]:
        """Returns the parameters of the URL."""
        try:
            return parse_qs(self.scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=64)
        except ValueError:
            raise RequestError(ProblemCode.INVALID_REQUEST, "the URL has more than 64 parameters") from None

    def head_length_of_any_type(self) -> str | None:
        """Returns the head-length header whatever the content type, for clients that send none."""
        return self.header(_HEAD_LENGTH) if _HEAD_LENGTH in self._headers else None

    async def read_body(self, limits: Limits) -> Buffer:
        """Reads the whole body, as memory for it becomes available.

        The binary tail behind a JSON head is aligned in memory, so that its tensors can be used without a copy.

        Raises:
            LengthRequiredError, LimitExceededError, OverloadedError: the body was refused before any of it was read.
            DeadlineExceededError: no memory became available in time.
            SlowBodyError: the body did not arrive in time.
            ClientDisconnect: the client disconnected.
        """
        length = self._headers.get(b"content-length")
        if length is None:
            self.unread = math.inf if b"transfer-encoding" in self._headers else 0
            raise LengthRequiredError(ProblemCode.LENGTH_REQUIRED, "send the body with a Content-Length, not in chunks")
        size = int(length)  # the parser has checked that it is a number
        self.unread = size
        if size > limits.body_bytes:
            raise exceeded(ProblemCode.BODY_TOO_LARGE, "bytes in the body", size, limits.body_bytes)
        cycle, hold = cycle_of(self.scope), self.request.hold
        if cycle is not None and cycle.has_arrived(size) and hold.take_arrived(size):
            self.unread = 0
            self.request.lap("receive")
            return cycle.whole_body()
        deadline = self.request.started + limits.timeout_ms / 1000
        await hold.take_body(_first_bytes(size), size, deadline)
        self.unread = 0
        if cycle is not None:
            hold.has_unread = cycle.owner.has_unread
        try:
            async with asyncio.timeout(limits.receive_ms / 1000):
                body = await self._receive(size, cycle, lambda more: hold.take_body(more, size, deadline))
        except TimeoutError:
            detail = f"the body did not arrive within {limits.receive_ms} ms"
            raise SlowBodyError(ProblemCode.SLOW_BODY, detail) from None
        hold.arrived()
        self.request.lap("receive")
        return body

    async def _receive(self, size: int, cycle: Cycle | None, admit: Admit) -> Buffer:
        length = self.head_length_of_any_type() or ""
        shift = -int(length[-9:]) % _ALIGNMENT if length.isdecimal() else 0
        # Unlike a bytearray, it is not zeroed first and may get huge pages.
        body = np.empty(shift + size, np.uint8).data[shift:]
        if cycle is not None:
            await cycle.owner.fill(cycle, body, admit)
        else:
            await admit(size - min(size, FIRST_WINDOW))
            await _fill(self.receive, body)
        return body

    async def send_answer(
        self, answer: Answer, headers: Fields = (), encoded: bytes | None = None, status: int = 200
    ) -> None:
        """Sends a response. The pieces of a large one are sent separately rather than joined.

        Args:
            answer: the response body.
            headers: further header fields.
            encoded: the whole body in the content encoding named by ``headers``, if there is one.
            status: status code.

        Raises:
            DeadlineExceededError: the client did not read the response in time; the connection has been aborted.
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
        """Streams a JSON response. Small pieces are joined, and a small response is sent whole.

        Raises:
            DeadlineExceededError: the client did not read the response in time; the connection has been aborted.
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
        """Ends a response once the client has read nearly all of it; until then its memory stays held."""
        await self._send({"type": "http.response.body", "body": b""})

    @asynccontextmanager
    async def _read_in_time(self) -> AsyncGenerator[None]:
        """Aborts the connection if the client does not read what is sent before the request's deadline."""
        left = self.request.deadline - time.monotonic()
        try:
            async with asyncio.timeout(None if left == float("inf") else max(0.0, left)):
                yield
        except TimeoutError:
            cycle = cycle_of(self.scope)
            if cycle is not None:
                cycle.owner.transport.abort()
                await asyncio.sleep(0)  # lets the server notice
            detail = "the deadline passed while the answer was read"
            raise DeadlineExceededError(ProblemCode.DEADLINE_EXCEEDED, detail, stage="send") from None

    async def send_problem(self, response: Response) -> None:
        """Responds with a problem, unless a response has started."""
        if self.answered:
            return
        cycle = cycle_of(self.scope)
        if cycle is not None and self.unread > FIRST_WINDOW:
            cycle.refuse(response)
        else:
            await response(self.scope, self.receive, self._send)


def _first_bytes(size: int) -> int:
    """Returns the memory that the first window of a body takes; with huge pages it may touch one page more."""
    return min(size, FIRST_WINDOW) + (FIRST_WINDOW if size >= _LARGE_PAGES_FROM else 0)


def _cut(pieces: Sequence[Buffer]) -> Iterator[Buffer]:
    """Regroups pieces for sending: joins consecutive small ones and cuts up large ones."""
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
    """Receives a body through plain ASGI, for servers without ``Cycle``."""
    filled, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece, more = message.get("body", b""), message.get("more_body", False)
        body[filled : filled + len(piece)] = piece
        filled += len(piece)


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Awaits work and returns its result, cancelling it if the client disconnects.

    Raises:
        ClientDisconnect: the client disconnected.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        for pending in (task, gone):
            pending.cancel()
        await asyncio.wait((task, gone))


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
