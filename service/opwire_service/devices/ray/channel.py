"""The socket between a server and its bridge, for messages and file descriptors of shared memory."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from threading import Lock
from typing import Generic, TypeVar

from .messages import CLASSES
from .unpickling import Unpickler

S = TypeVar("S")
R = TypeVar("R")


class Channel(Generic[S, R]):
    """One end of the socket. Any thread may send, one receives. Messages are pickled."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._connection = Connection(os.dup(end.fileno()))
        self._lock = Lock()

    def send(self, message: S, descriptor: int | None = None) -> None:
        """Sends a message, and a file descriptor after it if given.

        Raises:
            OSError: the other end is closed.
        """
        with self._lock:
            self._connection.send(message)
            if descriptor is not None:
                send_handle(self._connection, descriptor, None)

    def receive(self) -> R:
        """Waits for the next message.

        Raises:
            EOFError, OSError: the other end is closed, or has sent something else.
        """
        written = self._connection.recv_bytes()
        try:
            message: R = Unpickler(written, CLASSES).load()
        except Exception as error:  # malformed bytes may raise anything
            raise OSError(f"not a message: {error}") from error
        return message

    def receive_descriptor(self) -> int:
        """Receives the descriptor that follows a message."""
        return recv_handle(self._connection)

    def close(self) -> None:
        """Closes the socket; receivers at both ends get EOFError."""
        with suppress(OSError):  # the other end has closed it
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()
