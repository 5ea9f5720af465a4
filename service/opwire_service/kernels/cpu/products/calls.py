"""Runs several kernels in sequence with a single call from Python.

Each kernel fills the cache with its data, so Python code in between would miss the cache, and threads would contend for
the GIL: a third of the time of a small tile.
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
"""Slots of a call in the geometry: address of the code, whether its ``zero`` is a FLOAT32, and its arguments."""

SLOTS = 8


class KernelCall(NamedTuple):
    """Arguments of a kernel on one thread.

    Attributes:
        source, target, states, begin, end: see ``Entry``.
        geometry: the geometry; it must not be resized.
        kept: owners of the memory at these addresses.
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
    """A sequence of kernel calls.

    Args:
        calls: the calls; their kernels must not allocate memory, so that none can fail.
        find: returns the kernels.
    """

    def __init__(self, calls: Sequence[tuple[Kernel, KernelCall]], find: Find) -> None:
        self._kept, self._run, self._count = calls, find(CALLS).call, len(calls)
        self._rows = array("q")
        for each, (*places, geometry, begin, end, _) in calls:
            addresses = *places, geometry.buffer_info()[0]
            self._rows.extend((find(each).address, each.is_float, *addresses, begin, end))
        self._place, _ = self._rows.buffer_info()

    def move(self, number: int, source: int) -> None:
        """Changes the source of a call."""
        self._rows[SLOTS * number + SOURCE] = source

    def run(self) -> None:
        self._run(0, 0, 0, 0, self._place, 0, self._count)


@kernel
def call_all(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Runs a range of calls; a unit is one call."""
    for unit in range(begin, end):
        here = geometry + 8 * SLOTS * unit
        function, row = at(here, FUNCTION), at(here, GEOMETRY)
        given, to, between = at(here, SOURCE), at(here, TARGET), at(here, STATES)
        if at(here, IS_FLOAT):
            call(function, float32(0), given, to, between, row, at(here, BEGIN), at(here, END))
        else:
            call(function, int64(0), given, to, between, row, at(here, BEGIN), at(here, END))


CALLS = Kernel(call_all, INT64)
