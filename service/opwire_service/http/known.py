"""Heads of requests that came before: what is known of one, and who answers the body behind it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from opwire.wire import Answer

from ..engine.pipeline import Stopwatch
from ..engine.service import Server
from ..telemetry.metrics import OK
from .context import REQUEST_ID

LARGEST = 4 * 1024
"""Bytes of a head up to which it is kept."""

MOST = 256
"""Heads that are kept: those seen last."""

REMEMBER = "opwire.remember"
"""Member of the ASGI scope: keeps what answers such requests, if the whole request came in one piece."""

_ONCE = frozenset({REQUEST_ID, b"traceparent"})
"""Headers that change from request to request."""

Fields = Sequence[tuple[bytes, bytes]]

access = logging.getLogger("opwire.access")


class Written(NamedTuple):
    """What a request came to.

    Attributes:
        answer: its body.
        headers: those that it has besides those of all answers.
        operator: that ran.
        device: that ran it.
    """

    answer: Answer
    headers: Fields
    operator: object
    device: str


class Again(Protocol):
    """Answers the body of a request whose head came before; None if it must go the long way.

    What it returns holds until the next call.
    """

    def __call__(self, body: bytes, request_id: str, watch: Stopwatch) -> Written | None: ...


class Known(NamedTuple):
    """What is known of a head.

    Attributes:
        again: answers.
        route: by which the request is counted.
        length: of the body.
    """

    again: Again
    route: str
    length: int


class KnownHeads:
    """The heads of requests that were answered by a server, as they came, byte for byte.

    All that a head says, a key among it, was judged when it came first, and nothing of that changes while a server
    lives but whether it takes work. The time to look a head up tells nothing of those that are kept: it goes by a hash
    under a secret of the process.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._kept: OrderedDict[bytes, Known] = OrderedDict()

    def find(self, head: bytes) -> Known | None:
        """What is known of a head, if such requests are answered at the moment."""
        known = self._kept.get(head)
        if known is None or self._server.draining or access.isEnabledFor(logging.DEBUG):
            return None
        self._kept.move_to_end(head)
        return known

    def keep(self, head: bytes, names: Sequence[bytes], known: Known) -> None:
        """Keeps a head with header fields of these names."""
        if len(head) <= LARGEST and _ONCE.isdisjoint(names):
            self._kept[head] = known
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)

    def ended(self, known: Known, microseconds: int) -> None:
        """A request with such a head was answered."""
        self._server.metrics.ended(known.route, OK, microseconds)
