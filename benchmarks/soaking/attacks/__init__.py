"""Attacks that a client can mount, one family per module; each is bounded in count and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from . import batches, documents, encodings, giants, idlers, lookalikes, protocol
from .wire import Tally, Target

__all__ = ["ATTACKS", "Attack", "Tally", "Target"]


class Attack(NamedTuple):
    """An attack, and its maximum duration in the full and in the quick run, in seconds."""

    run: Callable[[Target], None]
    seconds: float
    quick: float

    @property
    def name(self) -> str:
        """Its family and function name."""
        return f"{self.run.__module__.rpartition('.')[2]}.{self.run.__name__}"


ATTACKS = (
    Attack(protocol.closing, 5, 1),
    Attack(protocol.pipelines, 5, 1),
    Attack(protocol.upgrades, 5, 1),
    Attack(protocol.malformed, 5, 1),
    Attack(protocol.paths, 4, 1),
    Attack(protocol.chunks, 4, 1),
    Attack(protocol.mutations, 6, 1),
    Attack(encodings.lies, 3, 1),
    Attack(lookalikes.lookalikes, 12, 3),
    Attack(idlers.unread_answers, 18, 2),
    Attack(idlers.unread_batches, 10, 1),
    Attack(idlers.unread_pipeline, 5, 1),
    Attack(idlers.slow_senders, 12, 1),
    Attack(idlers.announced, 8, 1),
    Attack(idlers.many_connections, 4, 1),
    Attack(encodings.bombs, 10, 2),
    Attack(documents.nested, 9, 2),
    Attack(documents.wide, 9, 2),
    Attack(documents.strings, 9, 2),
    Attack(batches.huge_outputs, 12, 2),
    Attack(batches.much_work, 8, 2),
    Attack(giants.pooling, 10, 2),
    Attack(giants.reductions, 10, 2),
    Attack(giants.wide_rows, 6, 2),
)
"""The shortest come first, so that they run whatever the others do to the server."""
