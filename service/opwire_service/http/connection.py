"""uvicorn's HTTP protocol, extended with what ASGI has no room for.

It limits request heads and slow clients, answers malformed HTTP with a problem document, and receives large bodies
directly into the buffer in which they are used.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from itertools import chain
from typing import Any, cast
from urllib.parse import unquote

import httptools
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from opwire.errors import LimitExceededError, OpwireError, ProblemCode, RequestError

from .context import request_id
from .cycle import EXTENSION, Admit, Cycle
from .errors import problem_response
from .lingering import Lingering, has_unread
from .receiving import PIECE_BYTES, Flow, Intake, Receiving

MOST_HEADERS = 100
HEAD_BYTES = 32 * 1024
"""Maximum number of header fields in a request, and maximum size of its head (request line included), in bytes."""

_BODY_FIELDS = frozenset({b"content-length", b"transfer-encoding"})

FIRST_WINDOW = 2**21
"""Size of the first window of a body, in bytes: one huge page. Each further window is as large as what has arrived."""

_PIPELINED = 8
"""Maximum number of pipelined requests queued on one connection; bytes after them stay unparsed."""


class Acceptor:
    """Creates the connections of one event loop and holds the state they share."""

    def __init__(self) -> None:
        self._lingering = Lingering()
        self._piece = memoryview(bytearray(PIECE_BYTES))

    def __call__(self, **given: Any) -> Intake:
        """Creates a connection and returns the protocol for its transport.

        Args:
            given: the keyword arguments that uvicorn passes to its protocols.
        """
        return Connection(self._lingering, self._piece, **given).intake


class Connection(HttpToolsProtocol):
    """One HTTP/1.x connection.

    Attributes:
        intake: the transport's protocol, which receives bytes on behalf of this connection.
    """

    _receiving = Receiving.HEAD
    _waits_since: float | None = None
    """Start of the wait for the rest of a head, or of a body that nobody reads."""
    _idle_since: float | None = None
    """End of the last response, if nothing has arrived since."""
    _blocked_since: float | None = None
    """When writing was paused because the client stopped reading."""
    _head_bytes = 0
    _refusal: OpwireError | None = None
    _repeats_head = False
    """Whether the parser is being fed the body's framing headers again, after a head that asked for an upgrade."""

    def __init__(self, lingering: Lingering, piece: memoryview, **given: Any) -> None:
        super().__init__(**given)
        self.intake = Intake(self, piece)
        self._lingering = lingering
        self._backlog = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        # uvicorn's version also asks the system for the server's own address, which is not used here.
        self.connections.add(self)
        self.client = _peer(transport)
        self.transport = transport
        self.scheme = "http" if transport.get_extra_info("sslcontext") is None else "https"
        self.flow = self._flow = Flow(transport)
        self._waits_since = self.loop.time()

    def data_received(self, data: bytes) -> None:
        if self._receiving is Receiving.NOTHING:
            return
        self._idle_since = None
        self._head_bytes += len(data)
        self._backlog += data
        self._parse_backlog()

    def _parse_backlog(self) -> None:
        """Parses the backlog unless too many pipelined requests are queued."""
        try:
            if self._backlog and len(self.pipeline) < _PIPELINED:
                piece, self._backlog = self._backlog, b""
                self._parse(piece)
        except httptools.HttpParserError:
            if self._receiving is not Receiving.NOTHING:
                unreadable = RequestError(ProblemCode.INVALID_REQUEST, "the request line or a header is not HTTP")
                self._refuse_head(self._refusal or unreadable)
            return
        self._flow.has_backlog = bool(self._backlog)
        if self._backlog:
            self._flow.pause_reading()
        elif self._receiving is Receiving.BODY and not self.cycle.response_complete:
            self._flow.pause_reading()  # until the application asks for more of the body
        elif self._receiving is Receiving.HEAD and self._head_bytes > HEAD_BYTES:
            self._refuse_head(_too_large("bytes in the head of the request", self._head_bytes, HEAD_BYTES))

    def _parse(self, data: bytes) -> None:
        """Feeds the parser. It stops after a head that asks for an upgrade; as none is supported, a new one resumes."""
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as stopped:
                data = data[stopped.args[0] :]
                self.parser = _make_parser(self)
                if self._body_fields():
                    self._repeats_head = True
                    self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(self._body_fields()))
                    self._repeats_head = False
            else:
                return

    def _body_fields(self) -> list[bytes]:
        """Returns the header lines that announce a body."""
        fields = [b"%b: %b\r\n" % field for field in self.headers if field[0] in _BODY_FIELDS]
        return [field for field in fields if field != b"content-length: 0\r\n"]

    def on_url(self, url: bytes) -> None:
        if not self._repeats_head:
            self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._repeats_head:
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_message_begin(self) -> None:
        if self._repeats_head:
            return
        super().on_message_begin()
        self._receiving = Receiving.HEAD
        self._waits_since = self.loop.time()

    def on_headers_complete(self) -> None:
        if self._repeats_head:
            return
        self._waits_since = None
        self._head_bytes = 0
        self._receiving = Receiving.BODY
        version = self.parser.get_http_version()
        self._refusal = self._judge_head(version)
        if self._refusal is not None:
            raise self._refusal
        self._complete_scope(version)
        before, app = cast(Cycle | None, self.cycle), cast(Any, self.app)
        self.cycle = cycle = Cycle(
            self,
            self.scope,
            self.transport,
            self.flow,
            self.server_state.default_headers,
            self.on_response_complete,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            expects_continue=self.expect_100_continue,
        )
        self.scope["extensions"] = cast(Any, {EXTENSION: cycle})
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, app))

    def _complete_scope(self, version: str) -> None:
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope["http_version"] = version
        self.scope["path"] = unquote(path) if "%" in path else path
        self.scope["raw_path"] = url.path
        self.scope["query_string"] = url.query or b""

    def _judge_head(self, version: str) -> OpwireError | None:
        """Returns what is wrong with the request head, if anything."""
        if len(self.headers) > MOST_HEADERS:
            return _too_large("header fields", len(self.headers), MOST_HEADERS)
        size = len(self.url) + sum(map(len, chain.from_iterable(self.headers))) + 4 * len(self.headers)
        if size > HEAD_BYTES:
            return _too_large("bytes in the head of the request", size, HEAD_BYTES)
        if version not in ("1.0", "1.1"):
            return RequestError(ProblemCode.INVALID_REQUEST, f"HTTP/{version} given; allowed: HTTP/1.0, HTTP/1.1")
        hosts = [name for name, _ in self.headers].count(b"host")
        if hosts > 1 or (not hosts and version == "1.1"):
            return RequestError(ProblemCode.INVALID_REQUEST, f"{hosts} Host headers given; one belongs to each request")
        return None

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if self._receiving is not Receiving.BODY or cycle.response_complete:
            return
        cycle.body += body
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        if self._receiving is Receiving.NOTHING or (self.parser.should_upgrade() and self._body_fields()):
            return
        self._receiving = Receiving.HEAD
        self._head_bytes = 0
        if not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.message_event.set()

    async def fill(self, cycle: Cycle, memory: memoryview, admit: Admit) -> None:
        """See ``Cycle.fill``."""
        if cycle.disconnected:
            raise ClientDisconnect
        if cycle.waiting_for_100_continue:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            cycle.waiting_for_100_continue = False
        arrived, cycle.body = cycle.body, bytearray()
        memory[: len(arrived)] = arrived
        if not cycle.more_body:
            self.flow.resume_reading()
            return
        await self._fill_rest(cycle, memory, len(arrived), admit)

    async def _fill_rest(self, cycle: Cycle, memory: memoryview, arrived: int, admit: Admit) -> None:
        intake = self.intake
        self._receiving = Receiving.MEMORY
        intake.begin(memory, arrived)
        try:
            await intake.receive(FIRST_WINDOW)
            while not intake.is_full:
                window = min(intake.arrived, len(memory) - intake.arrived)
                await admit(window)
                await intake.receive(intake.arrived + window)
        finally:
            is_full = intake.is_full
            intake.end()
            if not self.transport.is_closing():
                self.parser = _make_parser(self)
                self.flow.resume_reading()
            if is_full:
                self._receiving = Receiving.HEAD
                cycle.more_body = False
                cycle.message_event.clear()
            else:  # the end of the body can no longer be found
                self._receiving = Receiving.NOTHING
                cycle.keep_alive = False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # Breaks the reference cycles, which would keep the connection and its buffers until the next collection.
        self.cycle = cast(Any, None)
        del self.intake

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.cycle.more_body and self._receiving is not Receiving.NOTHING:
            self._waits_since = self.loop.time()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since = self.loop.time()
        if self._backlog:
            self._flow.has_backlog = False
            self._flow.resume_reading()
            self._parse_backlog()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._blocked_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._blocked_since = None

    def close_if_slow(self, head_seconds: float, body_seconds: float) -> None:
        """Closes the connection if the client is too slow or has been idle for too long.

        Args:
            head_seconds: maximum time for the client to send a complete head.
            body_seconds: maximum pause of the client while it sends a body or reads a response.
        """
        now = self.loop.time()
        sent = self.intake.since
        if sent is not None and now - sent > body_seconds and has_unread(self.transport):
            sent = None  # the server is slow, not the client
        if any(since is not None and now - since > body_seconds for since in (self._blocked_since, sent)):
            self.transport.abort()
            return
        owed = (self._waits_since, head_seconds), (self._idle_since, self.timeout_keep_alive)
        if any(since is not None and now - since > seconds for since, seconds in owed):
            self.transport.close()

    def has_unread(self) -> bool:
        """See ``Cycle.has_unread``."""
        return has_unread(self.transport)

    def refuse(self, response: Response) -> None:
        """Writes a final response and closes the connection after the client has had time to read it.

        Reading a large body only to discard it costs almost as much as using it, and closing at once, with unread data,
        would reset the connection and lose the response.
        """
        self._receiving = Receiving.NOTHING
        response.headers["connection"] = "close"
        status = HTTPStatus(response.status_code)
        head = [b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())]
        for name, value in (*self.server_state.default_headers, *response.raw_headers):
            head += (name, b": ", value, b"\r\n")
        self.transport.write(b"".join((*head, b"\r\n", bytes(response.body))))
        self.flow.pause_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._lingering.add(self.transport)

    def _refuse_head(self, error: OpwireError) -> None:
        """Ends the connection after a head that is malformed or refused."""
        before = cast(Cycle | None, self.cycle)
        if before is None or before.response_complete:
            self.refuse(problem_response(error, request_id(None), ""))
        else:  # the client would take the response for that to the previous request
            self._receiving = Receiving.NOTHING
            before.keep_alive = False


def _peer(transport: asyncio.Transport) -> tuple[str, int] | None:
    """Returns the address at the other end of a connection, or None if it is already closed."""
    found = transport.get_extra_info("peername")
    return (str(found[0]), int(found[1])) if isinstance(found, tuple | list) else None


def _make_parser(protocol: Connection) -> httptools.HttpRequestParser:
    """Returns a parser configured like uvicorn's."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _too_large(what: str, size: int, limit: int) -> LimitExceededError:
    detail = f"{size} {what}; this server takes at most {limit}"
    return LimitExceededError(ProblemCode.HEAD_TOO_LARGE, detail, limit=limit, size=size)
