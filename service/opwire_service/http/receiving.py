"""How the bytes of a connection are received: what they are, how many, and large bodies straight into their memory."""

from __future__ import annotations

import asyncio
from enum import Enum, auto

from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Receiving(Enum):
    """What a connection does with the bytes that it receives."""

    HEAD = auto()
    """They are a head, or will be."""
    BODY = auto()
    """They are a body; the application asks for it piece by piece."""
    MEMORY = auto()
    """They are a body, and go into the memory of the application."""
    NOTHING = auto()
    """They have no meaning any more: the connection is about to be closed."""


class Flow(FlowControl):
    """Reads nothing while there is a backlog."""

    has_backlog = False

    def resume_reading(self) -> None:
        if not self.has_backlog:
            super().resume_reading()


class Filling(asyncio.BufferedProtocol):
    """Takes the place of a connection until a body is in.

    Args:
        owner: the connection.
        memory: for the body.
        arrived: bytes of it that are there.

    Attributes:
        arrived: bytes that are there.
        since: when some of them came last.
    """

    def __init__(self, owner: HttpToolsProtocol, memory: memoryview, arrived: int) -> None:
        self._owner = owner
        self._memory = memory
        self._end = self.arrived = arrived
        self._done: asyncio.Future[None] | None = None
        self.since: float | None = None

    @property
    def is_full(self) -> bool:
        """Whether nothing more belongs into the memory."""
        return self.arrived == len(self._memory)

    async def receive(self, end: int) -> None:
        """Receives the body up to some place.

        Raises:
            ClientDisconnect: the client is gone.
        """
        self._end = min(end, len(self._memory))
        if self._owner.transport.is_closing():
            raise ClientDisconnect
        self.since = self._owner.loop.time()
        self._done = self._owner.loop.create_future()
        self._owner.flow.resume_reading()
        try:
            await self._done
        finally:
            self._done = self.since = None

    def let_go(self) -> None:
        """Holds the memory no more: the transport may hold what fills it until it reads again."""
        self._memory = memoryview(b"")

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._memory[self.arrived : self._end]

    def buffer_updated(self, nbytes: int) -> None:
        self.arrived += nbytes
        self.since = self._owner.loop.time()
        if self.arrived == self._end:
            self._owner.flow.pause_reading()  # what follows has no room yet, or is for the owner
            if self._done is not None and not self._done.done():
                self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(ClientDisconnect())
        self._owner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._owner.pause_writing()

    def resume_writing(self) -> None:
        self._owner.resume_writing()
