"""Receives a connection's bytes; large bodies go straight into their own buffer."""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import Protocol, cast

from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.flow_control import FlowControl

PIECE_BYTES = 16 * 1024
"""Read size in bytes for heads and for bodies without a buffer of their own."""


class Receiving(Enum):
    """What a connection expects to receive, and what it does with it."""

    HEAD = auto()
    """A request head."""
    BODY = auto()
    """A body that the application reads in chunks."""
    MEMORY = auto()
    """A body that is received into a buffer of the application."""
    NOTHING = auto()
    """Nothing: the connection is about to close, and whatever arrives is discarded."""


class Flow(FlowControl):
    """Flow control that does not resume reading while there is a backlog of unparsed bytes."""

    has_backlog = False

    def resume_reading(self) -> None:
        if not self.has_backlog:
            super().resume_reading()


class IntakeOwner(Protocol):
    """The part of a connection that an intake uses."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop

    @property
    def flow(self) -> FlowControl:
        """Flow control of the transport."""
        ...

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See ``asyncio.Protocol``, as for the methods below."""

    def data_received(self, data: bytes) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class Intake(asyncio.BufferedProtocol):
    """Receives a connection's bytes: in small pieces for the parser, or a body directly into its buffer.

    Bytes that have not been asked for stay in the kernel's socket buffer, so next to nothing is read of a large body
    that may yet be refused.

    Args:
        owner: the connection.
        piece: read buffer used while no body is being received. Connections of one event loop may share it, since its
            content is copied before another connection reads.

    Attributes:
        arrived: bytes of the current body received so far.
        since: when bytes last arrived, or receiving began; None while not receiving.
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
        """Whether the whole body has arrived."""
        return self._memory is not None and self.arrived == len(self._memory)

    def begin(self, memory: memoryview, arrived: int) -> None:
        """Starts receiving into a buffer, of which the first ``arrived`` bytes are already filled."""
        self._memory = memory
        self._end = self.arrived = arrived

    def end(self) -> None:
        """Stops receiving into the buffer; further bytes go to the connection again."""
        self._memory = None

    async def receive(self, end: int) -> None:
        """Receives the body up to offset ``end``.

        Raises:
            ClientDisconnect: the client disconnected.
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
            self._owner.flow.pause_reading()  # further bytes have no room yet, or belong to the owner
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
