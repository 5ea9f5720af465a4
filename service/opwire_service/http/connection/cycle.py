"""One request on its connection and its response, whose head is written together with the body."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Scope

from .states import MESSAGES, Reply

JOINED_BYTES = 64 * 1024
"""Size up to which joining the pieces of a response is cheaper than sending them one by one, in bytes."""

EXTENSION = "opwire.cycle"
"""Name of the ASGI extension that holds the ``Cycle`` of a request."""

Fields = list[tuple[bytes, bytes]]

Admit = Callable[[int], Awaitable[None]]
"""Takes the number of further bytes about to be read and returns once there is room for them."""

_STATUS_LINES = {each.value: b"HTTP/1.1 %d %b\r\n" % (each.value, each.phrase.encode()) for each in HTTPStatus}

_FAILED: tuple[Message, Message] = (
    {
        "type": "http.response.start",
        "status": 500,
        "headers": [(b"content-type", b"text/plain"), (b"content-length", b"21"), (b"connection", b"close")],
    },
    {"type": "http.response.body", "body": b"Internal Server Error"},
)

log = logging.getLogger("uvicorn.error")


def response_head(status: int, *fields: tuple[bytes, bytes]) -> list[bytes]:
    """Returns the lines of a response head, without the empty one at its end."""
    return [_STATUS_LINES[status], *[b"%b: %b\r\n" % field for field in fields]]


def cycle_of(scope: Scope) -> Cycle | None:
    """Returns the cycle of a request, or None under another ASGI server."""
    found: Cycle | None = scope.get("extensions", {}).get(EXTENSION)
    return found


class CycleOwner(Protocol):
    """The part of a connection that a request uses."""

    transport: asyncio.Transport
    can_write: asyncio.Event
    """Set unless the client must read more of what has been written first."""

    def resume_reading(self) -> None:
        """Lets the client send more of the body."""

    async def fill(self, cycle: Cycle, memory: memoryview, admit: Admit) -> None:
        """Receives the body into ``memory``.

        Args:
            cycle: the request.
            memory: buffer of the size of the body.
            admit: awaited before each window after the first, which is ``FIRST_WINDOW`` bytes.

        Raises:
            ClientDisconnect: the client disconnected.
        """

    def has_unread(self) -> bool:
        """Whether bytes from the client are waiting for this server to read them."""
        ...

    def refuse(self, response: Response) -> None:
        """Writes a final response and closes the connection after the client has had time to read it."""

    def on_response_complete(self, cycle: Cycle) -> None:
        """Called when the response has been written."""


class Cycle:
    """A request and its response.

    The head of a response is held back and sent with the first bytes of the body: a system call of its own is, for a
    small operator, a quarter of the network cost.

    Attributes:
        owner: the connection.
        scope: the ASGI scope.
        keep_alive: whether the connection stays open after the response.
        body: bytes of the body that have arrived and that nobody has taken.
        more_body: whether more of the body is to come.
        arrival: set when the body, its end, the end of the response or of the connection has arrived.
        awaits_continue: whether the client waits for ``100 Continue``.
        reply: how far the response is.
    """

    # Class attributes, because most requests never change them.
    more_body = True
    reply = Reply.AWAITED
    _is_chunked = False
    _owed = 0
    _head = b""

    def __init__(
        self, owner: CycleOwner, scope: Scope, default_headers: Fields, *, keep_alive: bool, awaits_continue: bool
    ) -> None:
        self.owner = owner
        self.scope = scope
        self.keep_alive = keep_alive
        self.awaits_continue = awaits_continue
        self.arrival = asyncio.Event()
        self.body = bytearray()
        self._default_headers = default_headers

    async def run(self, app: ASGIApp) -> None:
        """Runs the application, and answers for it if it fails."""
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as error:
            log.error("Exception in ASGI application\n", exc_info=error)
        if self.reply is Reply.BEGUN:
            self.owner.transport.close()
        elif self.reply is Reply.AWAITED:
            for message in _FAILED:
                await self.send(message)

    async def receive(self) -> Message:
        """See ASGI. Returns the next part of the body, or waits for the client to disconnect."""
        if not self.owner.transport.is_closing():
            self.proceed()
        if self.reply in MESSAGES:
            self.owner.resume_reading()
            await self.arrival.wait()
            self.arrival.clear()
        if self.reply not in MESSAGES:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self.whole_body(), "more_body": self.more_body}

    def proceed(self) -> None:
        """Tells a client that waits for it to send the body."""
        if self.awaits_continue:
            self.owner.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.awaits_continue = False

    def end_body(self) -> None:
        """Marks the body as complete."""
        self.more_body = False
        self.arrival.set()

    def disconnect(self) -> None:
        """Marks the client as gone."""
        if self.reply is not Reply.COMPLETE:
            self.reply = Reply.GONE
        self.arrival.set()

    def has_arrived(self, size: int) -> bool:
        """Whether a body of ``size`` bytes has arrived completely."""
        return len(self.body) == size and not self.awaits_continue

    def whole_body(self) -> bytes:
        """Takes the bytes of the body that have arrived."""
        body, self.body = bytes(self.body), bytearray()
        return body

    def refuse(self, response: Response) -> None:
        """Responds without reading the body, and closes the connection after the client has read the response."""
        self.reply = Reply.COMPLETE
        self.scope["extensions"].clear()
        self.owner.refuse(response)

    async def send(self, message: Message) -> None:
        """See ASGI.

        Raises:
            RuntimeError: messages arrive out of order, or the body does not match its Content-Length.
        """
        if not self.owner.can_write.is_set():
            await self.owner.can_write.wait()
        if self.reply is Reply.GONE:
            return
        if message["type"] != MESSAGES.get(self.reply):
            raise RuntimeError(f"{message['type']} sent at the wrong time")
        if self.reply is Reply.BEGUN:
            self._send_body(message)
        else:
            self._begin(message)

    def _begin(self, message: Message) -> None:
        self.reply = Reply.BEGUN
        self.awaits_continue = False
        status = message["status"]
        fields = [*self._default_headers, *message.get("headers", ())]
        lines = response_head(status, *fields)
        known = dict(fields)
        if b"connection" in known:
            self.keep_alive = self.keep_alive and known[b"connection"].lower() != b"close"
        elif not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if b"content-length" in known:
            self._owed = int(known[b"content-length"])
        elif self.scope["method"] != "HEAD" and status not in (204, 304):
            self._is_chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        self._head = b"".join(lines)
        if self._head.count(b"\n") != len(lines):
            raise RuntimeError("a header field of the answer has several lines")
        self._head += b"\r\n"

    def _send_body(self, message: Message) -> None:
        body, more = message.get("body", b""), message.get("more_body", False)
        if self.scope["method"] == "HEAD":
            self._write(b"")
            self._owed = 0
        elif self._is_chunked:
            piece = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self._write(piece if more else piece + b"0\r\n\r\n")
        else:
            self._owed -= len(body)
            if self._owed < 0:
                raise RuntimeError("the body of the answer is longer than its head says")
            self._write(body)
        if more:
            return
        if self._owed:
            raise RuntimeError("the body of the answer is shorter than its head says")
        self.reply = Reply.COMPLETE
        self.scope["extensions"].clear()  # breaks the reference cycle between scope and cycle
        self.arrival.set()
        if not self.keep_alive:
            self.owner.transport.close()
        self.owner.on_response_complete(self)

    def _write(self, data: Any) -> None:
        """Writes bytes of the body, preceded by the head if it has not been sent."""
        transport = self.owner.transport
        if self._head:
            head, self._head = self._head, b""
            if len(data) <= JOINED_BYTES:
                data = head + data
            else:
                transport.write(head)
        transport.write(data)
