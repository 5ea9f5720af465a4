"""Lingering close: a connection closed while the client is still sending would be reset and lose the response."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Iterable

_POLL_SECONDS = 0.1
"""Polling interval in seconds."""

_MAX_SECONDS = 2.0
"""Maximum time for a client to read its response, in seconds."""

_MAX_CONNECTIONS = 128
"""Maximum number of lingering connections; the kernel buffers what each client has sent, in limited memory."""

_CAN_POLL = hasattr(select, "poll")


class Lingering:
    """Connections whose final response is on its way.

    Nothing is read from them, so they are polled to find out whether the client has closed its side.
    """

    def __init__(self) -> None:
        self._since: dict[asyncio.Transport, float] = {}

    def add(self, transport: asyncio.Transport) -> None:
        """Adds a connection, to be closed once its client has closed its side or the time is up."""
        loop = asyncio.get_running_loop()
        if not self._since:
            loop.call_later(_POLL_SECONDS, self._poll)
        elif len(self._since) == _MAX_CONNECTIONS:
            eldest = next(iter(self._since))
            del self._since[eldest]
            eldest.close()
        self._since[transport] = loop.time()

    def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        closed = _closed(self._since)
        for transport, since in list(self._since.items()):
            if now - since >= _MAX_SECONDS or transport in closed:
                del self._since[transport]
                transport.close()
        if self._since:
            loop.call_later(_POLL_SECONDS, self._poll)


def has_unread(transport: asyncio.BaseTransport) -> bool:
    """Whether bytes have arrived that have not been read. Always False where the platform has no ``poll``."""
    if transport.is_closing() or not _CAN_POLL:
        return False
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _closed(transports: Iterable[asyncio.Transport]) -> set[asyncio.Transport]:
    """Returns the transports whose peer has closed; all of them where the platform has no ``poll``."""
    is_open = [each for each in transports if not each.is_closing()]
    if not _CAN_POLL:
        return set(transports)
    poll = select.poll()
    found = {each.get_extra_info("socket").fileno(): each for each in is_open}
    for number in found:
        poll.register(number, 0)
    return {found[number] for number, _ in poll.poll(0)} | (set(transports) - set(is_open))
