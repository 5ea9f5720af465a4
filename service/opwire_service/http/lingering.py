"""Connections that are refused while their client still sends: closed at once, they would take the answer back."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Iterable

_EVERY = 0.1
"""Seconds between two looks at them."""

_LONGEST = 2.0
"""Seconds that a client has to read its answer."""

_MOST = 128
"""Such connections at a time. The system holds what each client has sent, and has little memory for that."""

_CAN_POLL = hasattr(select, "poll")


class Lingering:
    """Connections with a last answer on its way.

    Nothing is read of them, so that only a look tells whether the client has closed its side.
    """

    def __init__(self) -> None:
        self._since: dict[asyncio.Transport, float] = {}

    def add(self, transport: asyncio.Transport) -> None:
        """A connection is closed once its client has closed it, or has had its time."""
        loop = asyncio.get_running_loop()
        if not self._since:
            loop.call_later(_EVERY, self._look)
        elif len(self._since) == _MOST:
            eldest = next(iter(self._since))
            del self._since[eldest]
            eldest.close()
        self._since[transport] = loop.time()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        closed = _closed(self._since)
        for transport, since in list(self._since.items()):
            if now - since >= _LONGEST or transport in closed:
                del self._since[transport]
                transport.close()
        if self._since:
            loop.call_later(_EVERY, self._look)


def has_unread(transport: asyncio.BaseTransport) -> bool:
    """Whether bytes have arrived that were not read yet; not where no system call tells."""
    if transport.is_closing() or not _CAN_POLL:
        return False
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _closed(transports: Iterable[asyncio.Transport]) -> set[asyncio.Transport]:
    """The transports whose other side is closed; all of them where no system call can tell."""
    is_open = [each for each in transports if not each.is_closing()]
    if not _CAN_POLL:
        return set(transports)
    poll = select.poll()
    found = {each.get_extra_info("socket").fileno(): each for each in is_open}
    for number in found:
        poll.register(number, 0)
    return {found[number] for number, _ in poll.poll(0)} | (set(transports) - set(is_open))
