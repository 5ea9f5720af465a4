"""One request on its connection and its response, whose head is written together with the body."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Message, Scope
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

JOINED_BYTES = 64 * 1024
"""Size up to which joining the pieces of a response is cheaper than sending them one by one, in bytes."""

EXTENSION = "opwire.cycle"
"""Name of the ASGI extension that holds the ``Cycle`` of a request."""

Admit = Callable[[int], Awaitable[None]]
"""Takes the number of further bytes about to be read and returns once there is room for them."""


def cycle_of(scope: Scope) -> Cycle | None:
    """Returns the cycle of a request, or None under another ASGI server."""
    found: Cycle | None = scope.get("extensions", {}).get(EXTENSION)
    return found


class CycleOwner(Protocol):
    """The part of a connection that a request uses."""

    async def fill(self, cycle: Cycle, memory: memoryview, admit: Admit) -> None:
        """See ``Cycle.fill``."""

    def has_unread(self) -> bool:
        """See ``Cycle.has_unread``."""
        ...

    def refuse(self, response: Response) -> None:
        """See ``Cycle.refuse``."""


class Cycle(RequestResponseCycle):
    """A request and its response.

    uvicorn writes the head and the body of a response with one system call each, which for a small operator is a
    quarter of the network cost. Here the head is held back and sent with the first bytes of the body.
    """

    # Class attributes, because uvicorn's constructor sets them anew for every request.
    logger = logging.getLogger("uvicorn.error")
    disconnected = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0
    _head = b""

    def __init__(
        self,
        owner: CycleOwner,
        scope: Any,
        transport: asyncio.Transport,
        flow: FlowControl,
        default_headers: list[tuple[bytes, bytes]],
        on_response: Callable[[], None],
        *,
        keep_alive: bool,
        expects_continue: bool,
    ) -> None:
        self._owner = owner
        self.scope = scope
        self.transport = transport
        self.flow = flow
        self.default_headers = default_headers
        self.on_response = on_response
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = expects_continue
        self.message_event = asyncio.Event()
        self.body = bytearray()

    def has_arrived(self, size: int) -> bool:
        """Whether a body of ``size`` bytes has arrived completely."""
        return len(self.body) == size and not self.waiting_for_100_continue

    def whole_body(self) -> bytes:
        """Takes the bytes of the body that have arrived."""
        body, self.body = bytes(self.body), bytearray()
        return body

    async def fill(self, memory: memoryview, admit: Admit) -> None:
        """Receives the body into ``memory``.

        Args:
            memory: buffer of the size of the body.
            admit: awaited before each window after the first, which is ``FIRST_WINDOW`` bytes.

        Raises:
            ClientDisconnect: the client disconnected.
        """
        await self._owner.fill(self, memory, admit)

    def has_unread(self) -> bool:
        """Whether bytes from the client are waiting for this server to read them."""
        return self._owner.has_unread()

    def refuse(self, response: Response) -> None:
        """Responds without reading the body, and closes the connection after the client has read the response."""
        self.response_started = self.response_complete = True
        self.scope["extensions"].clear()
        self._owner.refuse(response)

    def abort(self) -> None:
        """Closes the connection at once."""
        self.transport.abort()

    async def send(self, message: Any) -> None:
        """See ``RequestResponseCycle``.

        Raises:
            RuntimeError: messages arrive out of order, or the body does not match its Content-Length.
        """
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if self.response_complete or (message["type"] == "http.response.start") is self.response_started:
            raise RuntimeError(f"{message['type']} sent at the wrong time")
        if self.response_started:
            self._send_body(message)
        else:
            self._begin(message)

    def _begin(self, message: Message) -> None:
        self.response_started = True
        self.waiting_for_100_continue = False
        status = message["status"]
        fields = [*self.default_headers, *message.get("headers", ())]
        lines = [STATUS_LINE[status], *[b"%b: %b\r\n" % field for field in fields]]
        known = dict(fields)
        if b"connection" in known:
            self.keep_alive = self.keep_alive and known[b"connection"].lower() != b"close"
        elif not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if b"content-length" in known:
            self.expected_content_length = int(known[b"content-length"])
        elif self.scope["method"] != "HEAD" and status not in (204, 304):
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        self._head = b"".join(lines)
        if self._head.count(b"\n") != len(lines):
            raise RuntimeError("a header field of the answer has several lines")
        self._head += b"\r\n"

    def _send_body(self, message: Message) -> None:
        body, more = message.get("body", b""), message.get("more_body", False)
        if self.scope["method"] == "HEAD":
            self._write(b"")
            self.expected_content_length = 0
        elif self.chunked_encoding:
            piece = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self._write(piece if more else piece + b"0\r\n\r\n")
        else:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0:
                raise RuntimeError("the body of the answer is longer than its head says")
            self._write(body)
        if more:
            return
        if self.expected_content_length:
            raise RuntimeError("the body of the answer is shorter than its head says")
        self.response_complete = True
        self.scope["extensions"].clear()  # breaks the reference cycle between scope and cycle
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _write(self, data: bytes) -> None:
        """Writes bytes of the body, preceded by the head if it has not been sent."""
        if self._head:
            head, self._head = self._head, b""
            if len(data) <= JOINED_BYTES:
                data = head + data
            else:
                self.transport.write(head)
        self.transport.write(data)
