"""Bytes in flight: what requests hold together is bounded, and given back when each is over."""

from __future__ import annotations

from types import TracebackType

from opwire.errors import OverloadedError, ProblemCode


class Budget:
    """So many bytes for all requests together. A request alone may have more: its own limits bound it.

    Attributes:
        limit: bytes that may be held.
        held: bytes that are.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def open(self) -> Hold:
        """What one request will hold."""
        return Hold(self)


class Hold:
    """The bytes that one request holds; a context that gives them back."""

    __slots__ = ("_budget", "_bytes")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._bytes = 0

    def take(self, size: int) -> None:
        """Holds more.

        Raises:
            OverloadedError: others hold too much.
        """
        budget = self._budget
        others = budget.held - self._bytes
        if others and budget.held + size > budget.limit:
            raise OverloadedError(
                ProblemCode.MEMORY_FULL,
                f"{size} bytes are needed, and {budget.held} of {budget.limit} are held",
                limit=budget.limit,
                size=size,
                retry_after=1,
            )
        budget.held += size
        self._bytes += size

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._budget.held -= self._bytes
        self._bytes = 0
