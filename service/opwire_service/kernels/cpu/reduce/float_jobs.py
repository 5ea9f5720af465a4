"""Jobs of float reductions: output elements that a cheap tier leaves open are recomputed by a more expensive one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop, Stopped
from ...layout import Loop
from ...reference.elements import Elements
from ..jit.compiler import Kernel
from ..numbers.accumulator import LIMBS
from ..run import geometry as g
from ..run.job import THREAD_BYTES, Job, KernelStep, StepsJob
from ..run.pool import Find, Pool
from ..run.tiling import WHOLE_ROW, ReductionTiling
from .column_states import SLACK_PLACES
from .open_sums import FEW_OPEN, OF_MANY
from .parameters import BATCH, COMPENSATED, OPEN, PLAIN, TIER

Exact = Callable[[Elements], Any]
"""Computes the exact result of some elements, however long it takes."""

_EXACT_CHUNK = 4096
"""Elements that exact arithmetic processes between two polls of ``stop``."""

_EXACT_BYTES = 1 << 20
"""Maximum memory of exact arithmetic on one such chunk, in bytes."""

_FLAGS = 1 << 16
"""Flags of output elements scanned at once."""

_HEAD = 8
"""Slots before the states of segments: a cache line, whose last slot tells whether any element is open."""


@dataclass(frozen=True, slots=True)
class FamilyKernels:
    """The kernels of a family.

    Attributes:
        rows, columns, finish: as in ``sums``.
        places: int64 slots of a segment's state for each tier, cheapest tier first.
        open_rows, open_columns: kernels of the more expensive tiers, as in ``open_sums``; None if there are none.
        exact: settles elements that all tiers leave open; None if the last tier leaves none.
    """

    rows: Any
    columns: Any
    finish: Any
    places: Mapping[int, int]
    open_rows: Any = None
    open_columns: Any = None
    exact: Callable[[np.dtype[Any]], Exact] | None = None

    @property
    def functions(self) -> tuple[Any, ...]:
        """The family's distinct kernels."""
        every = (self.rows, self.columns, self.finish, self.open_rows, self.open_columns)
        return tuple(dict.fromkeys(function for function in every if function is not None))


def float_job(functions: FamilyKernels, work: ReductionTiling, element: Any) -> Job:
    """Returns the job of a reduction that has been cut into units."""
    function = functions.columns if work.by_columns else functions.rows
    first = KernelStep(Kernel(function, element), work.geometry, work.units, work.elements)
    if work.segments > 1:
        return SegmentedJob(functions, first, work, element)
    if functions.exact is not None:
        return FlaggedJob(functions.exact, first, work)
    of_open = functions.open_columns if work.by_columns else functions.open_rows
    return StepsJob((first._replace(called=(OPEN, Kernel(of_open, element))),), 0)


