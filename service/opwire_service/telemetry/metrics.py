"""Metrics in 64-bit cells, with one row per worker process, summed over the rows when read.

Each process only writes to its own row, so no locks are needed. In shared memory a row outlives its process, and the
replacement continues its counters.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import getrandbits

import numpy as np
from numpy.typing import NDArray

from .declarations import (
    BOUNDS,
    COUNTED,
    DEVICE_METRICS,
    OPERATOR_SECONDS,
    OPERATOR_STAGE_SECONDS,
    OPERATORS,
    OTHER,
    OUTCOMES,
    REQUEST_SECONDS,
    REQUESTS,
    STAGE_SECONDS,
    STAGES,
    TIMES,
    TOTAL,
    Kind,
    Metric,
)
from .seats import NAME_CELLS, is_seat, name_cells, names, seat_label

_FIRST_BOUND = BOUNDS[0]
_TOTAL = STAGES.index(TOTAL)

_BEATS, _PID, _INSTANCE, _STARTED = range(4)
"""Cells besides the metrics: the heartbeat of a process, its ID and, in one row only, a random number that identifies
the server instance and its start time."""


class Layout:
    """The layout of the cells in a row, the same in all worker processes of a server.

    Args:
        devices: the server's own devices.
        routes: route labels.
        further: number of cells besides the metrics.
        seats: number of slots for devices that join and leave. Each row records the names of its own.

    Attributes:
        size: number of cells in a row.
        further: index of the first further cell.
        seats: see above.
        names: index of the first cell of the names.
    """

    def __init__(self, devices: Sequence[str], routes: Sequence[str], further: int = 0, seats: int = 0) -> None:
        values = {
            "operator": OPERATORS,
            "stage": STAGES,
            "route": (*routes, OTHER),
            "code": OUTCOMES,
            "device": (*devices, *map(seat_label, range(seats))),
        }
        self._places: dict[Metric, dict[tuple[str, ...], int]] = {}
        self.size = _STARTED + 1
        for metric in COUNTED:
            places = self._places[metric] = {}
            for labels in product(*(values[label] for label in metric.labels)):
                places[labels] = self.size
                self.size += metric.cells
        self.further = self.size
        self.size += further
        self.seats = seats
        self.names = self.size
        self.size += seats * NAME_CELLS

    def places(self, metric: Metric) -> Mapping[tuple[str, ...], int]:
        """Returns the index of a metric's first cell for each set of label values."""
        return self._places[metric]

    def row_bytes(self) -> int:
        """Returns the size of a row in bytes."""
        return self.size * 8


@dataclass(frozen=True, slots=True)
class Sample:
    """The value for one set of label values, summed over all processes.

    Attributes:
        labels: label values.
        value: value of a counter or gauge, or number of samples of a histogram.
        sum: sum of a histogram, in microseconds.
        buckets: counts per bucket of a histogram, not cumulative; the last has no upper bound.
    """

    labels: tuple[str, ...]
    value: float
    sum: int = 0
    buckets: tuple[int, ...] = ()


@dataclass(slots=True)
class _Route:
    """The cells of a route, looked up once."""

    seconds: int
    outcomes: dict[str, int] = field(default_factory=dict)


