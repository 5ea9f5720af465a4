"""Bodies in and out: bounded before they are read, received into one buffer, sent piece by piece."""

from __future__ import annotations

import asyncio
import time

import numpy as np
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from opwire.errors import (
    DeadlineExceededError,
    LengthRequiredError,
    LimitExceededError,
    ProblemCode,
    RequestError,
    SlowBodyError,
    UnsupportedMediaError,
)
from opwire.wire import BINARY, HEAD_LENGTH, JSON, Answer, Buffer

from ..engine.memory import Hold
from ..engine.pipeline import Stopwatch
from ..engine.request_templates import LARGEST, is_small
from ..settings import Limits
from .context import REQUEST_ID, request_id
from .filling import FILL
from .known import Again, Fields

ABORT = "opwire.abort"
"""Extension of the ASGI scope: its ``abort`` ends the connection at once."""

WHOLE_BODY = "opwire.body"
"""Member of the ASGI scope: what has arrived of the body when its end had. A small one is there from the start."""

RESPOND = "opwire.respond"
"""Member of the ASGI scope: sends headers and body of a small answer in one piece, unless it returns False."""

_HEAD_LENGTH = HEAD_LENGTH.lower().encode()
_JSON = JSON.encode()
_BINARY = BINARY.encode()
_ALIGNMENT = 64
_COUNTED_TOGETHER = 256 * 1024
JOINED_BYTES = 64 * 1024
"""Up to this size it is cheaper to join the pieces of an answer than to send them one by one."""


ELEMENT_BYTES = 128
"""Memory that an element of a list in JSON takes as Python objects, until its array is made.

Measured: 31 for a small integer to 67 for other numbers in a flat list, 95 to 119 where each has a list of its own.
"""

_FEW_ELEMENTS = 4096
"""Bytes of JSON that cannot hold enough elements to matter."""


