"""When a call is sent again, and how long the client waits before that: pure but for the clock that it is given."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from .errors import ConnectError, DeadlineExceededError, InvalidResponseError, OpwireError, OverloadedError

FIRST_BACKOFF = 0.05
LONGEST_BACKOFF = 5.0
LONGEST_HINT = 30.0
"""Seconds: however much longer a server says that it is busy, the client asks it again after that time."""

_BUSY = (429, 503)
"""Statuses of servers and gateways that did not take a request."""


def may_repeat(error: OpwireError) -> bool:
    """Whether the same request may succeed now that it has failed so.

    Operators change nothing, so one that was cut off may run again. What took all of its time once would again.
    """
    if isinstance(error, DeadlineExceededError):
        return error.stage == "queue"
    refused = isinstance(error, InvalidResponseError) and error.status in _BUSY
    return refused or isinstance(error, ConnectError | OverloadedError)


def pause(error: OpwireError, retries: int, draw: float) -> float:
    """Seconds until the next try.

    Args:
        error: that the last try came to; where the server says when it has time, that is waited for too.
        retries: that there were.
        draw: a random number from 0 to 1, so that many clients do not come back together.
    """
    return _hint(error) + draw * min(FIRST_BACKOFF * 2.0 ** min(retries, 10), LONGEST_BACKOFF)


def _hint(error: OpwireError) -> float:
    try:
        seconds = float(error.members["retry_after"])
    except (LookupError, TypeError, ValueError):
        return 0.0
    return min(seconds, LONGEST_HINT) if seconds > 0 else 0.0


class Tries:
    """The tries of one call, within the one time that it has.

    Attributes:
        retries: how often it was sent again.
    """

    def __init__(
        self,
        most: int,
        timeout: float | None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.retries = 0
        self._most = most
        self._clock = clock
        self._draw = draw
        self._timeout = timeout
        self._end = None if timeout is None else clock() + timeout

    @property
    def timeout(self) -> float | None:
        """Seconds for the next try."""
        if self._end is None or not self.retries:
            return self._timeout
        return max(self._end - self._clock(), 0.001)

    def again(self, error: OpwireError) -> float:
        """Seconds to wait before another try after this error.

        Raises:
            OpwireError: the error itself, where there is no other try.
        """
        error.retries = self.retries
        if self.retries >= self._most or not may_repeat(error):
            raise error
        delay = pause(error, self.retries, self._draw())
        if self._end is not None and self._clock() + delay >= self._end:
            raise error
        self.retries += 1
        return delay
