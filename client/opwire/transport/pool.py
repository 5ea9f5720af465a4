"""The connections of the blocking client: opened by ``http.client``, shared by threads, their answers read by llhttp.

With a small operator, to read the answer by ``http.client`` takes ten times as long as by llhttp, and the transport of
httpx takes as long as all the rest of the call.
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
from .timed import timed
from .turns import Turns

MOST_CONNECTIONS = 100
"""Requests under way at once; the others wait for theirs to begin."""

IDLE_SECONDS = 30.0
"""The server keeps an idle connection for longer than this, so the client never writes to one that is being closed."""

_JUST_USED = 0.01
"""Seconds after an answer within which nobody asks whether the server has closed the connection since."""


class ConnectionPool:
    """Sends attempts to one server over connections that it keeps; it may be shared by threads.

    Args:
        url: of the server.
        verify: as httpx takes it.
        proxy: over which all requests go; its scheme is http.
    """

    def __init__(self, url: httpx.URL, verify: ssl.SSLContext | bool, proxy: httpx.Proxy | None) -> None:
        self._url = url
        self._verify = verify
        self._proxy = proxy
        self._tls: ssl.SSLContext | None = None
        self._idle: list[_Connection] = []
        self._is_closed = False
        self._begin()
        self._target = url.raw_path.rstrip(b"/")
        self._headers = b""
        if proxy is not None and url.scheme == "http":  # no tunnel: the proxy is told the whole URL
            self._target = b"http://" + url.netloc + self._target
            self._headers = "".join(f"{name}: {value}\r\n" for name, value in _authorization(proxy).items()).encode()

    def _begin(self) -> None:
        """Starts without connections; a process that was forked must not use those of its parent."""
        self._close_idle()
        self._turns = Turns(MOST_CONNECTIONS)
        self._process = os.getpid()

    def send(self, attempt: Attempt[Any]) -> None:
        """Sends the request and receives the answer.

        Raises:
            OpwireError: there is none, or none that is read.
        """
        if self._process != os.getpid():
            self._begin()
        turns = self._turns
        if not turns.take(attempt.time.left()):
            raise TransportTimeout(f"no answer in time ({attempt}): {MOST_CONNECTIONS} requests were under way before")
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
            turns.give()

    def _idle_one(self) -> _Connection | None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if connection.is_usable():
                return connection
            connection.close()
        return None

    def _connect(self, attempt: Attempt[Any]) -> _Connection:
        try:
            return _Connection(self._open(attempt.time.to_connect()))
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
            clear_frames(error.__traceback__)  # what refused a tunnel keeps the socket open in one of them
            raise
        connected: socket.socket = opened.sock
        return connected

    def _exchange(self, connection: _Connection, attempt: Attempt[Any]) -> bool:
        """Sends and receives; returns whether the connection may be used again."""
        try:
            connection.send(self._head(attempt), attempt)
        except TimeoutError:
            raise
        except OSError as error:  # a server that refuses a request may answer before it has all of it, and close
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
        """Closes the connections; those under way are closed once their requests are answered."""
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


class _Connection:
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
        """Whether an idle connection may be used again: the server has neither closed it nor said anything."""
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
                piece = head + piece  # a small body goes out with the head, so that the server wakes once
            elif head:
                self._send(head, attempt.time)
            head = b""
            self._send(piece, attempt.time)

    def _send(self, data: bytes, time_left: TimeLeft) -> None:
        self._timed.send(data, time_left.left)

    def receive(self, reader: ResponseReader, time_left: TimeLeft) -> None:
        """Waits for the next bytes; where the server has closed, the answer is complete, or broken."""
        data = self._timed.receive(PIECE_BYTES, time_left.left)
        if data:
            reader.feed(data)
        else:
            reader.end()

    def close(self) -> None:
        self._socket.close()
