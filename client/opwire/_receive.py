"""The body of an answer as it arrives: a large one goes into one buffer, made as soon as its size is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .errors import ConnectError
from .wire import HEAD_LENGTH, Buffer

_LARGEST_BUFFER = 2**30
"""Bytes up to which memory is taken on the word of a header."""

_ALIGNMENT = 64


class Receiver:
    """Takes the pieces of a body.

    Args:
        headers: of the answer, with names of any case.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.encoded = "content-encoding" in headers
        """Whether what arrives must be decoded first."""
        self._size = 0 if self.encoded else _number(headers.get("content-length"))
        self._head = headers.get(HEAD_LENGTH)
        self._pieces: list[bytes] = []
        self._buffer: Buffer | None = None
        self._view = memoryview(b"")
        self._filled = 0

    def take(self, piece: bytes) -> None:
        """Takes the next piece.

        Raises:
            ConnectError: there are more bytes than announced.
        """
        if self._buffer is None:
            if self._pieces or len(piece) >= self._size or self._size > _LARGEST_BUFFER:
                self._pieces.append(piece)
                return
            self._allocate()
        end = self._filled + len(piece)
        if end > self._size:
            raise ConnectError(f"the answer goes on behind the {self._size} bytes that it was to have")
        self._view[self._filled : end] = piece
        self._filled = end

    def _allocate(self) -> None:
        if self._head is None:  # JSON, whose parser takes no view
            self._buffer = bytearray(self._size)
            self._view = memoryview(self._buffer)
            return
        # The tail is aligned, so that its tensors can be used where they are.
        room = np.empty(self._size + _ALIGNMENT, np.uint8)
        start = -(room.__array_interface__["data"][0] + _number(self._head)) % _ALIGNMENT
        self._view = room[start : start + self._size].data
        self._buffer = self._view.toreadonly()

    def body(self) -> Buffer:
        """All that has arrived."""
        if self._buffer is None:
            return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        return self._buffer[: self._filled] if self._filled < self._size else self._buffer


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else 0
