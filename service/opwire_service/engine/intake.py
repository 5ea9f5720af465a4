"""Which large bodies are read: those that can be received, parsed and decoded soon. Pure; time is an argument.

All that are read at the same time share the processor, so each is delayed by the others for as long as it takes itself.
A body is refused by the head of its request, before the rest is read; what is then read to be dropped costs little.

Nothing says how long a client takes to send a body, and to wait for it costs nothing. So a body that is still not there
when it has had the time for it counts no more, and tells nothing of the server. That time is longer where the event
loop is late: a body is received piece by piece, and each waits for its turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .patience import Patience, QueueFull

LARGE = 256 * 1024
"""Bytes above which a body counts."""

TOGETHER = 5
"""Bodies of a size that may be under way ahead of another one for long."""

_LEAST_RATE, _FIRST_RATE = 100e6, 200e6
"""Bytes in a second: what any server does, and what is assumed as long as nothing is measured."""

_LATE = 0.02
"""Seconds by which the event loop is late where it has more to do than it can: there even to refuse takes its time."""

_COUNTS_FOR = 0.1
_PIECE = 256 * 1024
_SMOOTHING = 0.1
_SHORTEST_RETRY = 0.1


@dataclass(slots=True, eq=False)
class Body:
    """A body under way: its size in bytes, when it began, and how many were under way then."""

    size: int
    began: float
    among: int


@dataclass(slots=True)
class Intake:
    """The large bodies that are received, parsed and decoded.

    Attributes:
        patience: how long more may be under way than should.
        lag: seconds by which the event loop was late of late.
    """

    patience: Patience
    lag: float = 0.0
    _under_way: set[Body] = field(default_factory=set)
    _rate: float = _FIRST_RATE

    def __len__(self) -> int:
        return len(self._under_way)

    def enter(self, size: int, now: float) -> Body:
        """The head of a request has come, and such a body will.

        Raises:
            QueueFull: it cannot be taken in soon.
        """
        if not self.admits(size, now):
            raise QueueFull(self.retry_after)
        body = Body(size, now, len(self._under_way) + 1)
        self._under_way.add(body)
        self.patience.note(now, standing=self._stands)
        return body

    def admits(self, size: int, now: float, coming: int = 0) -> bool:
        """Whether such a body can be taken in soon.

        Args:
            coming: others like it that were admitted and will enter.
        """
        self._forget(now)
        self.patience.note(now, standing=self._stands)
        # A few are no queue: if the event loop is late with those, the machine is busy with something else.
        if len(self._under_way) + coming < TOGETHER or self.patience.lets_stand:
            return True
        ahead = sum(min(body.size, size) for body in self._under_way) + coming * size
        return self.lag <= max(_LATE, self.patience.wait) and self.patience.admits(
            ahead / self._rate, TOGETHER * size / self._rate
        )

    @property
    def retry_after(self) -> float:
        """The seconds in which about half of what is under way is done."""
        return max(sum(body.size for body in self._under_way) / self._rate / 2, _SHORTEST_RETRY)

    def leave(self, body: Body, now: float, *, whole: bool) -> None:
        """A body is in, if ``whole``, or given up."""
        self._forget(now)
        counted = body in self._under_way
        # Those that shared the time: as many as there were on the average of its beginning and its end.
        among = (body.among + len(self._under_way)) / 2
        self._under_way.discard(body)
        self.patience.note(now, standing=self._stands)
        if counted and whole:
            rate = body.size * among / max(now - body.began, 1e-6)
            self._rate = max(self._rate + _SMOOTHING * (rate - self._rate), _LEAST_RATE)

    @property
    def _stands(self) -> bool:
        return len(self._under_way) > TOGETHER // 2 or self.lag > _LATE

    def _forget(self, now: float) -> None:
        """Bodies count for so long as they take with the others, and not while their clients take longer."""
        longest = max(_COUNTS_FOR, 2 * sum(body.size for body in self._under_way) / self._rate)
        turn = 2 * self.lag / _PIECE
        self._under_way = {body for body in self._under_way if now - body.began <= longest + turn * body.size}
