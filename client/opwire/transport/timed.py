"""Sockets whose calls take only so long."""

from __future__ import annotations

import errno
import socket
import ssl
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable

Left = Callable[[], float | None]
"""Seconds that are left, None for no limit; raises where there are none."""


class TimedSocket(ABC):
    """Sends and receives on a socket that is connected."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    @abstractmethod
    def send(self, data: bytes, left: Left) -> None:
        """Sends all the data.

        Raises:
            TimeoutError: it was not taken in time.
        """

    @abstractmethod
    def receive(self, most: int, left: Left) -> bytes:
        """The next bytes; none once the other side has closed.

        Raises:
            TimeoutError: none came in time.
        """


class TimedByPython(TimedSocket):
    """The standard library waits with ``poll`` before each call."""

    def send(self, data: bytes, left: Left) -> None:
        self._socket.settimeout(left())
        self._socket.sendall(data)

    def receive(self, most: int, left: Left) -> bytes:
        self._socket.settimeout(left())
        return self._socket.recv(most)


class TimedByKernel(TimedSocket):
    """The system itself ends a call that takes too long.

    So there is one system call in place of two, and Python gives up the GIL half as often: with many threads each time
    is another change of threads.
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
    """The best for a socket: TLS has the standard library wait, and only of Linux it is known how to say the time."""
    if sys.platform == "linux" and not isinstance(connected, ssl.SSLSocket):
        return TimedByKernel(connected)
    return TimedByPython(connected)
