"""How long a queue may stand: bursts for a while, a lasting excess never. Time is an argument."""

from __future__ import annotations

from dataclasses import dataclass, field

BURST = 0.25
"""Seconds for which a queue may stand, whatever the wait in it."""

WAIT = 0.005
"""Seconds of expected wait that are no reason to refuse anybody."""


class QueueFull(Exception):
    """No further work is taken; a new try is worthwhile after ``retry_after`` seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the queue is full; retry after {retry_after:.1f} s")
        self.retry_after = retry_after


@dataclass(slots=True)
class Patience:
    """A store of seconds: it is used up while a queue stands, and fills up again while it does not.

    So a burst finds it full and is taken whole. Under a lasting excess it stays empty: the gaps of an irregular stream
    are too short to fill it, and open no door to the next burst.

    Attributes:
        burst: seconds that it holds.
        wait: see WAIT.
    """

    burst: float = BURST
    wait: float = WAIT
    _left: float = field(init=False)
    _noted: float = 0.0
    _standing: bool = False

    def __post_init__(self) -> None:
        self._left = self.burst

    def note(self, now: float, *, standing: bool) -> None:
        """From now on the queue stands, or does not."""
        passed = now - self._noted
        self._left = min(max(self._left - passed if self._standing else self._left + passed, 0.0), self.burst)
        self._noted = now
        self._standing = standing

    @property
    def lets_stand(self) -> bool:
        """Whether there is some left: the wait does not matter yet."""
        return self._left > 0

    def admits(self, wait: float, most: float) -> bool:
        """Whether that wait is short for work of its kind, which may wait for so long at most."""
        return wait <= max(self.wait, most)
