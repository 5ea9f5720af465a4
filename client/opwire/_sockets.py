"""HTTP/1.1 over sockets, as a transport of httpx: for a small operator its own takes longer than the server does."""

from __future__ import annotations

import re
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress

import httpx

from ._transport import IDLE_SECONDS, MOST_CONNECTIONS

_HEAD_BYTES = 64 * 1024
_PIECE_BYTES = 256 * 1024

_LENGTH = re.compile(rb"[0-9]{1,18}")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")

_Timeouts = Mapping[str, float | None]


@contextmanager
def _named(timeout: type[httpx.TransportError], other: type[httpx.TransportError]) -> Generator[None]:
    """Turns the errors of a socket into those of httpx."""
    try:
        yield
    except TimeoutError as error:
        raise timeout(str(error)) from error
    except (OSError, UnicodeError) as error:
        raise other(str(error)) from error


class _Connection:
    """A connection, and what has arrived on it."""

    __slots__ = ("_poll", "_socket", "idle_since", "received")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(connected, select.POLLIN)
        self.received = b""
        self.idle_since = 0.0

    def is_usable(self) -> bool:
        """Whether an idle connection may be used again: the server has neither closed it nor said anything."""
        if time.monotonic() - self.idle_since > IDLE_SECONDS or self._socket.fileno() < 0:
            return False
        if self._poll is not None:
            return not self._poll.poll(0)
        return not select.select([self._socket], [], [], 0)[0]

    def send(self, data: bytes, timeouts: _Timeouts) -> None:
        self._socket.settimeout(timeouts["write"])
        with _named(httpx.WriteTimeout, httpx.WriteError):
            self._socket.sendall(data)

    def receive(self, timeouts: _Timeouts, most: int = _PIECE_BYTES) -> bytes:
        """The next bytes, of which there is at least one.

        Raises:
            httpx.RemoteProtocolError: there are no more.
        """
        if self.received:
            found, self.received = self.received[:most], self.received[most:]
            return found
        self._socket.settimeout(timeouts["read"])
        with _named(httpx.ReadTimeout, httpx.ReadError):
            found = self._socket.recv(most)
        if not found:
            raise httpx.RemoteProtocolError("the server closed the connection within its answer")
        return found

    def until(self, end: bytes, timeouts: _Timeouts) -> bytes:
        """The bytes up to an end, without that."""
        data = self.receive(timeouts)
        while (at := data.find(end)) < 0:
            if len(data) > _HEAD_BYTES:
                raise httpx.RemoteProtocolError("the head of the answer does not end")
            data += self.receive(timeouts)
        self.received = data[at + len(end) :] + self.received
        return data[:at]

    def close(self) -> None:
        self._socket.close()


