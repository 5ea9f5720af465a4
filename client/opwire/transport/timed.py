"""Sockets whose calls have a deadline."""

from __future__ import annotations

import errno
import socket
import ssl
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable

Left = Callable[[], float | None]
"""Returns the seconds left, None for no limit; raises if none are left."""


class TimedSocket(ABC):
    """Sends and receives on a connected socket, with a deadline."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    @abstractmethod
    def send(self, data: bytes, left: Left) -> None:
        """Sends all the data.

        Raises:
            TimeoutError: it could not be sent in time.
        """

    @abstractmethod
    def receive(self, most: int, left: Left) -> bytes:
        """Returns the next bytes; empty once the peer has closed the connection.

        Raises:
            TimeoutError: none were received in time.
        """


class TimedByPython(TimedSocket):
    """Uses the timeouts of the standard library, which calls ``poll`` before each call."""

    def send(self, data: bytes, left: Left) -> None:
        self._socket.settimeout(left())
        self._socket.sendall(data)

    def receive(self, most: int, left: Left) -> bytes:
        self._socket.settimeout(left())
        return self._socket.recv(most)


class TimedByKernel(TimedSocket):
    """Uses the timeouts of the kernel (``SO_SNDTIMEO`` and ``SO_RCVTIMEO``).

    Python then releases the GIL once per call instead of twice, which saves a context switch with many threads.
    """

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        connected.settimeout(None)

    def send(self, data: bytes, left: Left) -> None:
        unsent = memoryview(data)
        while unsent:
            self._limit(socket.SO_SNDTIMEO, left())
            try:
                unsent = unsent[self._socket.send(unsent) :]
            except BlockingIOError:
                raise _over() from None

    def receive(self, most: int, left: Left) -> bytes:
        self._limit(socket.SO_RCVTIMEO, left())
        try:
            return self._socket.recv(most)
        except BlockingIOError:
            raise _over() from None

    def _limit(self, option: int, seconds: float | None) -> None:
        microseconds = 0 if seconds is None else max(int(seconds * 1e6), 1)  # 0 is no limit
        self._socket.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", *divmod(microseconds, 1_000_000)))


def _over() -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, "timed out")


def timed(connected: socket.socket) -> TimedSocket:
    """Returns the best implementation for a socket: the kernel's timeouts on Linux without TLS, or else Python's."""
    if sys.platform == "linux" and not isinstance(connected, ssl.SSLSocket):
        return TimedByKernel(connected)
    return TimedByPython(connected)
