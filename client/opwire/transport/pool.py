"""The connection pool of the blocking client: opens connections with ``http.client`` and parses answers with llhttp.

For a small operator, ``http.client`` takes ten times as long as llhttp to parse the answer, and httpx's own transport
takes as long as the rest of the call.
"""

from __future__ import annotations

import base64
import http.client
import os
import select
import socket
import ssl
import time
from traceback import clear_frames
from typing import Any

import httpx

from ..errors import ConnectError, TransportTimeout
from .attempt import PIECE_BYTES, Attempt, TimeLeft
from .proxies import unreached
from .response import ProtocolError, ResponseReader
from .semaphore import FairSemaphore
from .timed import timed

MAX_CONNECTIONS = 100
"""Maximum number of concurrent requests; further ones wait."""

IDLE_SECONDS = 30.0
"""Seconds for which an idle connection may be reused: less than the server keeps it, so that it is never closing."""

_JUST_USED = 0.01
"""Seconds after an answer during which a connection is reused without checking whether the server closed it."""


class ConnectionPool:
    """Sends attempts to one server over persistent connections. Safe to share between threads.

    Args:
        url: the URL of the server.
        verify: as in httpx.
        proxy: the proxy for all requests, of scheme http.
    """

    def __init__(self, url: httpx.URL, verify: ssl.SSLContext | bool, proxy: httpx.Proxy | None) -> None:
        self._url = url
        self._verify = verify
        self._proxy = proxy
        self._tls: ssl.SSLContext | None = None
        self._idle: list[_PooledConnection] = []
        self._is_closed = False
        self._begin()
        self._target = url.raw_path.rstrip(b"/")
        self._headers = b""
        if proxy is not None and url.scheme == "http":  # without a tunnel, the proxy gets the whole URL
            self._target = b"http://" + url.netloc + self._target
            self._headers = "".join(f"{name}: {value}\r\n" for name, value in _authorization(proxy).items()).encode()

    def _begin(self) -> None:
        """Starts without connections: a forked process must not use those of its parent."""
        self._close_idle()
        self._slots = FairSemaphore(MAX_CONNECTIONS)
        self._process = os.getpid()

    def send(self, attempt: Attempt[Any]) -> None:
        """Sends the request and receives the answer.

        Raises:
            OpwireError: there is no answer, or it is not accepted.
        """
        if self._process != os.getpid():
            self._begin()
        slots = self._slots
        if not slots.acquire(attempt.time.left()):
            raise TransportTimeout(f"no answer in time ({attempt}): {MAX_CONNECTIONS} other requests were in progress")
        connection = None
        keep = False
        try:
            connection = self._idle_one() or self._connect(attempt)
            keep = self._exchange(connection, attempt)
        except TimeoutError as error:
            raise TransportTimeout(f"no answer in time ({attempt}): {error}") from error
        except (OSError, ProtocolError) as error:
            raise ConnectError(f"the connection broke ({attempt}): {error}") from error
        finally:
            if connection is not None:
                if keep:
                    connection.idle_since = time.monotonic()
                    self._idle.append(connection)
                    if self._is_closed:
                        self._close_idle()
                else:
                    connection.close()
            slots.release()

    def _idle_one(self) -> _PooledConnection | None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if connection.is_usable():
                return connection
            connection.close()
        return None

    def _connect(self, attempt: Attempt[Any]) -> _PooledConnection:
        try:
            return _PooledConnection(self._open(attempt.time.to_connect()))
        except (OSError, UnicodeError, http.client.HTTPException) as error:
            words = unreached(self._proxy)
            raise ConnectError(f"{words} ({attempt}): {str(error) or type(error).__name__}") from error

    def _open(self, seconds: float) -> socket.socket:
        scheme, host = self._url.scheme, self._url.raw_host.decode("ascii")
        port = self._url.port or (443 if scheme == "https" else 80)
        to = (host, port)
        if self._proxy is not None:
            to = (self._proxy.url.raw_host.decode("ascii"), self._proxy.url.port or 80)
        if scheme != "https":
            opened = http.client.HTTPConnection(*to, timeout=seconds)
        else:
            if self._tls is None:
                self._tls = httpx.create_ssl_context(self._verify)
            opened = http.client.HTTPSConnection(*to, timeout=seconds, context=self._tls)
            if self._proxy is not None:
                opened.set_tunnel(host, port, _authorization(self._proxy))
        try:
            opened.connect()
        except BaseException as error:
            opened.close()
            clear_frames(error.__traceback__)  # if a tunnel is refused, one of the frames keeps the socket open
            raise
        connected: socket.socket = opened.sock
        return connected

    def _exchange(self, connection: _PooledConnection, attempt: Attempt[Any]) -> bool:
        """Sends the request and receives the answer. Returns whether the connection can be reused."""
        try:
            connection.send(self._head(attempt), attempt)
        except TimeoutError:
            raise
        except OSError as error:  # a server may reject a request, and close, before it has received all of it
            unsent: OSError | None = error
        else:
            unsent = None
        reader = ResponseReader()
        try:
            while not reader.status:
                connection.receive(reader, attempt.time)
        except (OSError, ProtocolError) as error:
            raise unsent or error from None
        attempt.begin(reader.status, reader.headers)
        while True:
            for piece in reader.take():
                attempt.receive(piece)
            if reader.complete:
                return reader.keeps
            connection.receive(reader, attempt.time)

    def _head(self, attempt: Attempt[Any]) -> bytes:
        request = attempt.request
        own = "".join([f"{name}: {value}\r\n" for name, value in attempt.own_headers()])
        first = f"{request.method} ".encode() + self._target + f"{request.path} HTTP/1.1\r\n".encode()
        return b"%b%b%b%b\r\n" % (first, attempt.endpoint.block, self._headers, own.encode())

    def close(self) -> None:
        """Closes the connections; those in use close once their requests are answered."""
        self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread took the last one
                break


def _authorization(proxy: httpx.Proxy) -> dict[str, str]:
    if proxy.raw_auth is None:
        return {}
    return {"Proxy-Authorization": "Basic " + base64.b64encode(b":".join(proxy.raw_auth)).decode("ascii")}


class _PooledConnection:
    """An open connection to a server."""

    __slots__ = ("_poll", "_socket", "_timed", "idle_since")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._timed = timed(connected)
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(connected, select.POLLIN)
        self.idle_since = 0.0

    def is_usable(self) -> bool:
        """Returns whether an idle connection can be reused: the server has neither closed it nor sent anything."""
        idle = time.monotonic() - self.idle_since
        if idle > IDLE_SECONDS or self._socket.fileno() < 0:
            return False
        if idle < _JUST_USED:
            return True
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return False
        if self._poll is not None:
            return not self._poll.poll(0)
        return not select.select([self._socket], [], [], 0)[0]

    def send(self, head: bytes, attempt: Attempt[Any]) -> None:
        for piece in attempt.pieces():
            if head and len(head) + len(piece) <= PIECE_BYTES:
                piece = head + piece  # a small body is sent with the head, so that the server wakes up once
            elif head:
                self._send(head, attempt.time)
            head = b""
            self._send(piece, attempt.time)

    def _send(self, data: bytes, time_left: TimeLeft) -> None:
        self._timed.send(data, time_left.left)

    def receive(self, reader: ResponseReader, time_left: TimeLeft) -> None:
        """Receives the next bytes. If the server has closed the connection, ends the answer."""
        data = self._timed.receive(PIECE_BYTES, time_left.left)
        if data:
            reader.feed(data)
        else:
            reader.end()

    def close(self) -> None:
        self._socket.close()
