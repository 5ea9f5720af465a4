"""An answer of HTTP/1.1 as its bytes arrive: read by llhttp, within bounds on all that is not its body."""

from __future__ import annotations

import httptools

MOST_HEAD_BYTES = 64 * 1024
"""Bytes of heads, trailers, and the lines around chunks, beyond a few for each byte of the body."""

_MOST_FRAMING = 8
"""Bytes around a byte of the body; a chunk of one byte has five."""


class ProtocolError(Exception):
    """The server sent no answer of HTTP/1.1, or not all of one."""


class ResponseReader:
    """Reads one answer. Interim answers (1xx) before it are skipped.

    Attributes:
        status: of the answer, once there is one.
        headers: names and values, once there is a status.
        complete: whether all of the answer has arrived.
        keeps: whether the connection may then be used again.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.complete = False
        self.keeps = False
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._fed = 0
        self._in_body = 0

    def take(self) -> list[bytes]:
        """The pieces of the body that have arrived since this was last called."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def feed(self, data: bytes) -> None:
        """Reads the next bytes.

        Raises:
            ProtocolError: they are no answer of HTTP/1.1, or its head does not end.
        """
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise ProtocolError("the server changes to another protocol, unasked") from None
        except httptools.HttpParserError as error:
            if not self.complete:  # else what follows the answer is not one, and the connection is not used again
                raise ProtocolError(f"{data[:80]!r} is no answer of HTTP/1.1: {error}") from None
            self.keeps = False
        if self._fed - self._in_body > MOST_HEAD_BYTES + _MOST_FRAMING * self._in_body and not self.complete:
            raise ProtocolError("the head of the answer, or what is around its body, does not end")

    def end(self) -> None:
        """The server has closed the connection.

        Raises:
            ProtocolError: the answer is not whole.
        """
        framing = {name.lower() for name, _ in self.headers}
        if not self.status or framing & {b"content-length", b"transfer-encoding"}:
            raise ProtocolError("the server closed the connection within its answer")
        self.complete = True

    # What follows is called by the parser.

    def on_message_begin(self) -> None:
        if self.complete:
            self.keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        if self._parser.get_http_version() not in ("1.1", "1.0"):
            raise ValueError("its version is another")
        status = self._parser.get_status_code()
        if status < 100:
            raise ValueError("its status is none")
        if status >= 200:
            self.status = status

    def on_body(self, body: bytes) -> None:
        if not self.complete:
            self._in_body += len(body)
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self.complete:
            return
        if self.status:
            self.complete = True
            self.keeps = self._parser.should_keep_alive()
        else:
            self.headers.clear()