class FlaggedJob(Job):
    """A reduction in one segment that flags the output elements left to exact arithmetic."""

    def __init__(self, exact: Callable[[np.dtype[Any]], Exact], first: KernelStep, work: ReductionTiling) -> None:
        self._exact = exact
        self._first = first
        self._work = work

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (self._first.kernel,)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        self.bind(inputs, outputs, find, pool)(stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        flags = np.empty(self._work.outputs, np.int8)
        first = self._first.bind(source.ctypes.data, target.ctypes.data, flags.ctypes.data, find, pool)
        return partial(self._run, first, source, target, flags)

    def _run(self, first: Bound, source: Array, target: Array, flags: Array, stop: Stop) -> None:
        flags.fill(0)
        first(stop)
        for output in _flagged(flags, stop):
            compute_exactly(self._exact, self._work, output, source, target, stop)

    def scratch_bytes(self, threads: int) -> int:
        return self._work.outputs + _EXACT_BYTES + threads * THREAD_BYTES


def _flagged(flags: Array, stop: Stop) -> Iterator[int]:
    """Yields the positions of nonzero flags, of which there may be billions.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    for start in range(0, flags.size, _FLAGS):
        if start and stop():
            raise Stopped
        for place in np.flatnonzero(flags[start : start + _FLAGS]).tolist():
            yield start + place


class SegmentedJob(Job):
    """A reduction in several segments, computed tier by tier: first all output elements, then those left open."""

    def __init__(self, functions: FamilyKernels, first: KernelStep, work: ReductionTiling, element: Any) -> None:
        self._functions = functions
        self._first = first
        self._work = work
        self._finish = KernelStep(Kernel(functions.finish, element), work.whole, work.outputs, work.segments)
        self._needed = self._first.kernel, self._finish.kernel
        self._columns = work.whole[g.COLUMNS] or 1
        self._all_again = self._make_all_again(element)
        self._again = tuple(self._one_element(tier, element) for tier in functions.places if tier != PLAIN)
        self._single = work.whole[:]
        self._single[g.COLUMNS], self._single[g.SEGMENT], self._single[g.SEGMENTS] = 0, work.whole[g.COUNT], 1
        is_short = functions.exact is None and work.layout.reduced_count <= WHOLE_ROW
        self._open = Kernel(functions.open_rows, element) if is_short and functions.open_rows is not None else None

    def _make_all_again(self, element: Any) -> tuple[KernelStep, ...]:
        """Returns the steps that recompute every output element with the second tier; none if no kernels do that."""
        if not self._work.by_columns or self._functions.open_columns is None:
            return ()
        steps = self._first._replace(kernel=Kernel(self._functions.open_columns, element)), self._finish
        geometries = [step.geometry[:] for step in steps]
        for geometry in geometries:
            geometry[TIER] = COMPENSATED
        return tuple(step._replace(geometry=geometry) for step, geometry in zip(steps, geometries, strict=True))

    def _one_element(self, tier: int, element: Any) -> tuple[KernelStep, KernelStep]:
        """Returns the steps for a single output element, which is selected by the addresses passed to them."""
        geometry = self._work.whole[:]
        geometry[g.KEPT_LOOPS] = geometry[g.COLUMNS] = 0
        geometry[TIER] = tier
        segments = self._work.segments
        rows = KernelStep(Kernel(self._functions.open_rows, element), geometry, segments, geometry[g.SEGMENT])
        return rows, KernelStep(Kernel(self._functions.finish, element), geometry, 1, segments)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (*self._needed, *self.later)

    @property
    def later(self) -> tuple[Kernel, ...]:
        steps = (*self._all_again, *(step for steps in self._again for step in steps))
        return tuple(dict.fromkeys(step.kernel for step in steps if step.kernel not in self._needed))

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        self.bind(inputs, outputs, find, pool)(stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        here, there = source.ctypes.data, target.ctypes.data
        states = _States(self._work.outputs * self._work.segments * self._functions.places[PLAIN])
        first = [step.bind(here, there, states.address, find, pool) for step in (self._first, self._finish)]

        def run(stop: Stop) -> None:
            if not states.leave_open(first, stop):
                return
            of_outputs = states.of(self._work.outputs, self._columns)
            many = np.count_nonzero(of_outputs) > max(FEW_OPEN, self._work.outputs // OF_MANY)
            if many and self._all_again:
                again = [step.bind(here, there, states.address, find, pool) for step in self._all_again]
                states.leave_open(again, stop)
            decide = self._decide(here, there, find)
            for output in _flagged(of_outputs, stop):
                if decide is None:
                    self._run_again(output, source, target, find, pool, stop)
                elif stop():
                    raise Stopped
                else:
                    decide(output)

        return run

    def _decide(self, source: int, target: int, find: Find) -> Callable[[int], None] | None:
        """Returns a function that recomputes an output element in one segment; None if that may take too long."""
        if self._open is None:
            return None
        state = np.zeros(4 * BATCH + LIMBS)  # of one sum of which nothing is known, see ``open_sums.rows``
        state[2 * BATCH] = math.inf
        state.view(np.int32)[7 * BATCH] = 1
        call, (geometry, _) = find(self._open).call, self._single.buffer_info()

        def decide(output: int) -> None:
            call(0, source, target, state.ctypes.data, geometry, output, output + 1)

        return decide

    def scratch_bytes(self, threads: int) -> int:
        places, outputs, segments = self._functions.places, self._work.outputs, self._work.segments
        again = segments * max(places.values())
        exact = 0 if self._functions.exact is None else _EXACT_BYTES
        return 8 * (outputs * (segments * places[PLAIN] + 1) + again) + exact + threads * THREAD_BYTES

    def _run_again(self, output: int, source: Array, target: Array, find: Find, pool: Pool, stop: Stop) -> None:
        from_source, to_target = offsets(self._work.layout.kept, output)
        here = source.ctypes.data + from_source * source.itemsize
        there = target.ctypes.data + to_target * target.itemsize
        states = _States(self._work.segments * max(self._functions.places.values()))
        for steps in self._again:
            if not states.leave_open([step.bind(here, there, states.address, find, pool) for step in steps], stop):
                return
        if self._functions.exact is not None:
            compute_exactly(self._functions.exact, self._work, output, source, target, stop)


class _States:
    """States of segments. The last step overwrites the first slot of an output's states with whether it is open."""

    def __init__(self, places: int) -> None:
        self._memory = np.empty(_HEAD + places + SLACK_PLACES, np.int64)
        self._states = self._memory[_HEAD : _HEAD + places]
        self.address = self._states.ctypes.data

    def of(self, outputs: int, columns: int) -> Array:
        """Returns the first slot of each output element's states; see ``column_states``."""
        return self._states.reshape(outputs // columns, -1, columns)[:, 0].ravel()

    def leave_open(self, steps: Sequence[Bound], stop: Stop) -> bool:
        """Runs steps; returns whether they leave any element open."""
        self._memory[_HEAD - 1] = 0
        for step in steps:
            step(stop)
        return bool(self._memory[_HEAD - 1])


def offsets(kept: tuple[Loop, ...], output: int) -> tuple[int, int]:
    """Returns the offsets, in elements, of an output element's first input element and of itself in the output."""
    place = np.unravel_index(output, tuple(loop.size for loop in kept)) if kept else ()
    source = sum(int(i) * loop.source for i, loop in zip(place, kept, strict=True))
    target = sum(int(i) * loop.target for i, loop in zip(place, kept, strict=True))
    return source, target


def compute_exactly(
    exact: Callable[[np.dtype[Any]], Exact],
    work: ReductionTiling,
    output: int,
    source: Array,
    target: Array,
    stop: Stop,
) -> None:
    """Computes one output element with exact arithmetic."""
    from_source, to_target = offsets(work.layout.kept, output)
    elements = Elements(_view(source, from_source, work.layout.reduced), stop, _EXACT_CHUNK)
    _view(target, to_target, ())[...] = exact(source.dtype)(elements)


@dataclass(frozen=True, slots=True)
class _ElementsAt:
    """Elements at an address, exposed through NumPy's array interface; ``owner`` keeps the memory alive."""

    __array_interface__: dict[str, object]
    owner: Array


def _view(array: Array, offset: int, loops: tuple[Loop, ...]) -> Array:
    """Returns the elements that loops visit, starting ``offset`` elements into an array's memory."""
    item = array.itemsize
    interface: dict[str, object] = {
        "version": 3,
        "typestr": array.dtype.str,
        "data": (array.ctypes.data + offset * item, False),
        "shape": tuple(loop.size for loop in loops),
        "strides": tuple(loop.source * item for loop in loops),
    }
    return np.asarray(_ElementsAt(interface, array))