class Exchange:
    """One request to a data route, and the answer to it.

    Attributes:
        receive: the ASGI channel, for the body and for the news that the client is gone.
        request_id: in the answer's header and in problems.
        again: what answers others like it at once, if there is something that does.
        answered: whether the answer has begun.
        operator: of the request, once it is known; for the log.
        device: that ran it, once it has.
        watch: what times the request, where its stages are timed.
        deadline: on the clock of ``time.monotonic``, if the request has its own; until then the client must have read
            the answer. The server's longest time is kept by its protocol.
        unread: bytes of a body of which nothing was read.
    """

    __slots__ = (
        "_headers",
        "_scope",
        "_send",
        "again",
        "answered",
        "deadline",
        "device",
        "operator",
        "receive",
        "request_id",
        "unread",
        "watch",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self._headers = headers
        self.deadline: float | None = None
        self._send = send
        self.receive = receive
        self.request_id = request_id(headers.get(REQUEST_ID))
        self.again: Again | None = None
        self.answered = False
        self.operator: object = None
        self.device: str | None = None
        self.watch: Stopwatch | None = None
        self.unread = 0

    @property
    def client(self) -> str | None:
        """Whose API key the request carries; None on a server without keys."""
        owner: str | None = self._scope.get("state", {}).get("client")
        return owner

    def header(self, name: bytes, default: str = "") -> str:
        """A header of the request."""
        value = self._headers.get(name)
        return default if value is None else value.decode("latin-1")

    def arrived(self) -> bytes | None:
        """The body if all of it has arrived before anything of it was received."""
        found = self._scope.get(WHOLE_BODY)
        return None if found is None else bytes(found)

    async def fill(self, body: memoryview) -> None:
        """Receives the body into memory of its size.

        Raises:
            ClientDisconnect: the client is gone.
        """
        fill = self._scope.get(FILL)
        await (_fill(self.receive, body) if fill is None else fill(body))

    @property
    def wants_binary(self) -> bool:
        """Whether the client asks for tensors in a tail."""
        return BINARY in self.header(b"accept")

    def content_length(self) -> int | None:
        """The size of the body; the server has checked that it is a number."""
        value = self._headers.get(b"content-length")
        return None if value is None else int(value)

    def head_length(self) -> str | None:
        """The length of the JSON head where the body has a tail; None where all of it is JSON.

        Raises:
            UnsupportedMediaError: the body is of another type.
            RequestError: type and header do not fit.
        """
        headers = self._headers
        if (
            headers.get(b"content-type", _JSON) == _JSON
            and _HEAD_LENGTH not in headers
            and b"content-encoding" not in headers
        ):
            return None
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

    async def answer_again(self, again: Again, body: Buffer) -> bool:
        """Answers a request that came before with other tensors; returns whether it did.

        Args:
            again: knows how.
            body: as received.
        """
        if self.watch is None or not is_small(body):
            return False
        written = again(body, self.request_id, self.watch)
        if written is None:
            return False
        self.operator, self.device = written.operator, written.device
        await self.send_answer(written.answer, written.headers)
        return True

    async def send_answer(self, answer: Answer, headers: Fields = ()) -> None:
        """Sends an answer; a large one piece by piece, without joining them.

        Raises:
            DeadlineExceededError: the client has not read it in time; the connection is gone.
        """
        self.answered = True
        size = answer.size
        fields = answer_fields(size, answer.head_length, self.request_id, headers)
        if size <= JOINED_BYTES:
            await self._send_joined(fields, b"".join(answer.chunks))
            return
        await self._send({"type": "http.response.start", "status": 200, "headers": fields})
        try:
            left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
            async with asyncio.timeout(left):
                for chunk in answer.chunks:
                    await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
                await self._send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            if ABORT in self._scope.get("extensions", ()):
                self._scope["extensions"][ABORT]["abort"]()
                await asyncio.sleep(0)  # until the server has noticed
            detail = "the deadline passed while the answer was read"
            raise DeadlineExceededError(ProblemCode.DEADLINE_EXCEEDED, detail, stage="send") from None

    async def _send_joined(self, fields: Fields, body: bytes) -> None:
        respond = self._scope.get(RESPOND)
        if respond is None or self._scope["method"] == "HEAD" or not respond(fields, body):
            await self._send({"type": "http.response.start", "status": 200, "headers": fields})
            await self._send({"type": "http.response.body", "body": body})


def answer_fields(size: int, head_length: int | None, request_id: str, headers: Fields = ()) -> Fields:
    """The header fields of an answer: those of all answers, and others.

    Args:
        size: bytes of its body.
        head_length: of its JSON head if a tail follows.
    """
    fields = (
        (b"content-type", _JSON if head_length is None else _BINARY),
        (b"content-length", b"%d" % size),
        (REQUEST_ID, request_id.encode()),
        *headers,
    )
    return fields if head_length is None else (*fields, (_HEAD_LENGTH, b"%d" % head_length))


def _unsupported(detail: str) -> UnsupportedMediaError:
    return UnsupportedMediaError(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail)


async def read_body(exchange: Exchange, limits: Limits, hold: Hold) -> Buffer:
    """The whole body; what stands behind a JSON head is aligned in memory, so that it can be used where it is.

    Raises:
        LengthRequiredError, LimitExceededError, OverloadedError: before anything is read.
        SlowBodyError: it did not arrive in time.
        ClientDisconnect: the client is gone.
    """
    size = exchange.content_length()
    if size is None:
        raise LengthRequiredError(ProblemCode.LENGTH_REQUIRED, "send the body with a Content-Length, not in chunks")
    if size > limits.body_bytes:
        raise LimitExceededError(
            ProblemCode.BODY_TOO_LARGE,
            f"{size} bytes; this server takes at most {limits.body_bytes}",
            limit=limits.body_bytes,
            size=size,
        )
    exchange.unread = size
    hold.take_body(size)
    exchange.unread = 0
    arrived = exchange.arrived()
    if arrived is not None and len(arrived) == size:
        return arrived
    try:
        async with asyncio.timeout(limits.receive_ms / 1000):
            return await _receive(exchange, size, exchange.head_length_of_any_type() or "")
    except TimeoutError:
        detail = f"the body did not arrive within {limits.receive_ms} ms"
        raise SlowBodyError(ProblemCode.SLOW_BODY, detail) from None


def json_bytes(body: Buffer, head_length: str | None) -> int:
    """The size of the JSON in a body: of all of it, or of its head; 0 if that has no size."""
    if head_length is None:
        return len(body)
    return min(int(head_length[-9:]), len(body)) if head_length.isdecimal() else 0


def objects_bytes(body: Buffer, head_length: str | None) -> int:
    """The memory that the JSON of a body will take as Python objects, by the number of its commas."""
    size = json_bytes(body, head_length)
    if size <= _FEW_ELEMENTS:
        return 0
    text = np.frombuffer(body, np.uint8, size)
    # Piece by piece, so that what is compared stays in the cache.
    pieces = (text[start : start + _COUNTED_TOGETHER] for start in range(0, len(text), _COUNTED_TOGETHER))
    return ELEMENT_BYTES * sum(int(np.count_nonzero(piece == ord(","))) for piece in pieces)


async def _receive(exchange: Exchange, size: int, head_length: str) -> Buffer:
    shift = -int(head_length[-9:]) % _ALIGNMENT if head_length.isdecimal() else 0
    # Unlike a bytearray it is not cleared first, and the system gives large pages for it.
    body = np.empty(shift + size, np.uint8).data[shift:]
    await exchange.fill(body)
    return bytes(body) if size <= LARGEST else body


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
