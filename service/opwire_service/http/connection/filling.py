"""A buffer of the application that a body is received into."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect


class Filling:
    """Fills a buffer in windows: only what belongs to the current one is read.

    Args:
        memory: the buffer.
        arrived: number of its bytes that have arrived already.

    Attributes:
        arrived: number of bytes that have arrived.
    """

    def __init__(self, memory: memoryview, arrived: int) -> None:
        self.arrived = arrived
        self._memory = memory
        self._end = arrived
        self._window: asyncio.Future[None] | None = None

    @property
    def missing(self) -> int:
        """Number of bytes that have not arrived."""
        return len(self._memory) - self.arrived

    @property
    def has_window(self) -> bool:
        """Whether there is a window; without one, the server waits for memory, and not for the client."""
        return self._window is not None

    def room(self) -> memoryview:
        """Returns what is missing of the window."""
        return self._memory[self.arrived : self._end]

    def open(self, size: int) -> asyncio.Future[None]:
        """Opens a window of at most ``size`` bytes; it is closed once the returned future is done."""
        self._end = min(self.arrived + size, len(self._memory))
        self._window = asyncio.get_running_loop().create_future()
        return self._window

    def close(self) -> None:
        """Closes the window."""
        self._window = None

    def took(self, size: int) -> bool:
        """Counts bytes that have arrived, and returns whether the window is full."""
        self.arrived += size
        is_full = self.arrived == self._end
        if is_full and self._window is not None and not self._window.done():
            self._window.set_result(None)
        return is_full

    def disconnect(self) -> None:
        """Ends the wait for a client that is gone."""
        if self._window is not None and not self._window.done():
            self._window.set_exception(ClientDisconnect())
