"""One HTTP/1.x connection: ``states`` says what it expects, and this module what it does.

It limits request heads and slow clients, answers malformed HTTP with a problem document, and receives large bodies
directly into the buffer in which they are used.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from typing import Any, cast

import httptools
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Scope
from uvicorn.config import Config
from uvicorn.server import ServerState

from opwire.errors import OpwireError

from ..context import request_id
from ..errors import problem_response
from .cycle import EXTENSION, Admit, Cycle, Fields, response_head
from .filling import Filling
from .heads import HEAD_BYTES, UNREADABLE, awaits_continue, body_fields, describe, head_too_large, judge_head
from .lingering import Lingering, has_unread
from .states import PATIENCE, TRANSITIONS, Event, Patience, Reply, State

FIRST_WINDOW = 2**21
"""Size of the first window of a body, in bytes: one huge page. Each further window is as large as what has arrived."""

_PIPELINED = 8
"""Maximum number of pipelined requests queued on one connection; bytes after them stay unparsed."""


class Connection(asyncio.BufferedProtocol):
    """One HTTP/1.x connection.

    Bytes that have not been asked for stay in the kernel's socket buffer, so next to nothing is read of a large body
    that may yet be refused.

    Attributes:
        transport: its transport.
        cycle: the request whose head arrived last; None before the first.
        can_write: see ``CycleOwner``.
    """

    transport: asyncio.Transport
    cycle: Cycle | None = None
    _about: Scope

    def __init__(
        self,
        lingering: Lingering,
        piece: memoryview,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
    ) -> None:
        self._lingering = lingering
        self._piece = piece
        self._config = config
        self._server = server_state
        self._app_state = app_state
        self.loop = asyncio.get_running_loop()
        self._parser = _make_parser(self)
        self._state = State.HEAD
        self._since = self.loop.time()  # when the state began, or of BODY patience, when bytes arrived last
        self.pipeline: deque[Cycle] = deque()
        self._backlog = b""
        self._read_paused = False
        self.can_write = asyncio.Event()
        self.can_write.set()
        self._blocked_since = inf  # when the client stopped reading
        self._url, self._fields = b"", Fields()
        self._head_bytes = 0
        self._refusal: OpwireError | None = None
        self._repeats_head = False  # the parser is fed a body's framing again, after a head that asked for an upgrade
        self._filling: Filling | None = None

    def _on(self, event: Event) -> None:
        """Follows the table of states."""
        self._state = TRANSITIONS[self._state][event]
        self._since = self.loop.time()

    # What the transport says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._about = {
            "type": "http",
            "asgi": {"version": self._config.asgi_version, "spec_version": "2.3"},
            "scheme": "http" if transport.get_extra_info("sslcontext") is None else "https",
            "root_path": "",
            "client": _peer(transport),
            "server": None,
        }
        self._server.connections.add(cast(Any, self))

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(cast(Any, self))
        if self._filling is not None:
            self._filling.disconnect()
        if self.cycle is not None:
            self.cycle.disconnect()
        self.can_write.set()
        if exc is None:
            self.transport.close()
        # Breaks the reference cycles, which would keep the connection and its buffers until the next collection.
        self.cycle, self._parser = None, cast(Any, None)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._piece if self._filling is None else self._filling.room()

    def buffer_updated(self, nbytes: int) -> None:
        if self._filling is None:
            if self._state is not State.CLOSING:
                self._head_bytes += nbytes
                self._parse(self._backlog + self._piece[:nbytes].tobytes())
            return
        self._since = self.loop.time()
        if self._filling.took(nbytes):
            self.pause_reading()  # further bytes have no room yet, or belong to the next request

    def pause_writing(self) -> None:
        self._blocked_since = self.loop.time()
        self.can_write.clear()

    def resume_writing(self) -> None:
        self._blocked_since = inf
        self.can_write.set()

    # What the parser says.

    def on_message_begin(self) -> None:
        if self._repeats_head:
            return
        self._url, self._fields = b"", []
        self._on(Event.BEGIN)

    def on_url(self, url: bytes) -> None:
        if not self._repeats_head:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._repeats_head:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._repeats_head:
            return
        self._head_bytes = 0
        version = self._parser.get_http_version()
        self._refusal = judge_head(version, self._url, self._fields)
        if self._refusal is not None:
            raise self._refusal
        self._on(Event.HEAD_END)
        before = self.cycle
        method = self._parser.get_method().decode("ascii")
        scope: Scope = {**self._about, **describe(version, method, self._url, self._fields)}
        scope["state"] = self._app_state.copy()
        self.cycle = cycle = Cycle(
            self,
            scope,
            self._server.default_headers,
            keep_alive=version != "1.0" and self._parser.should_keep_alive(),
            awaits_continue=awaits_continue(self._fields),
        )
        scope["extensions"] = {EXTENSION: cycle}
        if before is None or before.reply is Reply.COMPLETE:
            self._start(cycle)
        else:
            self.pause_reading()
            self.pipeline.append(cycle)

    def on_body(self, body: bytes) -> None:
        if self._state is State.BODY and self.cycle is not None:
            self.cycle.body += body
            self.cycle.arrival.set()

    def on_message_complete(self) -> None:
        if self._state is State.CLOSING or (self._parser.should_upgrade() and body_fields(self._fields)):
            return
        self._head_bytes = 0
        self._on(Event.BODY_END)
        if self.cycle is not None and self.cycle.reply is not Reply.COMPLETE:
            self.cycle.end_body()

    # What the request says.

    async def fill(self, cycle: Cycle, memory: memoryview, admit: Admit) -> None:
        """See ``CycleOwner``."""
        if cycle.reply is Reply.GONE:
            raise ClientDisconnect
        cycle.proceed()
        arrived = cycle.whole_body()
        memory[: len(arrived)] = arrived
        if not cycle.more_body:
            self.resume_reading()
            return
        self._filling = filling = Filling(memory, len(arrived))
        self._on(Event.FILL)
        try:
            await self._receive(filling, FIRST_WINDOW - len(arrived))
            while filling.missing:
                window = min(filling.arrived, filling.missing)
                await admit(window)
                await self._receive(filling, window)
        finally:
            self._end_filling(cycle, is_full=not filling.missing)

    async def _receive(self, filling: Filling, size: int) -> None:
        """Receives the next bytes of a body, at most ``size``.

        Raises:
            ClientDisconnect: the client disconnected.
        """
        if self.transport.is_closing():
            raise ClientDisconnect
        self._since = self.loop.time()
        window = filling.open(size)
        self.resume_reading()
        try:
            await window
        finally:
            filling.close()

    def _end_filling(self, cycle: Cycle, *, is_full: bool) -> None:
        self._filling = None
        if not self.transport.is_closing():
            self._parser = _make_parser(self)
            self.resume_reading()
        self._on(Event.BODY_END if is_full else Event.CUT_OFF)
        if is_full:
            cycle.more_body = False
            cycle.arrival.clear()
        else:
            cycle.keep_alive = False

    def has_unread(self) -> bool:
        """See ``CycleOwner``."""
        return has_unread(self.transport)

    def refuse(self, response: Response) -> None:
        """See ``CycleOwner``.

        Reading a large body only to discard it costs almost as much as using it, and closing at once, with unread data,
        would reset the connection and lose the response.
        """
        self._on(Event.REFUSED)
        response.headers["connection"] = "close"
        head = response_head(response.status_code, *self._server.default_headers, *response.raw_headers)
        self.transport.write(b"".join((*head, b"\r\n", bytes(response.body))))
        self.pause_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._lingering.add(self.transport)

    def on_response_complete(self, cycle: Cycle) -> None:
        """See ``CycleOwner``."""
        self._server.total_requests += 1
        if cycle is self.cycle:
            self._on(Event.ANSWERED)
        if self.transport.is_closing():
            return
        backlog, self._backlog = self._backlog, b""
        self.resume_reading()
        if self.pipeline:
            self._start(self.pipeline.popleft())
        if backlog:
            self._parse(backlog)

    # What the server says.

    def shutdown(self) -> None:
        """Closes the connection after the response that is under way, if any."""
        if self.cycle is None or self.cycle.reply is Reply.COMPLETE:
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    def close_if_slow(self, head_seconds: float, body_seconds: float) -> None:
        """Closes the connection if the client is too slow or has been idle for too long.

        Args:
            head_seconds: maximum time for the client to send a complete head.
            body_seconds: maximum pause of the client while it sends a body or reads a response.
        """
        now, patience = self.loop.time(), PATIENCE.get(self._state)
        longest = {
            None: inf,
            Patience.HEAD: head_seconds,
            Patience.BODY: body_seconds,
            Patience.KEEP_ALIVE: self._config.timeout_keep_alive,
        }
        is_late = now - self._since > longest[patience] and self._waits_for_client(patience)
        is_blocked = now - self._blocked_since > body_seconds
        if is_blocked or (is_late and patience is Patience.BODY):
            self.transport.abort()
        elif is_late:
            self.transport.close()

    def _waits_for_client(self, patience: Patience | None) -> bool:
        """Whether it is the client that is slow, and not the server."""
        if patience is Patience.BODY:
            return self._filling is not None and self._filling.has_window and not has_unread(self.transport)
        return patience is Patience.HEAD or self._is_answered()

    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.reply is Reply.COMPLETE

    def pause_reading(self) -> None:
        """Leaves what the client sends in the kernel's buffer."""
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """See ``CycleOwner``. Does nothing while there is a backlog of unparsed bytes."""
        if self._read_paused and not self._backlog:
            self._read_paused = False
            self.transport.resume_reading()

    def _parse(self, data: bytes) -> None:
        """Parses bytes, or keeps them while too many pipelined requests are queued."""
        if len(self.pipeline) >= _PIPELINED:
            self._backlog = data
            self.pause_reading()
            return
        self._backlog = b""
        try:
            self._feed(data)
        except httptools.HttpParserError:
            if self._state is not State.CLOSING:
                self._refuse_head(self._refusal or UNREADABLE)
            return
        if self._state is State.BODY and not self._is_answered():
            self.pause_reading()  # until the application asks for more of the body
        elif self._state in (State.IDLE, State.HEAD) and self._head_bytes > HEAD_BYTES:
            self._refuse_head(head_too_large(self._head_bytes))

    def _feed(self, data: bytes) -> None:
        """Feeds the parser. It stops after a head that asks for an upgrade; as none is supported, a new one resumes."""
        while data:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as stopped:
                data = data[stopped.args[0] :]
                self._parser = _make_parser(self)
                if fields := body_fields(self._fields):
                    self._repeats_head = True
                    self._parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(fields))
                    self._repeats_head = False
            else:
                return

    def _start(self, cycle: Cycle) -> None:
        task = self.loop.create_task(cycle.run(cast(Any, self._config.loaded_app)))
        task.add_done_callback(self._server.tasks.discard)
        self._server.tasks.add(task)

    def _refuse_head(self, error: OpwireError) -> None:
        """Ends the connection after a head that is malformed or refused."""
        if self._is_answered():
            self.refuse(problem_response(error, request_id(None), ""))
        elif self.cycle is not None:  # the client would take the response for that to the previous request
            self._on(Event.REFUSED)
            self.cycle.keep_alive = False


def _peer(transport: asyncio.BaseTransport) -> tuple[str, int] | None:
    """Returns the address at the other end of a connection, or None if it is already closed."""
    found = transport.get_extra_info("peername")
    return (str(found[0]), int(found[1])) if isinstance(found, tuple | list) else None


def _make_parser(protocol: Connection) -> httptools.HttpRequestParser:
    """Returns a parser that goes on after requests that ask to close the connection, as pipelines may contain them."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
