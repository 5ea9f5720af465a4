"""Creates connections."""

from __future__ import annotations

from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from .connection import Connection
from .lingering import Lingering

PIECE_BYTES = 16 * 1024
"""Read size in bytes for heads and for bodies without a buffer of their own."""


class Acceptor:
    """Creates the connections of one event loop and holds the state they share."""

    def __init__(self) -> None:
        self._lingering = Lingering()
        # Connections may share it, since its content is copied before another connection reads.
        self._piece = memoryview(bytearray(PIECE_BYTES))

    def __call__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], **_: Any) -> Connection:
        """Creates a connection.

        Args:
            config, server_state, app_state: what uvicorn passes to its protocols.
        """
        return Connection(self._lingering, self._piece, config, server_state, app_state)
