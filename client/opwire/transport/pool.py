"""The blocking transport: connections of ``http.client``, kept and shared by threads, and answers read by llhttp.

Measured with a small operator, reading an answer by ``http.client`` takes ten times as long as by llhttp, and the
transport of httpx takes twice as long as the whole call.
"""

from __future__ import annotations

import base64
import http.client
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress

import httpx

from .response import ResponseReader
from .turns import Turns

MOST_CONNECTIONS = 100
"""Requests under way at once; the others wait for theirs to begin."""

IDLE_SECONDS = 30.0
"""The server keeps an idle connection for longer than this, so the client never writes to one that is being closed."""

LIMITS = httpx.Limits(
    max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_CONNECTIONS, keepalive_expiry=IDLE_SECONDS
)
"""The same for transports of httpx."""

_PIECE_BYTES = 256 * 1024

Timeouts = Mapping[str, float | None]
Origin = tuple[str, str, int]
"""Scheme, host and port."""


@contextmanager
def _named(timeout: type[httpx.TransportError], other: type[httpx.TransportError]) -> Generator[None]:
    """Turns the errors of a socket into those of httpx."""
    try:
        yield
    except TimeoutError as error:
        raise timeout(str(error)) from error
    except (OSError, UnicodeError, http.client.HTTPException) as error:
        raise other(str(error) or type(error).__name__) from error


class _Connection:
    """An open connection to a server."""

    __slots__ = ("_poll", "_socket", "idle_since", "origin")

    def __init__(self, connected: socket.socket, origin: Origin) -> None:
        self._socket = connected
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(connected, select.POLLIN)
        self.origin = origin
        self.idle_since = 0.0

    def is_usable(self) -> bool:
        """Whether an idle connection may be used again: the server has neither closed it nor said anything."""
        if time.monotonic() - self.idle_since > IDLE_SECONDS or self._socket.fileno() < 0:
            return False
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return False
        if self._poll is not None:
            return not self._poll.poll(0)
        return not select.select([self._socket], [], [], 0)[0]

    def send(self, data: bytes, timeouts: Timeouts) -> None:
        self._socket.settimeout(timeouts["write"])
        with _named(httpx.WriteTimeout, httpx.WriteError):
            self._socket.sendall(data)

    def receive(self, timeouts: Timeouts) -> bytes:
        """The next bytes; none once the server has closed the connection."""
        self._socket.settimeout(timeouts["read"])
        with _named(httpx.ReadTimeout, httpx.ReadError):
            return self._socket.recv(_PIECE_BYTES)

    def close(self) -> None:
        self._socket.close()


