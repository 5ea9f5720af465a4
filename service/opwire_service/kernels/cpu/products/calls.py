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
from ..jit.element import INT64, float32, int64, store
from ..jit.records import Record, Row, width_of
from ..run.pool import Find


class Call(Record):
    """A call: address of the code, whether its ``zero`` is a FLOAT32, and its other arguments."""

    function: int
    is_float: bool
    source: int
    target: int
    states: int
    geometry: int
    begin: int
    end: int


_SOURCE = Call.source.place  # type: ignore[attr-defined] # of the class, it is the field


class KernelCall(NamedTuple):
    """Arguments of a kernel on one thread.

    Attributes:
        source, target, states, begin, end: see ``Entry``.
        geometry: the geometry.
        kept: owners of the memory at these addresses.
    """

    source: int
    target: int
    states: int
    geometry: Record
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
        self._kept, self._run = calls, find(CALLS).call
        self._rows = rows_of(calls, find)

    def move(self, number: int, source: int) -> None:
        """Changes the source of a call."""
        self._rows[number * width_of(Call) + _SOURCE] = source

    def run(self, first: int = 0) -> None:
        """Runs the calls from ``first`` on."""
        self._run(0, 0, 0, 0, self._rows.buffer_info()[0], first, len(self._kept))


def rows_of(calls: Sequence[tuple[Kernel, KernelCall]], find: Find) -> array[int]:
    """Returns the calls as rows of ``Call``; whoever uses them keeps the memory of the calls alive."""
    rows = array("q")
    for one, (*addresses, geometry, begin, end, _) in calls:
        place, _ = geometry.buffer_info()
        rows.extend((find(one).address, one.is_float, *addresses, place, begin, end))
    return rows


@kernel
def call_all(zero: int, source: int, target: int, states: int, geometry: Row[Call], begin: int, end: int) -> None:
    """Runs a range of calls; a unit is one call."""
    for unit in range(begin, end):
        one = geometry[unit]
        if one.is_float:
            call(one.function, float32(0), one.source, one.target, one.states, one.geometry, one.begin, one.end)
        else:
            call(one.function, int64(0), one.source, one.target, one.states, one.geometry, one.begin, one.end)


@kernel
def clear(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Stores zeros; a unit is a float64."""
    for unit in range(begin, end):
        store(target, unit, 0.0)


CALLS, CLEAR = Kernel(call_all, INT64), Kernel(clear, INT64)
