"""The memory for calls in this process: calls that do not fit wait for others, and one that never fits is refused."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition

from opwire.errors import LimitExceededError, ProblemCode

from ..engine.timed import deadline_exceeded


class Room:
    """A number of bytes that running calls share.

    Args:
        size: the number of bytes, or None if it is not limited.
    """

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._held = 0
        self._freed = Condition()

    @contextmanager
    def hold(self, size: int, deadline: float | None) -> Generator[None]:
        """Holds memory for the outputs and the work of a plan, after waiting until there is room for it.

        Args:
            size: number of bytes.
            deadline: ``time.monotonic()`` to wait until.

        Raises:
            LimitExceededError: there can never be room for it.
            DeadlineExceededError: there was none before the deadline.
        """
        most = self._size
        if most is None:
            yield
            return
        if size > most:
            detail = f"{size} bytes for the outputs and for computing them; this machine has {most}"
            raise LimitExceededError(ProblemCode.TENSOR_TOO_LARGE, detail, limit=most, size=size)
        with self._freed:
            if self._held + size > most:
                self._wait(size, most, deadline)
            self._held += size
        try:
            yield
        finally:
            with self._freed:
                self._held -= size
                self._freed.notify_all()

    def _wait(self, size: int, most: int, deadline: float | None) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        if not self._freed.wait_for(lambda: self._held + size <= most, left):
            raise deadline_exceeded("queue")


def machine_bytes() -> int | None:
    """Returns the memory that this process may use, in bytes, or None if the system does not say."""
    known = [*_physical(), *_of_groups()]
    return min(known, default=None)


def _physical() -> Generator[int]:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


_GROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where Linux says how much memory a container may use, in its two versions of control groups."""


def _of_groups() -> Generator[int]:
    for path in _GROUP_LIMITS:
        try:
            text = path.read_text("ascii").strip()
        except (OSError, ValueError):
            continue
        if text.isdecimal():
            yield int(text)
