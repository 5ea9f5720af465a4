"""Receives the body of an answer; a large one goes into a single buffer, allocated as soon as its size is known."""

from __future__ import annotations

import numpy as np

from ..errors import ConnectError
from ..wire import HEAD_LENGTH, Buffer
from .request import Headers

_MAX_BUFFER = 2**30
"""Maximum size of a buffer, in bytes, to allocate because of a Content-Length."""

_ALIGNMENT = 64
_HEAD_LENGTH = HEAD_LENGTH.lower()


class TooLarge(Exception):
    """The body is larger than the answer can be."""


class Receiver:
    """Collects the pieces of a body.

    Args:
        headers: the headers of the answer.
        most: the maximum size of the body, in bytes.

    Raises:
        TooLarge: the Content-Length exceeds it.
    """

    def __init__(self, headers: Headers, most: int) -> None:
        self._size = _number(headers.get("content-length"))
        self._most = most
        self._head = headers.get(_HEAD_LENGTH)
        self._pieces: list[bytes] = []
        self._buffer: Buffer | None = None
        self._view = memoryview(b"")
        self._filled = 0
        if self._size > most:
            raise TooLarge(f"its body has {self._size} bytes; at most {most} are expected")

    def take(self, piece: bytes) -> None:
        """Adds the next piece.

        Raises:
            ConnectError: the body exceeds its Content-Length.
            TooLarge: the body is larger than the answer can be.
        """
        end = self._filled + len(piece)
        if end > self._most:
            raise TooLarge(f"its body has more than the {self._most} bytes expected at most")
        if self._buffer is None:
            if self._pieces or len(piece) >= self._size or self._size > _MAX_BUFFER:
                self._pieces.append(piece)
                self._filled = end
                return
            self._allocate()
        if end > self._size:
            raise ConnectError(f"the answer exceeds its Content-Length of {self._size} bytes")
        self._view[self._filled : end] = piece
        self._filled = end

    def _allocate(self) -> None:
        if self._head is None:  # JSON, whose parser does not accept a memoryview
            self._buffer = bytearray(self._size)
            self._view = memoryview(self._buffer)
            return
        # The tail is aligned, so that its tensors can be used in place.
        room = np.empty(self._size + _ALIGNMENT, np.uint8)
        start = -(room.__array_interface__["data"][0] + _number(self._head)) % _ALIGNMENT
        self._view = room[start : start + self._size].data
        self._buffer = self._view.toreadonly()

    def body(self) -> Buffer:
        """Returns everything received."""
        if self._buffer is None:
            return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        return self._buffer[: self._filled] if self._filled < self._size else self._buffer


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else 0
