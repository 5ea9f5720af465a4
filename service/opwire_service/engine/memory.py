"""What requests take before they are work: bytes in flight are bounded, and so are large bodies at the same time."""

from __future__ import annotations

import time
from types import TracebackType

from opwire.errors import OverloadedError, ProblemCode

from .intake import LARGE, Body, Intake
from .patience import Patience, QueueFull


class Budget:
    """So many bytes for all requests together. A request alone may have more: its own limits bound it.

    Attributes:
        limit: bytes that may be held.
        held: bytes that are.
        taken: all that ever were.
        intake: the large bodies that come in.
    """

    def __init__(self, limit: int, patience: Patience | None = None) -> None:
        self.limit = limit
        self.held = 0
        self.taken = 0
        self.intake = Intake(patience or Patience())

    def refusal(self, size: int, coming: int = 0) -> OverloadedError | None:
        """Why a large body would be refused now; None if it would not.

        Args:
            coming: others like it that were not and will enter.
        """
        if self.held and self.held + size > self.limit:
            return self.memory_full(size)
        if self.intake.admits(size, time.monotonic(), coming):
            return None
        return self.queue_full(self.intake.retry_after)

    def memory_full(self, size: int) -> OverloadedError:
        """What is said to a request that needs so many bytes more than are left."""
        detail = f"{size} bytes are needed, and {self.held} of {self.limit} are held"
        return OverloadedError(ProblemCode.MEMORY_FULL, detail, limit=self.limit, size=size, retry_after=1)

    def queue_full(self, retry_after: float) -> OverloadedError:
        """What is said to a request whose body would wait for too many others."""
        detail = f"{len(self.intake)} large bodies are being read already"
        return OverloadedError(ProblemCode.QUEUE_FULL, detail, retry_after=round(retry_after, 3))

    def open(self) -> Hold:
        """What one request will hold."""
        return Hold(self)


class Hold:
    """The bytes that one request holds; a context that gives them back."""

    __slots__ = ("_body", "_budget", "_bytes")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._bytes = 0
        self._body: Body | None = None

    def take(self, size: int) -> None:
        """Holds more.

        Raises:
            OverloadedError: others hold too much.
        """
        budget = self._budget
        others = budget.held - self._bytes
        if others and budget.held + size > budget.limit:
            raise budget.memory_full(size)
        budget.held += size
        budget.taken += size
        self._bytes += size

    def take_body(self, size: int) -> None:
        """Holds a body that is about to be read; a large one is under way until ``settle``.

        Raises:
            OverloadedError: others hold too much, or it would wait too long for others that are under way.
        """
        self.take(size)
        if size <= LARGE:
            return
        try:
            self._body = self._budget.intake.enter(size, time.monotonic())
        except QueueFull as full:
            raise self._budget.queue_full(full.retry_after) from None

    def settle(self, *, whole: bool = True) -> None:
        """The body is in: all that is in it was decoded, if ``whole``."""
        if self._body is not None:
            self._budget.intake.leave(self._body, time.monotonic(), whole=whole)
            self._body = None

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.settle(whole=False)
        self._budget.held -= self._bytes
        self._bytes = 0
