"""The memory of requests: bytes in flight are bounded, and who finds no room waits in line for it.

A body counts as it arrives: what a client announces and does not send takes no room from others. Bodies leave room for
what those that have arrived become, their tensors and their answers; and large requests leave some to small ones.
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
"""Bytes up to which a request is small, if there is memory for sixteen of them."""

BODIES_SHARE = 64
"""The part of the limit for large bodies behind the first of them, and for small ones to begin with: more at a time
would only fight for the processor and its caches."""

SLOW_SECONDS = 1.0
"""How long others wait for a small body to arrive, or for each ``SMALL`` bytes of a large one."""

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
    """Requests that wait for memory, first come, first served, and how much of it may be held when they get theirs.

    Attributes:
        served: those who had memory from this line, and are not waiting for more: they will give theirs back.
        bodies: those whose bodies had memory from this line, in the order of their coming.
        bytes: that it gave them.
    """

    ceiling: int
    waiting: list[_Waiter] = field(default_factory=list)
    served: set[Hold] = field(default_factory=set)
    bodies: list[Hold] = field(default_factory=list)
    bytes: int = 0


class Memory:
    """So many bytes for all requests together. A request alone may have more: its own limits bound it.

    Args:
        limit: bytes that may be held.
        waiting: requests that may wait.
        max_wait: seconds that each may wait before its body is read.

    Attributes:
        held: bytes that are held.
        taken: all that ever were.
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
        # Those that are nearest to their end come first.
        self._lines = (self._small_growth, self._small_bodies, self._large_growth, self._large_bodies)

    def open(self) -> Hold:
        """The hold of a new request: of nothing yet."""
        self._opened += 1
        return Hold(self, self._opened)

    @property
    def waiting(self) -> int:
        """Requests that wait for memory."""
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
        """Lets others begin beside bodies whose clients are slow to send them: these fight for no processor.

        Args:
            now: on the clock of ``time.monotonic``.
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
        """Takes a body out of those that share a part of the memory."""
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
        # The first in line gets what there is not, if all others wait too: they would wait for each other.
        alone = {hold}
        if line in self._of_bodies:
            return self._arrived <= alone and self._small_bodies.served <= alone and self._large_bodies.served <= alone
        return line.served <= alone

    def _has_room(self, line: _Line, hold: Hold, size: int) -> bool:
        if self.held + size > line.ceiling:
            return False
        if line not in self._of_bodies or line.bytes + size <= self.limit // BODIES_SHARE:
            return True
        # The rest of a small body is soon there.
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
            if waiter.granted.cancelled() and waiter in line.waiting:  # to look for it takes long in a long line
                line.waiting.remove(waiter)
                self._admit_waiting()

    def _admit_waiting(self) -> None:
        """Gives memory to those who wait, as far as it goes."""
        for line in self._lines:
            while line.waiting and self._admits(line, line.waiting[0].hold, line.waiting[0].size):
                waiter = line.waiting.pop(0)
                if not waiter.granted.done():
                    self._grant(line, waiter.hold, waiter.size)
                    waiter.granted.set_result(None)


def _nothing_unread() -> bool:
    return False


class Hold:
    """The bytes that one request holds; a context that gives them back.

    Attributes:
        number: of the request, in the order of their coming.
        line: from which its body had memory, if it had to ask.
        body: bytes that it had from there.
        since: when it had the first of them.
        was_granted: whether it had some from a line.
        has_unread: tells whether bytes of its body are here and wait for the server, not for the client.
        bytes: that it holds.
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
        """Holds bytes of a body that are about to be read, as soon as there is room for them.

        Args:
            size: bytes of it.
            whole: bytes of all of it.
            deadline: on the clock of ``time.monotonic``.

        Raises:
            OverloadedError: too many requests wait already.
            DeadlineExceededError: there was no room in time.
        """
        await self._memory.take_body(self, size, whole, deadline)

    def take_arrived(self, size: int) -> bool:
        """Holds a small body that is here already, if nobody waits for memory to read one; whether it did."""
        return self._memory.take_arrived(self, size)

    def arrived(self) -> None:
        """The body is in."""
        self._memory.arrived(self)

    async def grow(self, size: int, deadline: float) -> None:
        """Holds what a request becomes besides its body; arguments and errors are those of ``take_body``."""
        await self._memory.grow(self, size, deadline)

    def grow_now(self, size: int) -> bool:
        """Like ``grow``, if there is room at once; returns whether there was."""
        return self._memory.grow_now(self, size)

    def give_back(self, size: int) -> None:
        """Holds so many bytes less."""
        self._memory.give_back(self, size)

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.give_back(self, self.bytes)
