"""Bodies in and out: bounded before they are read, received into one buffer, sent piece by piece."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opwire.errors import (
    LengthRequiredError,
    LimitExceededError,
    ProblemCode,
    RequestError,
    SlowBodyError,
    UnsupportedMediaError,
)
from opwire.wire import BINARY, HEAD_LENGTH, JSON, Answer

from ..settings import Limits


def head_length(request: Request) -> str | None:
    """The length of the JSON head where the body has a tail; None where all of it is JSON.

    Raises:
        UnsupportedMediaError: the body is of another type.
        RequestError: type and header do not fit.
    """
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise _unsupported(f"content encoding {encoding[:60]!r} given; bodies are taken as they are")
    media = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    length = request.headers.get(HEAD_LENGTH)
    if media == BINARY:
        if length is None:
            raise RequestError(ProblemCode.INVALID_FRAMING, f"{BINARY} needs the header {HEAD_LENGTH}")
        return length
    if media != JSON:
        raise _unsupported(f"content type {media[:60]!r} given; allowed: {JSON}, {BINARY}")
    if length is not None:
        raise RequestError(ProblemCode.INVALID_FRAMING, f"{HEAD_LENGTH} belongs to bodies of type {BINARY}")
    return None


def _unsupported(detail: str) -> UnsupportedMediaError:
    return UnsupportedMediaError(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail)


def wants_binary(request: Request) -> bool:
    """Whether the client asks for tensors in a tail."""
    return BINARY in request.headers.get("accept", "")


async def read_body(request: Request, limits: Limits) -> bytearray:
    """The whole body.

    Raises:
        LengthRequiredError, LimitExceededError: before anything is read.
        SlowBodyError: it did not arrive in time.
        ClientDisconnect: the client is gone.
    """
    given = request.headers.get("content-length")
    if given is None:
        raise LengthRequiredError(ProblemCode.LENGTH_REQUIRED, "send the body with a Content-Length, not in chunks")
    size = int(given)  # the server has parsed the same header before
    if size > limits.body_bytes:
        raise LimitExceededError(
            ProblemCode.BODY_TOO_LARGE,
            f"{size} bytes; this server takes at most {limits.body_bytes}",
            limit=limits.body_bytes,
            size=size,
        )
    try:
        async with asyncio.timeout(limits.receive_ms / 1000):
            return await _receive(request.receive, size)
    except TimeoutError:
        detail = f"the body did not arrive within {limits.receive_ms} ms"
        raise SlowBodyError(ProblemCode.SLOW_BODY, detail) from None


async def _receive(receive: Receive, size: int) -> bytearray:
    body = bytearray(size)
    filled = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        body[filled : filled + len(piece)] = piece
        filled += len(piece)
        if not message.get("more_body", False):
            return body


class AnswerResponse(Response):
    """An answer, its pieces sent one after another without being joined."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(media_type=JSON if answer.head_length is None else BINARY)
        self.answer = answer
        self.headers["content-length"] = str(answer.size)
        if answer.head_length is not None:
            self.headers[HEAD_LENGTH] = str(answer.head_length)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for chunk in self.answer.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
