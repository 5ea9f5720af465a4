"""The memory of requests: bytes in flight are bounded, and who finds no room waits in line for it.

Three lines, each first come, first served. Small requests may use all of the memory. Large ones leave them a reserve;
and bodies that are yet to be read leave room for what those that have been read become: their tensors and answers.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType

from opwire.errors import DeadlineExceededError, OverloadedError, ProblemCode

SMALL = 256 * 1024
"""Bytes up to which a request is small."""

_RETRY_AFTER = 1.0


@dataclass(slots=True)
class _Line:
    """Those who wait for memory, and how much of it may be held when they get theirs."""

    ceiling: int
    waiting: deque[_Waiter] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class _Waiter:
    hold: Hold
    size: int
    granted: asyncio.Future[None]


class Memory:
    """So many bytes for all requests together. A request alone may have more: its own limits bound it.

    Args:
        limit: bytes that may be held.
        waiting: requests that may wait.

    Attributes:
        held: bytes that are held.
        taken: all that ever were.
    """

    def __init__(self, limit: int, waiting: int) -> None:
        self.limit = limit
        self.held = 0
        self.taken = 0
        self._most_waiting = waiting
        self._small = _Line(limit)
        self._growth = _Line(limit - limit // 8)
        self._bodies = _Line(limit - limit // 4)
        self._grown: set[Hold] = set()

    def open(self) -> Hold:
        """What one request will hold."""
        return Hold(self)

    @property
    def waiting(self) -> int:
        """Requests that wait for memory."""
        return len(self._small.waiting) + len(self._growth.waiting) + len(self._bodies.waiting)

    async def take_body(self, hold: Hold, size: int, deadline: float) -> None:
        """See ``Hold.take_body``."""
        line = self._small if size <= SMALL else self._bodies
        if not self._take_now(line, hold, size):
            await self._wait(line, hold, size, deadline)

    async def grow(self, hold: Hold, size: int, deadline: float) -> None:
        """See ``Hold.grow``."""
        if not self.grow_now(hold, size):
            await self._wait(self._growth_line(hold, size), hold, size, deadline)

    def grow_now(self, hold: Hold, size: int) -> bool:
        """See ``Hold.grow_now``."""
        return self._take_now(self._growth_line(hold, size), hold, size)

    def give_back(self, hold: Hold, size: int) -> None:
        """See ``Hold.give_back``."""
        self.held -= size
        hold.bytes -= size
        if not hold.bytes:
            self._grown.discard(hold)
        self._admit_waiting()

    def _growth_line(self, hold: Hold, size: int) -> _Line:
        return self._small if hold.bytes + size <= SMALL else self._growth

    def _admits(self, line: _Line, hold: Hold, size: int) -> bool:
        if self.held + size <= line.ceiling or self.held == hold.bytes:
            return True
        # Those that have read their bodies could otherwise wait for each other.
        return line is self._growth and self._grown <= {hold}

    def _grant(self, line: _Line, hold: Hold, size: int) -> None:
        self.held += size
        self.taken += size
        hold.bytes += size
        if line is self._growth:
            self._grown.add(hold)

    def _take_now(self, line: _Line, hold: Hold, size: int) -> bool:
        if line.waiting or not self._admits(line, hold, size):
            return False
        self._grant(line, hold, size)
        return True

    async def _wait(self, line: _Line, hold: Hold, size: int, deadline: float) -> None:
        if self.waiting >= self._most_waiting:
            detail = f"{size} bytes are needed, {self.held} of {self.limit} are held, and {self.waiting} requests wait"
            raise OverloadedError(
                ProblemCode.MEMORY_FULL, detail, limit=self.limit, size=size, retry_after=_RETRY_AFTER
            )
        waiter = _Waiter(hold, size, asyncio.get_running_loop().create_future())
        if hold in self._grown:  # it holds the most, and is nearest to its end
            self._grown.discard(hold)
            line.waiting.appendleft(waiter)
        else:
            line.waiting.append(waiter)
        self._admit_waiting()
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await waiter.granted
        except TimeoutError:
            detail = "the deadline passed while the request waited for memory"
            raise DeadlineExceededError(ProblemCode.DEADLINE_EXCEEDED, detail, stage="memory") from None
        finally:
            if waiter in line.waiting:
                line.waiting.remove(waiter)
                self._admit_waiting()

    def _admit_waiting(self) -> None:
        """Gives memory to those who wait, as far as it goes."""
        for line in (self._small, self._growth, self._bodies):
            while line.waiting and self._admits(line, line.waiting[0].hold, line.waiting[0].size):
                waiter = line.waiting.popleft()
                if not waiter.granted.done():
                    self._grant(line, waiter.hold, waiter.size)
                    waiter.granted.set_result(None)


class Hold:
    """The bytes that one request holds; a context that gives them back.

    Attributes:
        bytes: that it holds.
    """

    __slots__ = ("_memory", "bytes")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.bytes = 0

    async def take_body(self, size: int, deadline: float) -> None:
        """Holds the bytes of a body that is about to be read, as soon as there is room for it.

        Args:
            deadline: on the clock of ``time.monotonic``.

        Raises:
            OverloadedError: too many requests wait already.
            DeadlineExceededError: there was no room in time.
        """
        await self._memory.take_body(self, size, deadline)

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