class Metrics:
    """The metrics of a process, with access to those of the other processes.

    Args:
        layout: layout of each row.
        memory: rows of all processes; None for a single process.
        row: index of this process's row.

    Attributes:
        layout, row: see above.
        cells: row of this process.
    """

    def __init__(self, layout: Layout, memory: memoryview | None = None, row: int = 0) -> None:
        is_alone = memory is None
        if memory is None:
            memory = memoryview(bytearray(layout.row_bytes()))
        self.layout = layout
        self.row = row
        self._memory = memory
        start = row * layout.row_bytes()
        self.cells = memory[start : start + layout.row_bytes()].cast("q")
        self.cells[_PID] = os.getpid()
        if is_alone:
            self.begin()
        self._seen: dict[int, int] = {}
        self._seats: dict[str, int] = {}
        self._stages: dict[str, dict[str, int]] = {}
        for (operator, stage), place in layout.places(TIMES).items():
            self._stages.setdefault(operator, {})[stage] = place
        self._routes = {route: _Route(place) for (route,), place in layout.places(REQUEST_SECONDS).items()}
        for (route, code), place in layout.places(REQUESTS).items():
            self._routes[route].outcomes[code] = place

    def begin(self) -> None:
        """Records the start of a server instance; called in one of its processes."""
        self.cells[_INSTANCE] = getrandbits(32)
        self.cells[_STARTED] = round(time.time() * 1000)

    def executed(self, operator: str, timing: Mapping[str, int]) -> None:
        """Counts an executed operator; ``timing`` has the microseconds per stage."""
        cells = self.cells
        places = self._stages[operator]
        for stage, microseconds in timing.items():
            place = places[stage]
            # Most stages end within the first bound, and the search would be half of the cost.
            if microseconds > _FIRST_BOUND:
                cells[place + 1 + bisect_left(BOUNDS, microseconds)] += 1
            else:
                cells[place + 1] += 1
            if microseconds:
                cells[place] += microseconds

    def ended(self, route: str, code: str, microseconds: int) -> None:
        """Counts a completed request; ``code`` is one of OUTCOMES. Routes not in the layout count as OTHER."""
        cells = self.cells
        places = self._routes.get(route) or self._routes[OTHER]
        cells[places.outcomes[code]] += 1
        place = places.seconds
        cells[place] += microseconds
        cells[place + 1 + (bisect_left(BOUNDS, microseconds) if microseconds > _FIRST_BOUND else 0)] += 1

    def add(self, metric: Metric, *labels: str) -> None:
        """Increments a counter."""
        self.cells[self.layout.places(metric)[labels]] += 1

    def set(self, metric: Metric, value: int, *labels: str) -> None:
        """Sets a gauge."""
        labels = tuple(seat_label(self._seats[label]) if label in self._seats else label for label in labels)
        self.cells[self.layout.places(metric)[labels]] = value

    def seat(self, device: str) -> bool:
        """Assigns a slot to a device that joins. Returns False if there is no free one."""
        if device in self._seats:
            return True
        taken = self._seats.values()
        free = next((number for number in range(self.layout.seats) if number not in taken), None)
        if free is None:
            return False
        self._seats[device] = free
        self._name(free, device)
        return True

    def unseat(self, device: str) -> None:
        """Frees the slot of a device that leaves."""
        number = self._seats.pop(device, None)
        if number is None:
            return
        for metric in DEVICE_METRICS:
            self.cells[self.layout.places(metric)[seat_label(number),]] = 0
        self._name(number, "")

    def _name(self, number: int, name: str) -> None:
        start = self.layout.names + number * NAME_CELLS
        for cell, value in enumerate(name_cells(name), start):
            self.cells[cell] = value

    def follow(self, metric: Metric, total: int, *labels: str) -> None:
        """Advances a counter to a total kept elsewhere in this process, which started at 0."""
        place = self.layout.places(metric)[labels]
        self.cells[place] += total - self._seen.get(place, 0)
        self._seen[place] = total

    def beat(self) -> None:
        """Records a heartbeat of this process."""
        self.cells[_BEATS] += 1

    def beats(self, row: int) -> int:
        """Returns the number of heartbeats recorded in a row."""
        start = row * self.layout.row_bytes()
        return self._memory[start : start + self.layout.row_bytes()].cast("q")[_BEATS]

    def clear_gauges(self, row: int) -> None:
        """Resets the gauges of a row whose process has ended."""
        start = row * self.layout.row_bytes()
        cells = self._memory[start : start + self.layout.row_bytes()].cast("q")
        cells[_PID] = 0
        for metric in COUNTED:
            if metric.kind is Kind.GAUGE:
                for place in self.layout.places(metric).values():
                    cells[place] = 0
        for place in range(self.layout.names, self.layout.size):
            cells[place] = 0

    def release(self) -> None:
        """Releases the memory. The metrics must not be used afterwards."""
        self.cells.release()
        self._memory.release()

    def rows(self) -> NDArray[np.int64]:
        """Returns the rows of all processes. Callers must not keep them: ``release`` fails while they are in use."""
        cells: NDArray[np.int64] = np.frombuffer(self._memory, np.int64)
        # The mapping is rounded up to whole pages.
        whole = len(cells) // self.layout.size
        return cells[: whole * self.layout.size].reshape(whole, -1)

    def processes(self) -> list[int]:
        """Returns the ID of the process of each row, or 0 if it has ended."""
        found: list[int] = self.rows()[:, _PID].tolist()
        return found

    def totals(self) -> Totals:
        """Returns the current sums over all processes."""
        rows = self.rows()
        return Totals(self.layout, rows.sum(axis=0), seated(self.layout, rows))

    def collect(self) -> Iterator[tuple[Metric, list[Sample]]]:
        """Yields every metric, summed over the rows, without the zeros of labeled counters and histograms."""
        summed = self.totals()
        yield from summed.durations()
        totals: list[int] = summed.cells.tolist()
        for metric in COUNTED:
            if metric is TIMES:
                continue
            places = self.layout.places(metric).items()
            samples = [_sample(metric, labels, totals, place) for labels, place in places if not is_seat(labels)]
            samples += [
                Sample((name,), counted[metric]) for name, counted in summed.joined.items() if metric in counted
            ]
            every = metric.kind is Kind.GAUGE or not metric.labels
            yield metric, [sample for sample in samples if every or sample.value]


