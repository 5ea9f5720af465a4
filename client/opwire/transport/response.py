"""Parses HTTP/1.1 answers incrementally with llhttp, with bounds on everything besides the body."""

from __future__ import annotations

import httptools

MAX_HEAD_BYTES = 64 * 1024
"""Maximum size of heads, trailers and chunk framing, in bytes, beyond a few for each byte of the body."""

_MAX_FRAMING = 8
"""Framing bytes allowed per byte of the body; a chunk of one byte has five."""


class ProtocolError(Exception):
    """The answer is not valid HTTP/1.1, or is incomplete."""


class ResponseReader:
    """Reads one answer. Interim answers (1xx) before it are skipped.

    Attributes:
        status: the status of the answer; 0 until it is received.
        headers: the header names and values, once there is a status.
        complete: whether the whole answer has been received.
        keeps: whether the connection can be reused after it.
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
        """Returns the pieces of the body received since the last call."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def feed(self, data: bytes) -> None:
        """Parses the next bytes.

        Raises:
            ProtocolError: they are not valid HTTP/1.1, or the framing exceeds its limit.
        """
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise ProtocolError("the server switched to another protocol without a request to") from None
        except httptools.HttpParserError as error:
            if not self.complete:  # garbage after the answer only prevents the connection from being reused
                raise ProtocolError(f"{data[:80]!r} is not an HTTP/1.1 answer: {error}") from None
            self.keeps = False
        if self._fed - self._in_body > MAX_HEAD_BYTES + _MAX_FRAMING * self._in_body and not self.complete:
            raise ProtocolError("the head of the answer, or the framing of its body, is too large")

    def end(self) -> None:
        """Handles the end of the connection.

        Raises:
            ProtocolError: the answer is incomplete.
        """
        framing = {name.lower() for name, _ in self.headers}
        if not self.status or framing & {b"content-length", b"transfer-encoding"}:
            raise ProtocolError("the server closed the connection before the end of its answer")
        self.complete = True

    # Callbacks of the parser.

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
            raise ValueError("unsupported HTTP version")
        status = self._parser.get_status_code()
        if status < 100:
            raise ValueError("invalid status")
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
