"""A socket between a server and its bridge: messages, and descriptors of shared memory."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from threading import Lock
from typing import Generic, TypeVar

S = TypeVar("S")
R = TypeVar("R")


class Channel(Generic[S, R]):
    """One end: any thread may send, one receives. Both ends are the same program, so messages are pickled."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._connection = Connection(os.dup(end.fileno()))
        self._lock = Lock()

    def send(self, message: S, descriptor: int | None = None) -> None:
        """
        Raises:
            OSError: the other end is closed.
        """
        with self._lock:
            self._connection.send(message)
            if descriptor is not None:
                send_handle(self._connection, descriptor, None)

    def receive(self) -> R:
        """The next message.

        Raises:
            EOFError, OSError: the other end is closed.
        """
        message: R = self._connection.recv()
        return message

    def receive_descriptor(self) -> int:
        """The descriptor that follows a message."""
        return recv_handle(self._connection)

    def close(self) -> None:
        """Ends the conversation: who receives, at either end, gets EOFError."""
        with suppress(OSError):  # the other end has done so
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()