class PooledTransport(httpx.BaseTransport):
    """Sends requests over a pool of connections; it may be shared by threads.

    Args:
        verify: as httpx takes it.
        proxy: over which all requests go; its scheme is http.
    """

    def __init__(self, verify: ssl.SSLContext | bool = True, proxy: httpx.Proxy | None = None) -> None:
        self._verify = verify
        self._proxy = proxy
        self._tls: ssl.SSLContext | None = None
        self._idle: deque[_Connection] = deque()
        self._turns = Turns(MOST_CONNECTIONS)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        timeouts: Timeouts = request.extensions["timeout"]
        if not self._turns.take(timeouts["pool"]):
            raise httpx.PoolTimeout(f"{MOST_CONNECTIONS} requests are under way already")
        connection = None
        try:
            url = request.url
            origin = (url.scheme, url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80))
            connection = self._idle_one(origin) or self._connect(origin, timeouts)
            _send(connection, _head(request, self._proxy), request, timeouts)
            reader = ResponseReader()
            body: list[bytes] = []
            while not reader.status:
                body += _receive(connection, reader, timeouts)
            stream = _Body(connection, reader, body, timeouts, self._end)
            return httpx.Response(reader.status, headers=reader.headers, stream=stream)
        except BaseException:
            self._end(connection)
            raise

    def _idle_one(self, origin: Origin) -> _Connection | None:
        for _ in range(len(self._idle)):
            with suppress(IndexError):  # another thread took the last one
                connection = self._idle.pop()
                if connection.origin != origin:
                    self._idle.appendleft(connection)
                elif connection.is_usable():
                    return connection
                else:
                    connection.close()
        return None

    def _connect(self, origin: Origin, timeouts: Timeouts) -> _Connection:
        scheme, host, port = origin
        if scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol(f"the URL has the scheme {scheme!r}; it is http or https")
        to, timeout = (host, port), timeouts["connect"]
        if self._proxy is not None:
            to = (self._proxy.url.raw_host.decode("ascii"), self._proxy.url.port or 80)
        opened = (
            http.client.HTTPSConnection(*to, timeout=timeout, context=self._context())
            if scheme == "https"
            else http.client.HTTPConnection(*to, timeout=timeout)
        )
        if self._proxy is not None and scheme == "https":
            opened.set_tunnel(host, port, _authorization(self._proxy))
        with _named(httpx.ConnectTimeout, httpx.ConnectError):
            try:
                opened.connect()
            except BaseException:
                opened.close()
                raise
        assert opened.sock is not None
        return _Connection(opened.sock, origin)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = httpx.create_ssl_context(self._verify)
        return self._tls

    def _end(self, connection: _Connection | None, *, keep: bool = False) -> None:
        """A request is over."""
        if connection is not None:
            if keep:
                connection.idle_since = time.monotonic()
                self._idle.append(connection)
            else:
                connection.close()
        self._turns.give()

    def close(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


def _authorization(proxy: httpx.Proxy) -> dict[str, str]:
    if proxy.raw_auth is None:
        return {}
    return {"Proxy-Authorization": "Basic " + base64.b64encode(b":".join(proxy.raw_auth)).decode("ascii")}


def _head(request: httpx.Request, proxy: httpx.Proxy | None) -> bytes:
    """The head of a request; a proxy that is no tunnel is told the whole URL."""
    url = request.url
    target = url.raw_path
    lines = [b"%b: %b" % header for header in request.headers.raw]
    if proxy is not None and url.scheme == "http":
        target = b"http://" + url.netloc + target
        lines += [f"{name}: {value}".encode("ascii") for name, value in _authorization(proxy).items()]
    return b"%b %b HTTP/1.1\r\n%b\r\n\r\n" % (request.method.encode("ascii"), target, b"\r\n".join(lines))


def _send(connection: _Connection, head: bytes, request: httpx.Request, timeouts: Timeouts) -> None:
    assert isinstance(request.stream, httpx.SyncByteStream)
    # A server that refuses a request may answer before it has all of it, and close.
    with suppress(httpx.WriteError):
        for piece in request.stream:
            if head and len(head) + len(piece) > _PIECE_BYTES:
                connection.send(head, timeouts)
                head = b""
            # A small body goes out with the head, so that the server wakes once.
            connection.send(head + piece if head else piece, timeouts)
            head = b""
        if head:
            connection.send(head, timeouts)


def _receive(connection: _Connection, reader: ResponseReader, timeouts: Timeouts) -> list[bytes]:
    data = connection.receive(timeouts)
    if data:
        return list(reader.feed(data))
    reader.end()
    return []


class _Body(httpx.SyncByteStream):
    """The body of an answer, as it arrives."""

    def __init__(
        self,
        connection: _Connection,
        reader: ResponseReader,
        received: list[bytes],
        timeouts: Timeouts,
        end: Callable[..., None],
    ) -> None:
        self._connection: _Connection | None = connection
        self._reader = reader
        self._received = received
        self._timeouts = timeouts
        self._end = end

    def __iter__(self) -> Iterator[bytes]:
        yield from self._received
        while not self._reader.complete:
            assert self._connection is not None
            yield from _receive(self._connection, self._reader, self._timeouts)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._end(connection, keep=self._reader.complete and self._reader.keeps)
