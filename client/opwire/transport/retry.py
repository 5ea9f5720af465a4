"""When a call is sent again, and how long the client waits before that: pure but for the clock that it is given."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from math import isnan
from numbers import Real
from reprlib import repr as short_repr
from typing import TypeGuard

from ..errors import (
    ConnectError,
    DeadlineExceededError,
    InvalidResponseError,
    OpwireError,
    OverloadedError,
    TransportTimeout,
)

FIRST_BACKOFF = 0.05
LONGEST_BACKOFF = 5.0
LONGEST_HINT = 3600.0
"""Seconds: a call without a timeout waits no longer than this before it asks a busy server again."""

SHORTEST_TRY = 0.02
"""Seconds: with less than this left there is no other try."""

_BUSY = (429, 503)
"""Statuses of servers and gateways that did not take a request."""

_FIRST_DELAY, _LONGEST_DELAY = 0.05, 1.0


def is_seconds(value: object) -> TypeGuard[float]:
    """Whether a value is a number, and so may be one of seconds."""
    return isinstance(value, Real) and not isnan(value)


def may_repeat(error: OpwireError) -> bool:
    """Whether the same request may succeed now that it has failed so.

    Operators change nothing, so one that was cut off may run again. What took all of its time once would again.
    """
    if isinstance(error, DeadlineExceededError):
        return error.stage == "queue"
    refused = isinstance(error, InvalidResponseError) and error.status in _BUSY
    return refused or isinstance(error, ConnectError | OverloadedError)


def says_when(error: OpwireError) -> bool:
    """Whether a busy server asks to be asked again: opwire always does, a gateway by ``Retry-After``."""
    if isinstance(error, OverloadedError):
        return True
    return isinstance(error, InvalidResponseError) and error.status in _BUSY and hint(error) is not None


def hint(error: OpwireError) -> float | None:
    """Seconds that the server asks to be given; None where it does not say, or nonsense."""
    seconds = error.members.get("retry_after")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return float(min(seconds, LONGEST_HINT)) if seconds >= 0 else None  # NaN is not


def pause(error: OpwireError, retries: int, draw: float, left: float | None) -> float | None:
    """Seconds until the next try.

    What the server asks for is given, and then a random time: as long again at most, so that those who were refused
    together do not come back together, but at most half of the time that is then left. Where it asks for nothing, the
    longest random time doubles with each try.

    Args:
        error: of the last try.
        retries: that there were.
        draw: a random number from 0 to 1.
        left: seconds until the call's time is over, None for no limit.

    Returns:
        None if there is no time for another try.
    """
    asked = hint(error)
    if asked is None:
        asked, spread = 0.0, min(FIRST_BACKOFF * 2.0 ** min(retries, 10), LONGEST_BACKOFF)
    else:
        spread = max(asked, FIRST_BACKOFF)
    if left is not None:
        if asked + SHORTEST_TRY >= left:
            return None
        spread = min(spread, (left - asked) / 2)
    return asked + draw * spread


class Tries:
    """The tries of one call, within the one time that it has.

    Args:
        most: times that the call is sent again for another reason than that a busy server asks for it.
        timeout: seconds for all tries, None for no limit.

    Attributes:
        retries: how often it was sent again, for whatever reason.
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
        self._failures = 0
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
        if not says_when(error):
            if self._failures >= self._most or not may_repeat(error):
                raise error
            self._failures += 1
        left = None if self._end is None else self._end - self._clock()
        delay = pause(error, self.retries, self._draw(), left)
        if delay is None:
            raise error
        self.retries += 1
        return delay


class Patience:
    """The waits of a client for a server that is not ready yet: short at first, then longer, until the time is over.

    Raises:
        ValueError: the seconds are no number.
    """

    def __init__(self, seconds: float, longest_try: float) -> None:
        if not is_seconds(seconds):
            raise ValueError(f"timeout is {short_repr(seconds)}; it is a number of seconds")
        self._seconds = seconds
        self._longest_try = longest_try
        self._end = time.monotonic() + seconds
        self._delay = _FIRST_DELAY

    @property
    def left(self) -> float:
        """Seconds that a try may take."""
        return min(max(self._end - time.monotonic(), 0.001), self._longest_try)

    def delay(self, reason: OpwireError) -> float:
        """Seconds until the next try.

        Raises:
            TransportTimeout: there is no time for another; it gives the reason why the last one failed.
        """
        delay, self._delay = self._delay, min(2 * self._delay, _LONGEST_DELAY)
        if time.monotonic() + delay >= self._end:
            raise TransportTimeout(f"not ready within {self._seconds:g} s: {reason.detail}") from reason
        return delay
