"""Kernels one after the other, by one call from Python.

Each of them fills the cache with numbers, so that Python in between would wait for its own memory, and threads for each
other's Python: a third of the time that a small tile takes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from ..jit.atomics import call
from ..jit.compiler import Entry, Kernel, kernel
from ..jit.element import INT64, float32, int64
from ..run.geometry import at
from ..run.pool import Find

FUNCTION, IS_FLOAT, SOURCE, TARGET, STATES, GEOMETRY, BEGIN, END = range(8)
"""Places of a call in the geometry: the address of the machine code, whether its ``zero`` is a FLOAT32, and what it
takes."""

SLOTS = 8


class KernelCall(NamedTuple):
    """What a kernel takes on one thread.

    Attributes:
        source, target, states, begin, end: see ``Entry``.
        geometry: likewise; it keeps its size.
        kept: what owns memory at these addresses.
    """

    source: int
    target: int
    states: int
    geometry: array[int]
    begin: int
    end: int
    kept: object = None

    def run(self, entry: Entry) -> None:
        entry.call(0, self.source, self.target, self.states, self.geometry.buffer_info()[0], self.begin, self.end)


class Calls:
    """Some calls.

    Args:
        calls: each of which needs no memory of its own, so that none fails.
        find: gives the kernels.
    """

    def __init__(self, calls: Sequence[tuple[Kernel, KernelCall]], find: Find) -> None:
        self._kept, self._run, self._count = calls, find(CALLS).call, len(calls)
        self._rows = array("q")
        for each, (*places, geometry, begin, end, _) in calls:
            addresses = *places, geometry.buffer_info()[0]
            self._rows.extend((find(each).address, each.is_float, *addresses, begin, end))
        self._place, _ = self._rows.buffer_info()

    def move(self, number: int, source: int) -> None:
        """Gives one of them another source."""
        self._rows[SLOTS * number + SOURCE] = source

    def run(self) -> None:
        self._run(0, 0, 0, 0, self._place, 0, self._count)


@kernel
def call_all(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Units are calls."""
    for unit in range(begin, end):
        here = geometry + 8 * SLOTS * unit
        function, row = at(here, FUNCTION), at(here, GEOMETRY)
        given, to, between = at(here, SOURCE), at(here, TARGET), at(here, STATES)
        if at(here, IS_FLOAT):
            call(function, float32(0), given, to, between, row, at(here, BEGIN), at(here, END))
        else:
            call(function, int64(0), given, to, between, row, at(here, BEGIN), at(here, END))


CALLS = Kernel(call_all, INT64)
