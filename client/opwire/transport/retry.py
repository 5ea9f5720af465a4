"""Decides whether and when to retry a call. Pure except for its clock and random numbers, which can be injected."""

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
MAX_BACKOFF = 5.0
MAX_HINT = 3600.0
"""Maximum Retry-After to honor, in seconds, which matters for calls without a timeout."""

MIN_ATTEMPT = 0.02
"""Minimum time left for another attempt, in seconds."""

_BUSY = (429, 503)
"""Statuses with which a server or gateway rejects a request temporarily."""

_FIRST_DELAY, _MAX_DELAY = 0.05, 1.0


def is_seconds(value: object) -> TypeGuard[float]:
    """Returns whether a value is a number of seconds: a real number, and not NaN."""
    return isinstance(value, Real) and not isnan(value)


def is_retryable(error: OpwireError) -> bool:
    """Returns whether a retry may succeed after an error.

    Operators have no side effects, so an interrupted one can run again. One that ran out of time would do so again.
    """
    if isinstance(error, DeadlineExceededError):
        return error.stage == "queue"
    refused = isinstance(error, InvalidResponseError) and error.status in _BUSY
    return refused or isinstance(error, ConnectError | OverloadedError)


def asks_for_retry(error: OpwireError) -> bool:
    """Returns whether a busy server asks for a retry: opwire always does, a gateway with ``Retry-After``."""
    if isinstance(error, OverloadedError):
        return True
    return isinstance(error, InvalidResponseError) and error.status in _BUSY and hint(error) is not None


def hint(error: OpwireError) -> float | None:
    """Returns the seconds that the server asks to wait, or None if missing or invalid."""
    seconds = error.members.get("retry_after")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return float(min(seconds, MAX_HINT)) if seconds >= 0 else None  # false for NaN


def pause(error: OpwireError, retries: int, draw: float, left: float | None) -> float | None:
    """Returns the seconds until the next attempt, or None if there is no time for one.

    The delay is what the server asks for, plus jitter of up to as much again, so that clients rejected together do not
    return together, but at most half of the time then left. If the server does not ask for a delay, the maximum jitter
    doubles with each retry.

    Args:
        error: the error of the last attempt.
        retries: the number of retries so far.
        draw: a random number from 0 to 1.
        left: seconds until the deadline of the call, None for no limit.
    """
    asked = hint(error)
    if asked is None:
        asked, spread = 0.0, min(FIRST_BACKOFF * 2.0 ** min(retries, 10), MAX_BACKOFF)
    else:
        spread = max(asked, FIRST_BACKOFF)
    if left is not None:
        if asked + MIN_ATTEMPT >= left:
            return None
        spread = min(spread, (left - asked) / 2)
    return asked + draw * spread


class Tries:
    """The attempts of one call, within its deadline.

    Args:
        most: the maximum number of retries, not counting those that a busy server asks for.
        timeout: seconds for all attempts, None for no limit.
        clock: returns the time in seconds.
        draw: returns random numbers from 0 to 1.

    Attributes:
        retries: the number of retries so far, for any reason.
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
        """Seconds left for the next attempt, None for no limit."""
        if self._end is None or not self.retries:
            return self._timeout
        return max(self._end - self._clock(), 0.001)

    def again(self, error: OpwireError) -> float:
        """Returns the seconds to wait before a retry after an error.

        Raises:
            OpwireError: the error itself, if there is to be no retry.
        """
        error.retries = self.retries
        if not asks_for_retry(error):
            if self._failures >= self._most or not is_retryable(error):
                raise error
            self._failures += 1
        left = None if self._end is None else self._end - self._clock()
        delay = pause(error, self.retries, self._draw(), left)
        if delay is None:
            raise error
        self.retries += 1
        return delay


class Patience:
    """Exponential backoff while waiting for a server to become ready, up to a deadline.

    Raises:
        ValueError: the number of seconds is not a number.
    """

    def __init__(self, seconds: float, longest_try: float) -> None:
        if not is_seconds(seconds):
            raise ValueError(f"timeout is {short_repr(seconds)}; it must be a number of seconds")
        self._seconds = seconds
        self._longest_try = longest_try
        self._end = time.monotonic() + seconds
        self._delay = _FIRST_DELAY

    @property
    def left(self) -> float:
        """Seconds that an attempt may take."""
        return min(max(self._end - time.monotonic(), 0.001), self._longest_try)

    def delay(self, reason: OpwireError) -> float:
        """Returns the seconds until the next attempt.

        Raises:
            TransportTimeout: there is no time for another; it has the reason why the last one failed.
        """
        delay, self._delay = self._delay, min(2 * self._delay, _MAX_DELAY)
        if time.monotonic() + delay >= self._end:
            raise TransportTimeout(f"not ready within {self._seconds:g} s: {reason.detail}") from reason
        return delay
