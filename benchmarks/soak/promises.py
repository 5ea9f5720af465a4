"""What a server must keep in every soak: its memory, its gauges and its log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

from .served import Served

_REST, _GROWTH = 6.0, 1.1
"""Seconds at rest before memory is measured, and how far that may grow."""

_QUICK_REST, _QUICK_GROWTH = 1.0, 3.0
"""The same for a quick run."""


class Memory:
    """The memory of a server at rest before and after the context, and at most within it, in bytes."""

    def __init__(self, server: Served, is_quick: bool) -> None:
        self._served = server
        self._rest, self._growth = (_QUICK_REST, _QUICK_GROWTH) if is_quick else (_REST, _GROWTH)
        self._before = self._peak = self._after = 0

    def __enter__(self) -> Self:
        self._before = self._served.resident_at_rest(self._rest)
        self._served.server.reset_peak()
        return self

    def __exit__(self, *_: object) -> None:
        self._peak = self._served.server.memory("VmHWM")
        self._after = self._served.resident_at_rest(self._rest)

    def __str__(self) -> str:
        each = ", ".join(f"{size / 2**20:.0f}" for size in (self._before, self._peak, self._after))
        return f"MiB before, at most and after: {each}"

    def broken(self, budget: float) -> Iterator[str]:
        """Yields the broken promises of a server that may use ``budget`` bytes more than at rest."""
        if self._after > self._growth * self._before:
            yield f"memory at rest grew by {self._after / self._before - 1:.0%}"
        if self._peak > self._before + budget:
            yield f"{(self._peak - self._before) / 2**20:.0f} MiB in use, of a budget of {budget / 2**20:.0f}"
        yield from (f"{name} is {value:g}" for name, value in self._served.gauges().items() if value)
        yield from (f"defect: {line}" for line in self._served.defects())


def ended(broken: Iterable[str]) -> int:
    """Prints the broken promises. Returns the exit status."""
    found = list(broken)
    for line in found:
        print(f"broken: {line}")
    return 1 if found else 0