class Totals:
    """The sums over all rows at one moment.

    Attributes:
        instance: identifier of the server instance.
        started: Unix time of its start, in seconds.
        joined: gauges of the devices that join and leave, see ``seated``.
        cells: the sum of each cell.
    """

    def __init__(
        self, layout: Layout, cells: NDArray[np.int64], joined: Mapping[str, Mapping[Metric, int]] | None = None
    ) -> None:
        self.joined = joined or {}
        self._layout = layout
        self.cells = cells
        self.instance = f"{int(cells[_INSTANCE]):08x}"
        self.started = int(cells[_STARTED]) / 1000

    def value(self, metric: Metric, *labels: str) -> int:
        """Returns the value of a counter or gauge."""
        if labels and labels[0] in self.joined:
            return self.joined[labels[0]][metric]
        return int(self.cells[self._layout.places(metric)[labels]])

    def stages(self) -> NDArray[np.int64]:
        """Returns stage durations of shape (operators, stages, cells): the sum in microseconds, then the buckets."""
        places = self._layout.places(TIMES)
        start = next(iter(places.values()), 0)
        size = len(places) * TIMES.cells
        return self.cells[start : start + size].reshape(-1, len(STAGES), TIMES.cells)

    def durations(self) -> Iterator[tuple[Metric, list[Sample]]]:
        """Yields the metrics of the durations of operators, without those that never ran."""
        stages = self.stages()
        rows: list[list[list[int]]] = stages.tolist()
        ran = [number for number, row in enumerate(rows) if any(row[_TOTAL][1:])]
        yield STAGE_SECONDS, [_histogram((stage,), row) for stage, row in _named(STAGES, stages.sum(axis=0).tolist())]
        yield OPERATOR_SECONDS, [_histogram((OPERATORS[number],), rows[number][_TOTAL]) for number in ran]
        yield (
            OPERATOR_STAGE_SECONDS,
            [
                Sample((OPERATORS[number], stage), row[0] / 1e6)
                for number in ran
                for stage, row in _named(STAGES, rows[number])
                if stage != TOTAL
            ],
        )

    def requests(self) -> dict[str, NDArray[np.int64]]:
        """Returns the counts of requests per route, in the order of ``OUTCOMES``."""
        places = self._layout.places(REQUESTS)
        starts = {route: place for (route, code), place in places.items() if code == OUTCOMES[0]}
        return {route: self.cells[place : place + len(OUTCOMES)] for route, place in starts.items()}


def seated(layout: Layout, rows: NDArray[np.int64]) -> dict[str, dict[Metric, int]]:
    """Returns the gauges of the currently joined devices by name, summed over the rows."""
    found: dict[str, dict[Metric, int]] = {}
    for row in rows:
        for number, name in names(row[layout.names : layout.size]):
            counted = found.setdefault(name, dict.fromkeys(DEVICE_METRICS, 0))
            for metric in DEVICE_METRICS:
                counted[metric] += int(row[layout.places(metric)[seat_label(number),]])
    return found


def _sample(metric: Metric, labels: tuple[str, ...], totals: Sequence[int], place: int) -> Sample:
    if metric.kind is not Kind.HISTOGRAM:
        return Sample(labels, totals[place])
    return _histogram(labels, totals[place : place + metric.cells])


def _histogram(labels: tuple[str, ...], cells: Sequence[int]) -> Sample:
    buckets = tuple(cells[1:])
    return Sample(labels, sum(buckets), cells[0], buckets)


def _named(names: Sequence[str], rows: Sequence[list[int]]) -> Iterator[tuple[str, list[int]]]:
    """Yields the cells of histograms that have counted something, with their names."""
    return ((name, row) for name, row in zip(names, rows, strict=True) if any(row[1:]))
