"""How answers are written: the head goes out with the beginning of the body, so that the client wakes once."""

from __future__ import annotations

import asyncio

JOINED_BYTES = 64 * 1024
"""What is larger is not copied to be joined to its head."""

_HEAD = b"HTTP/1.1 "
_CONTINUE = b"HTTP/1.1 100 "


class AnswerWriter:
    """The transport of a connection as uvicorn's answers use it. It keeps a head until something follows it.

    uvicorn writes the head and the body of an answer one after the other, each with a system call, and the client
    receives them so; with a small operator that is a quarter of all that the network costs.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def write(self, data: bytes) -> None:
        """Writes the next bytes of an answer; its head is the whole of one call."""
        if self._head:
            head, self._head = self._head, b""
            if len(data) <= JOINED_BYTES:
                data = head + data
            else:
                self._transport.write(head)
        elif data[: len(_HEAD)] == _HEAD and data[: len(_CONTINUE)] != _CONTINUE:
            self._head = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Writes a head that nothing follows: the answer is complete."""
        if self._head:
            self.write(b"")

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Closes the connection once all is written."""
        self.flush()
        self._transport.close()
