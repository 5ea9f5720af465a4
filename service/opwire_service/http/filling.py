"""Receives a large body straight into the memory where it is used, past the parser and its copies."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.flow_control import FlowControl

FILL = "opwire.fill"
"""Member of the ASGI scope: receives the body into memory of its size; see ``ProblemProtocol.fill``."""


class Filling(asyncio.BufferedProtocol):
    """Takes the place of the protocol of a connection until a body is in.

    Args:
        owner: the protocol that it stands in for.
        flow: of the connection.
        memory: for the rest of the body.

    Attributes:
        done: when the memory is full; fails with ClientDisconnect if the client goes away before.
    """

    def __init__(self, owner: asyncio.Protocol, flow: FlowControl, memory: memoryview) -> None:
        self._owner = owner
        self._flow = flow
        self._left = memory
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_full(self) -> bool:
        """Whether nothing more belongs into the memory."""
        return not self._left

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._left

    def buffer_updated(self, nbytes: int) -> None:
        self._left = self._left[nbytes:]
        if self.is_full:
            self._flow.pause_reading()  # what follows is for the owner
            if not self.done.done():
                self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ClientDisconnect())
        self._owner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._owner.pause_writing()

    def resume_writing(self) -> None:
        self._owner.resume_writing()
