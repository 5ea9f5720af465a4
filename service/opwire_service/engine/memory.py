"""Admission control by memory: the bytes in flight are limited, and requests without room queue for it.

A body is charged as it arrives, so bytes that a client announces but does not send take no room from others. Bodies
leave room for the tensors and responses of the requests that have already arrived, and large requests leave some room
for small ones.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from types import TracebackType

from opwire.errors import DeadlineExceededError, OverloadedError, ProblemCode

SMALL = 16 * 2**20
"""Maximum size of a small request, in bytes; a sixteenth of the limit if that is less."""

BODIES_SHARE = 64
"""Divisor of the limit: the share that the bodies of one queue may hold while they arrive. The oldest body, and small
bodies that have begun, may exceed it. More bodies at once would only compete for the CPU and its caches."""

SLOW_SECONDS = 1.0
"""Time that others wait for a small body to arrive, or for each ``SMALL`` bytes of a large one."""

_RETRY_AFTER = 1.0


@dataclass(slots=True, eq=False)
class _Waiter:
    hold: Hold
    size: int
    granted: asyncio.Future[None]

    def __lt__(self, other: _Waiter) -> bool:
        return self.hold < other.hold


@dataclass(slots=True, eq=False)
class _Line:
    """A first-come, first-served queue for memory.

    Attributes:
        ceiling: bytes that may be held in total after a grant from this queue.
        waiting: the queued requests, oldest first.
        served: holds that got memory from this queue and are not waiting for more; they will release it.
        bodies: holds whose bodies got memory from this queue, oldest first.
        bytes: bytes granted to those bodies.
    """

    ceiling: int
    waiting: list[_Waiter] = field(default_factory=list)
    served: set[Hold] = field(default_factory=set)
    bodies: list[Hold] = field(default_factory=list)
    bytes: int = 0


class Memory:
    """The memory budget of all requests. A request on its own may exceed it; per-request limits apply to that one.

    Args:
        limit: maximum number of bytes held at once.
        waiting: maximum number of requests that wait.
        max_wait: maximum wait of a request before its body is read, in seconds.

    Attributes:
        held: bytes currently held.
        taken: total of all bytes ever granted.
    """

    def __init__(self, limit: int, waiting: int, max_wait: float = inf) -> None:
        self.limit = limit
        self.held = 0
        self.taken = 0
        self._most_waiting = waiting
        self._max_wait = max_wait
        self._small = min(SMALL, limit // 16)
        self._opened = 0
        eighth = limit // 8
        self._large_bodies, self._large_growth = _Line(limit - 3 * eighth), _Line(limit - 2 * eighth)
        self._small_bodies, self._small_growth = _Line(limit - eighth), _Line(limit)
        self._arrived: set[Hold] = set()
        self._of_bodies = (self._small_bodies, self._large_bodies)
        # Requests closest to completion come first.
        self._lines = (self._small_growth, self._small_bodies, self._large_growth, self._large_bodies)

    def open(self) -> Hold:
        """Opens an empty hold for a new request."""
        self._opened += 1
        return Hold(self, self._opened)

    @property
    def waiting(self) -> int:
        """Number of requests waiting for memory."""
        return sum(len(line.waiting) for line in self._lines)

    async def take_body(self, hold: Hold, size: int, whole: int, deadline: float) -> None:
        """See ``Hold.take_body``."""
        line = self._small_bodies if whole <= self._small else self._large_bodies
        if self._take_now(line, hold, size):
            return
        latest = deadline if hold.bytes else min(deadline, time.monotonic() + self._max_wait)
        try:
            await self._wait(line, hold, size, latest)
        except DeadlineExceededError:
            if latest < deadline:
                raise self._full(size) from None
            raise

    def _full(self, size: int) -> OverloadedError:
        detail = f"{size} bytes are needed, {self.held} of {self.limit} are held, and {self.waiting} requests wait"
        return OverloadedError(ProblemCode.MEMORY_FULL, detail, limit=self.limit, size=size, retry_after=_RETRY_AFTER)

    def take_arrived(self, hold: Hold, size: int) -> bool:
        """See ``Hold.take_arrived``."""
        line = self._small_bodies
        if line.waiting or size > self._small or self.held + size > line.ceiling:
            return False
        self.held += size
        self.taken += size
        hold.bytes += size
        self._arrived.add(hold)
        return True

    def pass_slow(self, now: float) -> None:
        """Lets other bodies start beside those whose clients send slowly, since these do not compete for the CPU.

        Args:
            now: current ``time.monotonic()``.
        """
        for line in self._of_bodies:
            for hold in [each for each in line.bodies if each not in self._arrived]:
                if now - hold.since > SLOW_SECONDS * max(1.0, hold.body / self._small) and not hold.has_unread():
                    self._uncount(hold)
        self._admit_waiting()

    def arrived(self, hold: Hold) -> None:
        """See ``Hold.arrived``."""
        self._arrived.add(hold)
        self._leave(hold)
        self._admit_waiting()

    async def grow(self, hold: Hold, size: int, deadline: float) -> None:
        """See ``Hold.grow``."""
        if not self.grow_now(hold, size):
            await self._wait(self._growth(hold, size), hold, size, deadline)

    def grow_now(self, hold: Hold, size: int) -> bool:
        """See ``Hold.grow_now``."""
        return self._take_now(self._growth(hold, size), hold, size)

    def give_back(self, hold: Hold, size: int) -> None:
        """See ``Hold.give_back``."""
        self.held -= size
        hold.bytes -= size
        if not hold.bytes:
            self._arrived.discard(hold)
            if hold.was_granted:
                self._leave(hold)
                self._uncount(hold)
        self._admit_waiting()

    def _uncount(self, hold: Hold) -> None:
        """Removes a body from the count of bodies being received."""
        if hold.line is not None:
            del hold.line.bodies[bisect_left(hold.line.bodies, hold)]
            hold.line.bytes -= hold.body
            hold.line, hold.body = None, 0

    def _growth(self, hold: Hold, size: int) -> _Line:
        return self._small_growth if hold.bytes + size <= self._small else self._large_growth

    def _leave(self, hold: Hold) -> None:
        for line in self._lines:
            line.served.discard(hold)

    def _admits(self, line: _Line, hold: Hold, size: int) -> bool:
        if self._has_room(line, hold, size) or self.held == hold.bytes:
            return True
        # If every other request waits too, the first in line exceeds the limit: otherwise all would deadlock.
        alone = {hold}
        if line in self._of_bodies:
            return self._arrived <= alone and self._small_bodies.served <= alone and self._large_bodies.served <= alone
        return line.served <= alone

    def _has_room(self, line: _Line, hold: Hold, size: int) -> bool:
        if self.held + size > line.ceiling:
            return False
        if line not in self._of_bodies or line.bytes + size <= self.limit // BODIES_SHARE:
            return True
        # The rest of a small body arrives soon.
        is_begun = hold.line is self._small_bodies
        return is_begun or not line.bodies or hold.number <= line.bodies[0].number

    def _grant(self, line: _Line, hold: Hold, size: int) -> None:
        self.held += size
        self.taken += size
        hold.bytes += size
        hold.was_granted = True
        line.served.add(hold)
        if line in self._of_bodies:
            if hold.line is None:
                hold.line, hold.since = line, time.monotonic()
                insort(line.bodies, hold)
            hold.body += size
            line.bytes += size

    def _take_now(self, line: _Line, hold: Hold, size: int) -> bool:
        if line.waiting or not self._admits(line, hold, size):
            return False
        self._grant(line, hold, size)
        return True

    async def _wait(self, line: _Line, hold: Hold, size: int, deadline: float) -> None:
        if self.waiting >= self._most_waiting and not hold.bytes:
            raise self._full(size)
        waiter = _Waiter(hold, size, asyncio.get_running_loop().create_future())
        self._leave(hold)
        insort(line.waiting, waiter)
        self._admit_waiting()
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await waiter.granted
        except TimeoutError:
            detail = "the deadline passed while the request waited for memory"
            raise DeadlineExceededError(ProblemCode.DEADLINE_EXCEEDED, detail, stage="memory") from None
        finally:
            if waiter.granted.cancelled() and waiter in line.waiting:  # the search is slow in a long queue
                line.waiting.remove(waiter)
                self._admit_waiting()

    def _admit_waiting(self) -> None:
        """Grants memory to waiting requests while there is room."""
        for line in self._lines:
            while line.waiting and self._admits(line, line.waiting[0].hold, line.waiting[0].size):
                waiter = line.waiting.pop(0)
                if not waiter.granted.done():
                    self._grant(line, waiter.hold, waiter.size)
                    waiter.granted.set_result(None)


def _nothing_unread() -> bool:
    return False


class Hold:
    """The bytes that one request holds; a context manager that releases them.

    Attributes:
        number: sequence number of the request.
        line: queue that granted memory for the body, if any.
        body: bytes that queue granted for the body.
        since: ``time.monotonic()`` of the first such grant.
        was_granted: whether any queue granted memory to this hold.
        has_unread: returns whether bytes of the body wait for the server to read them, rather than for the client.
        bytes: bytes held.
    """

    __slots__ = ("_memory", "body", "bytes", "has_unread", "line", "number", "since", "was_granted")

    def __init__(self, memory: Memory, number: int) -> None:
        self._memory = memory
        self.number = number
        self.line: _Line | None = None
        self.body = 0
        self.since = 0.0
        self.was_granted = False
        self.has_unread: Callable[[], bool] = _nothing_unread
        self.bytes = 0

    def __lt__(self, other: Hold) -> bool:
        return self.number < other.number

    async def take_body(self, size: int, whole: int, deadline: float) -> None:
        """Waits for room and takes it for a part of a body that is about to be read.

        Args:
            size: size of that part, in bytes.
            whole: size of the whole body, in bytes.
            deadline: latest ``time.monotonic()`` to wait until.

        Raises:
            OverloadedError: too many requests are waiting already, or this one waited too long for its first bytes.
            DeadlineExceededError: no room became available before the deadline.
        """
        await self._memory.take_body(self, size, whole, deadline)

    def take_arrived(self, size: int) -> bool:
        """Takes memory for a small body that has already arrived, unless others wait to read theirs.

        Returns:
            Whether the memory was taken.
        """
        return self._memory.take_arrived(self, size)

    def arrived(self) -> None:
        """Marks the body as completely received."""
        self._memory.arrived(self)

    async def grow(self, size: int, deadline: float) -> None:
        """Takes memory for what a request needs besides its body; arguments and errors as for ``take_body``."""
        await self._memory.grow(self, size, deadline)

    def grow_now(self, size: int) -> bool:
        """Does what ``grow`` does if there is room right now, and returns whether there was."""
        return self._memory.grow_now(self, size)

    def give_back(self, size: int) -> None:
        """Releases ``size`` bytes."""
        self._memory.give_back(self, size)

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.give_back(self, self.bytes)
