"""The connections of the asynchronous client: those of each event loop, and of each a transport of httpx.

A pool of httpx looks through all its connections, and all requests that wait, for every request: a few hundred at once
would take it many seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx

from ..errors import TransportTimeout
from .attempt import Attempt
from .over_httpx import OverAsyncHttpx
from .pool import MOST_CONNECTIONS

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

Open = Callable[[], OverAsyncHttpx]
"""Opens a transport with room for one connection."""


class OverLoops:
    """Sends attempts over connections of the event loop that is running, since no other can use them.

    Args:
        open_transport: of httpx, for one connection.
        proxy: over which all requests go.
    """

    def __init__(self, open_transport: Callable[[], httpx.AsyncBaseTransport], proxy: httpx.Proxy | None) -> None:
        def open_one() -> OverAsyncHttpx:
            return OverAsyncHttpx(open_transport(), proxy)

        self._open = open_one
        self._first: OverAsyncHttpx | None = open_one()  # so that what is wrong with it is said at once
        self._loops: dict[AbstractEventLoop, _Connections] = {}

    async def send(self, attempt: Attempt[Any]) -> None:
        """As ``ConnectionPool.send``."""
        await self._connections(_running_loop()).send(attempt)

    def _connections(self, loop: AbstractEventLoop) -> _Connections:
        found = self._loops.get(loop)
        if found is None:
            for other in [known for known in self._loops if known.is_closed()]:
                del self._loops[other]  # nothing can be awaited there; the sockets are closed with their transports
            found = self._loops[loop] = _Connections(self._open, self._first)
            self._first = None
        return found

    async def aclose(self) -> None:
        """Closes the connections of this loop; those of others go with their loops."""
        found = self._loops.pop(_running_loop(), None)
        self._loops.clear()
        if found is not None:
            await found.aclose()


class _Connections:
    """The connections of one event loop."""

    def __init__(self, open_one: Open, first: OverAsyncHttpx | None) -> None:
        import asyncio  # the other client has no use for it

        self._open = open_one
        self._idle = [] if first is None else [first]
        self._turns = asyncio.Semaphore(MOST_CONNECTIONS)
        self._timeout = asyncio.timeout
        self._is_closed = False

    async def send(self, attempt: Attempt[Any]) -> None:
        await self._take_turn(attempt)
        connection = self._idle.pop() if self._idle else self._open()
        try:
            await connection.send(attempt)
        finally:
            self._turns.release()
            if self._is_closed:
                await connection.aclose()
            else:
                self._idle.append(connection)

    async def _take_turn(self, attempt: Attempt[Any]) -> None:
        try:
            async with self._timeout(attempt.time.left()):
                await self._turns.acquire()
        except TimeoutError:
            why = f"{MOST_CONNECTIONS} requests were under way before"
            raise TransportTimeout(f"no answer in time ({attempt}): {why}") from None

    async def aclose(self) -> None:
        self._is_closed = True
        while self._idle:
            await self._idle.pop().aclose()


def _running_loop() -> AbstractEventLoop:
    import asyncio

    return asyncio.get_running_loop()
