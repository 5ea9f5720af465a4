"""How the bytes of a connection are received: what they are, how many, and large bodies straight into their memory."""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import Protocol, cast

from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.flow_control import FlowControl

PIECE_BYTES = 16 * 1024
"""Bytes that are read at a time, of a head or of a body without memory of its own."""


class Receiving(Enum):
    """What a connection does with the bytes it receives."""

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


class IntakeOwner(Protocol):
    """What an intake needs of its connection."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop

    @property
    def flow(self) -> FlowControl:
        """The flow control of the transport."""
        ...

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See ``asyncio.Protocol``; the others too."""

    def data_received(self, data: bytes) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class Intake(asyncio.BufferedProtocol):
    """Receives the bytes of a connection: little by little, or those of a body straight into its memory.

    What nobody has asked for stays with the system: of a large body that may never be wanted, next to nothing is read.

    Args:
        owner: the connection.
        piece: what is read into while no body is received; others on the same event loop may have it too, since it is
            copied before they are read.

    Attributes:
        arrived: bytes of the body that are there, while one is received.
        since: when some of them came last; None while none are wanted.
    """

    def __init__(self, owner: IntakeOwner, piece: memoryview) -> None:
        self._owner = owner
        self._piece = piece
        self._memory: memoryview | None = None
        self._end = self.arrived = 0
        self._done: asyncio.Future[None] | None = None
        self.since: float | None = None

    @property
    def is_full(self) -> bool:
        """Whether nothing more belongs into the memory."""
        return self._memory is not None and self.arrived == len(self._memory)

    def begin(self, memory: memoryview, arrived: int) -> None:
        """Receives into this memory from now on, after the bytes that are there."""
        self._memory = memory
        self._end = self.arrived = arrived

    def end(self) -> None:
        """Hands what arrives to the connection again."""
        self._memory = None

    async def receive(self, end: int) -> None:
        """Receives the body up to some place.

        Raises:
            ClientDisconnect: the client is gone.
        """
        assert self._memory is not None
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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._owner.connection_made(cast(asyncio.Transport, transport))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._piece if self._memory is None else self._memory[self.arrived : self._end]

    def buffer_updated(self, nbytes: int) -> None:
        if self._memory is None:
            self._owner.data_received(self._piece[:nbytes].tobytes())
            return
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
