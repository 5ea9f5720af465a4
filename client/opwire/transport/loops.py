"""The connections of the asynchronous client: a pool per event loop, of httpx transports with one connection each.

httpx's own pool scans all its connections and all waiting requests for every request, which takes many seconds for a
few hundred concurrent ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx

from ..errors import TransportTimeout
from .attempt import Attempt
from .over_httpx import AsyncHttpxSender
from .pool import MAX_CONNECTIONS

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

Open = Callable[[], AsyncHttpxSender]
"""Creates a sender with one connection."""


class LoopSenders:
    """Sends attempts over connections of the running event loop, since no other loop can use them.

    Args:
        open_transport: creates an httpx transport for one connection.
        proxy: the proxy for all requests.
    """

    def __init__(self, open_transport: Callable[[], httpx.AsyncBaseTransport], proxy: httpx.Proxy | None) -> None:
        def open_one() -> AsyncHttpxSender:
            return AsyncHttpxSender(open_transport(), proxy)

        self._open = open_one
        self._first: AsyncHttpxSender | None = open_one()  # so that invalid arguments fail early
        self._loops: dict[AbstractEventLoop, _LoopPool] = {}

    async def send(self, attempt: Attempt[Any]) -> None:
        """See ``ConnectionPool.send``."""
        await self._connections(_running_loop()).send(attempt)

    def _connections(self, loop: AbstractEventLoop) -> _LoopPool:
        found = self._loops.get(loop)
        if found is None:
            for other in [known for known in self._loops if known.is_closed()]:
                del self._loops[other]  # a closed loop awaits nothing; its sockets close with their transports
            found = self._loops[loop] = _LoopPool(self._open, self._first)
            self._first = None
        return found

    async def aclose(self) -> None:
        """Closes the connections of the running loop; those of other loops close with them."""
        found = self._loops.pop(_running_loop(), None)
        self._loops.clear()
        if found is not None:
            await found.aclose()


class _LoopPool:
    """The connection pool of one event loop."""

    def __init__(self, open_one: Open, first: AsyncHttpxSender | None) -> None:
        import asyncio  # the blocking client does not need it

        self._open = open_one
        self._idle = [] if first is None else [first]
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._timeout = asyncio.timeout
        self._is_closed = False

    async def send(self, attempt: Attempt[Any]) -> None:
        await self._acquire_slot(attempt)
        connection = self._idle.pop() if self._idle else self._open()
        try:
            await connection.send(attempt)
        finally:
            self._slots.release()
            if self._is_closed:
                await connection.aclose()
            else:
                self._idle.append(connection)

    async def _acquire_slot(self, attempt: Attempt[Any]) -> None:
        try:
            async with self._timeout(attempt.time.left()):
                await self._slots.acquire()
        except TimeoutError:
            why = f"{MAX_CONNECTIONS} other requests were in progress"
            raise TransportTimeout(f"no answer in time ({attempt}): {why}") from None

    async def aclose(self) -> None:
        self._is_closed = True
        while self._idle:
            await self._idle.pop().aclose()


def _running_loop() -> AbstractEventLoop:
    import asyncio

    return asyncio.get_running_loop()