class SocketTransport(httpx.BaseTransport):
    """Sends requests over a pool of connections; it may be shared by threads.

    Args:
        verify: as httpx takes it.
    """

    def __init__(self, verify: ssl.SSLContext | bool) -> None:
        self._verify = verify
        self._tls: ssl.SSLContext | None = None
        self._idle: deque[tuple[tuple[str, str, int], _Connection]] = deque()
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        timeouts: _Timeouts = request.extensions["timeout"]
        if not self._places.acquire(timeout=timeouts["pool"]):
            raise httpx.PoolTimeout(f"{MOST_CONNECTIONS} requests are under way already")
        connection = None
        try:
            url = request.url
            origin = (url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
            connection = self._take(origin) or self._connect(origin, timeouts)
            _send(connection, request, timeouts)
            status, headers = _read_head(connection, timeouts)
            body = _Body(self, origin, connection, timeouts, status, headers)
            return httpx.Response(status, headers=headers, stream=body)
        except BaseException:
            self.end(connection)
            raise

    def _take(self, origin: tuple[str, str, int]) -> _Connection | None:
        for _ in range(len(self._idle)):
            with suppress(IndexError):  # another thread took the last one
                found, connection = self._idle.pop()
                if found != origin:
                    self._idle.appendleft((found, connection))
                elif connection.is_usable():
                    return connection
                else:
                    connection.close()
        return None

    def _connect(self, origin: tuple[str, str, int], timeouts: _Timeouts) -> _Connection:
        scheme, host, port = origin
        if scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol(f"the URL has the scheme {scheme!r}; it is http or https")
        with _named(httpx.ConnectTimeout, httpx.ConnectError):
            connected = socket.create_connection((host, port), timeouts["connect"])
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if scheme == "https":
                    connected = self._context().wrap_socket(connected, server_hostname=host)
            except BaseException:
                connected.close()
                raise
        return _Connection(connected)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = httpx.create_ssl_context(self._verify)
        return self._tls

    def end(self, connection: _Connection | None, origin: tuple[str, str, int] | None = None) -> None:
        """A request is over; its connection is kept if an origin is given."""
        if connection is not None:
            if origin is None:
                connection.close()
            else:
                connection.idle_since = time.monotonic()
                self._idle.append((origin, connection))
        self._places.release()

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()


def _send(connection: _Connection, request: httpx.Request, timeouts: _Timeouts) -> None:
    lines = [b"%b: %b" % (name, value) for name, value in request.headers.raw]
    data = b"%b %b HTTP/1.1\r\n%b\r\n\r\n" % (request.method.encode(), request.url.raw_path, b"\r\n".join(lines))
    assert isinstance(request.stream, httpx.SyncByteStream)
    # A server that refuses a request may answer before it has all of it, and close.
    with suppress(httpx.WriteError):
        for piece in request.stream:
            if data and len(data) + len(piece) > _PIECE_BYTES:
                connection.send(data, timeouts)
                data = b""
            # A small body goes out with the head, so that the server wakes once.
            connection.send(data + piece if data else piece, timeouts)
            data = b""
        if data:
            connection.send(data, timeouts)


def _read_head(connection: _Connection, timeouts: _Timeouts) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Status and headers; answers that only announce the next one are skipped."""
    while True:
        first, *lines = connection.until(b"\r\n\r\n", timeouts).split(b"\r\n")
        version, _, rest = first.partition(b" ")
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or not rest[:3].isdigit():
            raise httpx.RemoteProtocolError(f"{first[:80]!r} is no answer of HTTP/1.1")
        if not rest.startswith(b"1"):
            break
    headers = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            raise httpx.RemoteProtocolError(f"{line[:80]!r} is no header")
        headers.append((name, value.strip(b" \t")))
    if version == b"HTTP/1.0":
        headers.append((b"Connection", b"close"))
    return int(rest[:3]), headers


class _Body(httpx.SyncByteStream):
    """The body of an answer, as it arrives."""

    def __init__(
        self,
        transport: SocketTransport,
        origin: tuple[str, str, int],
        connection: _Connection,
        timeouts: _Timeouts,
        status: int,
        headers: list[tuple[bytes, bytes]],
    ) -> None:
        named = {name.lower(): value.lower() for name, value in headers}
        self._transport = transport
        self._origin = origin
        self._connection: _Connection | None = connection
        self._timeouts = timeouts
        self._chunked = named.get(b"transfer-encoding") == b"chunked"
        length = named.get(b"content-length", b"" if status not in (204, 304) else b"0")
        self._length = int(length) if _LENGTH.fullmatch(length) else None
        self._keeps = named.get(b"connection") != b"close" and (self._chunked or self._length is not None)
        self._complete = False

    def __iter__(self) -> Iterator[bytes]:
        assert self._connection is not None
        if self._chunked:
            yield from self._chunks(self._connection)
        elif self._length is not None:
            yield from self._exactly(self._connection, self._length)
        else:
            yield from self._to_the_end(self._connection)
        self._complete = True

    def _exactly(self, connection: _Connection, left: int) -> Iterator[bytes]:
        while left:
            piece = connection.receive(self._timeouts, min(left, _PIECE_BYTES))
            left -= len(piece)
            yield piece

    def _chunks(self, connection: _Connection) -> Iterator[bytes]:
        while True:
            size = connection.until(b"\r\n", self._timeouts).partition(b";")[0].strip()
            if not _CHUNK_SIZE.fullmatch(size):
                raise httpx.RemoteProtocolError(f"{size[:80]!r} is no size of a chunk")
            length = int(size, 16)
            if not length:
                break
            yield from self._exactly(connection, length)
            connection.until(b"\r\n", self._timeouts)
        while connection.until(b"\r\n", self._timeouts):
            pass

    def _to_the_end(self, connection: _Connection) -> Iterator[bytes]:
        with suppress(httpx.RemoteProtocolError):
            while True:
                yield connection.receive(self._timeouts)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            whole = self._complete and self._keeps and not connection.received
            self._transport.end(connection, self._origin if whole else None)
