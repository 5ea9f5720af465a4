"""The HTTP protocol of uvicorn, with bounds on the head of a request and on slow clients, and problems as answers."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import cast

import httptools
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from opwire.errors import LimitExceededError, OpwireError, ProblemCode, RequestError

from ..engine.pipeline import Stopwatch
from .context import REQUEST_ID, request_id
from .errors import problem_response
from .exchange import ABORT, RESPOND, WHOLE_BODY, answer_fields
from .filling import FILL, Filling
from .known import REMEMBER, Again, Known, KnownHeads
from .turned_away import TurnedAway

MOST_HEADERS = 100
HEAD_BYTES = 32 * 1024
"""Bounds of the head of a request: its header fields, and its bytes with the request line."""

_LINGERS = 0.5
"""Seconds for which the rest of a refused request is read and dropped: to close at once would take the answer back."""

_ARRIVES = 0.1
"""Seconds for which a refusal may be on its way to a client that still sends; the body waits in buffers meanwhile."""

_LONGEST = 1.6
"""Seconds that it has at most, if the client has not closed the connection: then it has read the refusal."""

_HEAD_END = b"\r\n\r\n"


class ProblemProtocol(HttpToolsProtocol):
    """Answers a request whose head cannot be read with a problem, and closes the connection."""

    _waits_since: float | None = None
    """When the client began to owe bytes of a head, or of a body that nobody reads."""
    _blocked_since: float | None = None
    """When the client stopped reading what is sent to it."""
    _lingering: asyncio.TimerHandle | None = None
    """Closes the connection unless the rest of a refused body comes before."""
    _head_bytes = 0
    _packet_bytes = 0
    _refusal: OpwireError | None = None
    _drops = False
    """Whether what comes has no meaning any more."""
    _first_packet: bytes | None = None
    """What the client sent last, if a request begins with it."""
    _answered = 0.0
    """When a request with a known head was answered last."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._waits_since = self.loop.time()
        self._known_heads: KnownHeads | None = getattr(self.app, "known_heads", None)
        self._extensions: dict[str, dict[object, object]] = {ABORT: {"abort": transport.abort}}

    def data_received(self, data: bytes) -> None:
        if self._drops or self._refusal is not None:
            return
        self._first_packet = None
        if self._is_at_rest():
            if self._answer_known(data):
                return
            self._first_packet = data
        self._packet_bytes = len(data)
        super().data_received(data)
        if self._head_bytes and self._refusal is None:
            # The head goes on in the next packet.
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refusal = _too_large("bytes in the head of the request", self._head_bytes, HEAD_BYTES)
                self.send_400_response("")

    def _is_at_rest(self) -> bool:
        """Whether all requests that have begun are over."""
        if self._head_bytes:
            return False
        cycle = cast(RequestResponseCycle | None, self.cycle)  # there is none at first
        return cycle is None or (cycle.response_complete and not cycle.more_body)

    def _answer_known(self, data: bytes) -> bool:
        """Answers a request that came in one piece, behind a head that is known; returns whether it did."""
        heads = self._known_heads
        if heads is None or self.flow.write_paused or self.transport.is_closing():
            return False
        end = data.find(_HEAD_END) + len(_HEAD_END)
        known = heads.find(data[:end])
        if known is None or len(data) != end + known.length:
            return False
        watch = Stopwatch()
        identity = request_id(None)
        watch.lap("receive")
        try:
            written = known.again(data[end:], identity, watch)
        except OpwireError:
            return False  # on the long way it becomes a problem
        if written is None:
            return False
        body = b"".join(written.answer.chunks)
        self._write(answer_fields(len(body), written.answer.head_length, identity, written.headers), body)
        heads.ended(known, watch.elapsed)
        self.server_state.total_requests += 1
        self._waits_since = None
        self._answered = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._keep_alive(self.timeout_keep_alive)
        return True

    def _keep_alive(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """The time that a connection may rest is over, unless a known request was answered meanwhile."""
        left = self._answered + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._keep_alive(left)
        else:
            super().timeout_keep_alive_handler()

    def _remember(self, head: bytes, headers: list[tuple[bytes, bytes]], length: int, again: Again, route: str) -> None:
        if self._known_heads is not None:
            self._known_heads.keep(head, [name for name, _ in headers], Known(again, route, length))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = self._extensions
        self._waits_since = self.loop.time()
        self._head_bytes = 1

    def on_headers_complete(self) -> None:
        self._waits_since = None
        fed, self._head_bytes = self._head_bytes + self._packet_bytes, 0
        if len(self.headers) > MOST_HEADERS:
            self._refusal = _too_large("header fields", len(self.headers), MOST_HEADERS)
        elif fed > HEAD_BYTES:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > HEAD_BYTES:
                self._refusal = _too_large("bytes in the head of the request", size, HEAD_BYTES)
        if self._refusal is not None:
            raise self._refusal
        if self._turn_away():
            return
        super().on_headers_complete()
        self._own[RESPOND] = partial(self._respond, self.cycle)
        self._own[FILL] = partial(self.fill, self.cycle)

    def _turn_away(self) -> bool:
        """Refuses a request whose body the server has no time for; returns whether it did."""
        judge: TurnedAway | None = getattr(self.app, "turned_away", None)
        before = cast(RequestResponseCycle | None, self.cycle)
        if judge is None or self.parser.get_method() != b"POST" or not (before is None or before.response_complete):
            return False
        error = judge.refusal(self.url, self.headers)
        if error is None:
            return False
        # To read the body and drop it takes almost as much as to use it. Closing ends that; the answer goes first.
        self._drops = True
        self._write_problem(error, request_id(dict(self.headers).get(REQUEST_ID)), self.url.decode("ascii"))
        self.flow.pause_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_ARRIVES, self._close_when_read, _ARRIVES)
        return True

    def _close_when_read(self, waited: float) -> None:
        """Closes the connection if the client has, or has had its time; looks again after as long as it had until now.

        Nothing is read meanwhile, so nothing else tells.
        """
        if waited >= _LONGEST or self.transport.is_closing() or _is_closed(self.transport):
            self.transport.close()
        else:
            self.loop.call_later(waited, self._close_when_read, 2 * waited)

    def on_body(self, body: bytes) -> None:
        if not self._drops:
            super().on_body(body)

    @property
    def _own(self) -> dict[str, object]:
        """The scope as one that has members for the application alone."""
        return cast(dict[str, object], self.scope)

    async def fill(self, cycle: RequestResponseCycle, memory: memoryview) -> None:
        """Receives the body of a request.

        Args:
            memory: as long as the body.

        Raises:
            ClientDisconnect: the client is gone.
        """
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
        filling = Filling(self, self.flow, memory[len(arrived) :])
        self._hand_over(filling)
        try:
            await filling.done
        finally:
            if not self.transport.is_closing():
                self.parser = _make_parser(self)
                self._hand_over(self)
            if filling.is_full:
                cycle.more_body = False
                cycle.message_event.clear()
            else:
                # Where the body ends nobody knows now.
                self._drops = True
                cycle.keep_alive = False

    def _hand_over(self, protocol: asyncio.BaseProtocol) -> None:
        """Lets a protocol have what comes next. One that takes buffers is known as such only when reading begins."""
        self.flow.pause_reading()
        self.transport.set_protocol(protocol)
        self.flow.resume_reading()

    def _respond(self, cycle: RequestResponseCycle, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Writes a whole answer with the status 200; returns whether it did, because not each connection takes one."""
        if cycle.disconnected or not cycle.keep_alive or self.flow.write_paused:
            return False
        self._write(headers, body)
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        cycle.on_response()
        return True

    def _write(self, headers: Sequence[tuple[bytes, bytes]], body: bytes, status: str = "200 OK") -> None:
        pieces = [b"HTTP/1.1 ", status.encode(), b"\r\n"]
        for name, value in (*self.server_state.default_headers, *headers):
            pieces += (name, b": ", value, b"\r\n")
        pieces += (b"\r\n", body)
        self.transport.write(b"".join(pieces))

    def on_response_complete(self) -> None:
        if self.cycle.more_body:
            self._waits_since = self.loop.time()
            if any(name == b"transfer-encoding" for name, _ in self.headers):  # its end is not known beforehand
                self._lingering = self.loop.call_later(_LINGERS, self.transport.close)
        super().on_response_complete()

    def on_message_complete(self) -> None:
        if self._drops:
            return
        if not self.cycle.waiting_for_100_continue:
            body = self.cycle.body
            self._own[WHOLE_BODY] = body
            packet = self._first_packet
            if packet is not None and len(packet) - len(body) == packet.find(_HEAD_END) + len(_HEAD_END):
                head = packet[: len(packet) - len(body)]
                remember = partial(self._remember, head, self.headers, len(body))
                self._own[REMEMBER] = remember
        if self._lingering is not None:
            # The rest has come, and the client may use the connection for its next request.
            self._lingering.cancel()
            self._lingering = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._blocked_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._blocked_since = None

    def close_if_slow(self, receive_seconds: float, send_seconds: float) -> None:
        """Closes the connection if the client has owed bytes, or has not read any, for longer than that."""
        now = self.loop.time()
        if self._blocked_since is not None and now - self._blocked_since > send_seconds:
            self.transport.abort()
        elif self._waits_since is not None and now - self._waits_since > receive_seconds:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        unreadable = RequestError(ProblemCode.INVALID_REQUEST, "the request line or a header is not HTTP")
        self._write_problem(self._refusal or unreadable, request_id(None))
        if self._refusal is None:
            self.transport.close()
        else:
            self.loop.call_later(_LINGERS, self.transport.close)

    def _write_problem(self, error: OpwireError, identity: str, path: str = "") -> None:
        """Writes the last answer on this connection."""
        response = problem_response(error, identity, path)
        response.headers["connection"] = "close"
        status = HTTPStatus(response.status_code)
        self._write(response.raw_headers, bytes(response.body), f"{status.value} {status.phrase}")


def _is_closed(transport: asyncio.BaseTransport) -> bool:
    """Whether the other side has closed the connection, of which nothing is read; also where no system call tells."""
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), 0)
    return bool(poll.poll(0))


def _make_parser(protocol: ProblemProtocol) -> httptools.HttpRequestParser:
    """A parser like uvicorn's, for the next request."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _too_large(what: str, size: int, limit: int) -> LimitExceededError:
    detail = f"{size} {what}; this server takes at most {limit}"
    return LimitExceededError(ProblemCode.HEAD_TOO_LARGE, detail, limit=limit, size=size)
